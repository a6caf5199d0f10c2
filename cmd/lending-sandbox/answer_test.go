package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lendingapi/lending-go/lendingtest"
)

// The page shows no secret of a response.
func TestShownAnswer(t *testing.T) {
	const signIn = "POST /api/Authenication/login"
	for _, test := range []struct {
		name, route, body, want string
		status                  int
	}{
		{"nothing", "", "", "", 200},
		{"numbers as they are", "", `{"b":1.50}`, "{\n  \"b\": 1.50\n}", 200},
		{
			"secrets", "", `{"Password":"Se","trustedDeviceToken":"Se","a":[{"CODE":"Se"}],"otp":{"b":"Se"},"signature2":"Se",` +
				`"customer_ssn":1,"homeSSN":"Se","zipCode":"c"}`,
			`{"Password":"$PASSWORD","a":[{"CODE":"$CODE"}],"customer_ssn":"$SSN","homeSSN":"$SSN","otp":"$OTP",` +
				`"signature2":"$SIGNATURE","trustedDeviceToken":"$TRUSTEDDEVICETOKEN","zipCode":"c"}`, 200,
		},
		{"a page of a sign-in", signIn, "<p>Se</p>", "not shown", 200},
		{"two values of a sign-in", signIn, `"a" "Se"`, "not shown", 200},
		{"a token", signIn, `"Se"`, "$TOKEN", 200},
		{"a refusal", signIn, `no`, "no", 400},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := shownAnswer(lendingtest.Request{Route: test.route, Status: test.status, Answer: []byte(test.body)})
			if test.name == "secrets" {
				assert.JSONEq(t, test.want, got)
			} else {
				assert.Equal(t, test.want, got)
			}
		})
	}
}
