package canonical_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lendingapi/lending-go/internal/canonical"
)

func TestEqualRequestsHaveOneForm(t *testing.T) {
	for _, test := range []struct {
		name  string
		forms []string
	}{
		{"nothing", []string{``, `{}`, `null`, `[]`, `{"a":null,"b":"","c":0,"d":false,"e":[],"f":{"g":{}},"h":-0.0e7}`}},
		{"the order of members", []string{`{"a":1,"b":{"c":2,"d":3}}`, `{"b":{"d":3,"c":2},"a":1}`}},
		{"numbers", []string{`{"a":1000}`, `{"a":1e3}`, `{"a":1000.0}`, `{"a":10.00E+2}`, `{"a":100000e-2}`}},
		{"fractions", []string{`{"a":-0.125}`, `{"a":-125e-3}`, `{"a":-0.12500}`, `{"a":-1.25e-1}`}},
		{"times", []string{`["2026-03-04T05:06:07Z"]`, `["2026-03-04T06:06:07+01:00"]`, `["2026-03-04T05:06:07.000Z"]`}},
		{"a secret", []string{`{"a":1}`, `{"a":1,"otp":"[redacted]"}`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := canonical.JSON([]byte(test.forms[0]))
			for _, form := range test.forms {
				assert.Equal(t, string(want), string(canonical.JSON([]byte(form))), form)
			}
		})
	}
}

func TestDifferentRequestsHaveDifferentForms(t *testing.T) {
	seen := map[string]string{}
	for _, body := range []string{
		`{}`, `{"a":1}`, `{"a":-1}`, `{"a":10}`, `{"a":"1"}`, `{"a":true}`, `{"b":1}`, `{"a":[1]}`,
		`{"a":{"a":1}}`, `{"a":1.1}`, `[0]`, `[0,1]`, `[1,0]`, `{"a":1e999999999999999999999}`,
		`{"a":"2026-03-04T05:06:07Z"}`, `{"a":"2026-03-04T05:06:08Z"}`,
		`{"a":12345678901234567890.1}`, `{"a":12345678901234567890.2}`,
	} {
		form := string(canonical.JSON([]byte(body)))
		assert.NotContains(t, seen, form, "%s and %s", body, seen[form])
		seen[form] = body
	}
}
