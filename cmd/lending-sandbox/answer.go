package main

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/lendingapi/lending-go/lendingtest"
)

// Values under these names are never shown. The page has a variable such as $PASSWORD instead.
var secretName = regexp.MustCompile(`(?i:trustedDeviceToken|password|token|secret|^code$|^signature|(?:^|[_-])(?:ssn|otp))|SSN|Ssn|OTP|Otp`)

// hideSecrets replaces the secrets in a decoded JSON value, and changes v.
func hideSecrets(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if secret := secretName.FindString(name); secret != "" {
				v[name] = "$" + strings.ToUpper(strings.Trim(secret, "_-"))
			} else {
				v[name] = hideSecrets(value)
			}
		}
	case []any:
		for i := range v {
			v[i] = hideSecrets(v[i])
		}
	}
	return v
}

// shownAnswer returns the response of a request without secrets.
func shownAnswer(r lendingtest.Request) string {
	signIn := strings.Contains(r.Route, "/Authenication/")
	var body any
	d := json.NewDecoder(bytes.NewReader(r.Answer))
	d.UseNumber()
	ok := json.Valid(r.Answer) && d.Decode(&body) == nil
	_, bare := body.(string)
	switch {
	case signIn && !ok && len(r.Answer) > 0 && r.Status < 400:
		return "not shown"
	case !ok || r.Status >= 400:
		return pretty(r.Answer)
	case signIn && bare:
		return "$TOKEN"
	}
	shown, err := json.MarshalIndent(hideSecrets(body), "", "  ")
	if err != nil { // never: was decoded
		return ""
	}
	return string(shown)
}
