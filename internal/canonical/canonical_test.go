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
			want := canonical.Current.JSON([]byte(test.forms[0]))
			for _, form := range test.forms {
				assert.Equal(t, string(want), string(canonical.Current.JSON([]byte(form))), form)
			}
		})
	}
}

func TestDifferentRequestsHaveDifferentForms(t *testing.T) {
	seen := map[string]string{}
	for _, body := range []string{
		`{}`, `{"a":1}`, `{"a":-1}`, `{"a":10}`, `{"a":"1"}`, `{"a":true}`, `{"b":1}`, `{"a":[1]}`,
		`{"a":{"a":1}}`, `{"a":1.1}`, `[0]`, `[0,1]`, `[1,0]`, `[false,1]`, `[null,1]`, `["",1]`, `[{},1]`, `[[],1]`,
		`{"a":1e999999999999999999999}`,
		`{"a":"2026-03-04T05:06:07Z"}`, `{"a":"2026-03-04T05:06:08Z"}`,
		`{"a":12345678901234567890.1}`, `{"a":12345678901234567890.2}`,
	} {
		form := string(canonical.Current.JSON([]byte(body)))
		assert.NotContains(t, seen, form, "%s and %s", body, seen[form])
		seen[form] = body
	}
}

// The rule of the release 0.1 does not tell zero values of a list apart, and numbers of a query by their text.
func TestEntriesKeepTheRuleOfTheirRelease(t *testing.T) {
	assert.Equal(t, `[null,5e0]`, string(canonical.V01.JSON([]byte(`[0,5]`))))
	assert.Equal(t, `[0,5e0]`, string(canonical.Current.JSON([]byte(`[0,5]`))))
	for _, number := range []string{"1", "1.0", "10e-1"} {
		assert.Equal(t, "1e0", canonical.Current.Text(number))
		assert.Equal(t, number, canonical.V01.Text(number))
	}
	for _, text := range []string{"", "01", "1 ", "true", "e", "-"} {
		assert.Equal(t, text, canonical.Current.Text(text))
	}
}
