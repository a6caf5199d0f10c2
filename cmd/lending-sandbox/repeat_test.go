package main

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/lendingtest"
)

// hostile is a command that a reader must not run by copying a line.
const hostile = "'; touch pwned; $(touch pwned) `touch pwned` \" \\ !! $TOKEN"

// The shell reads from a curl line the sent request, with variables for secrets.
func TestCurl(t *testing.T) {
	request := func(method, target, body string, more ...func(*lendingtest.Request)) lendingtest.Request {
		path, query, _ := strings.Cut(target, "?")
		r := lendingtest.Request{
			Method: method, Path: path, Query: query, Body: []byte(body), BodySize: int64(len(body)),
			Header: http.Header{"Content-Type": {"application/json"}},
		}
		for _, f := range more {
			f(&r)
		}
		return r
	}
	const form = "Content-Type: application/json"
	withToken := func(r *lendingtest.Request) { r.HasToken = true }
	for _, test := range []struct {
		name string
		r    lendingtest.Request
		want []string
	}{
		{"a read", request("GET", "/api/x", ""), []string{"http://h/api/x"}},
		{
			"a token", request("GET", "/api/x", "", withToken),
			[]string{"http://h/api/x", "-H", "Authorization: Bearer T0"},
		},
		{"a mutation", request("POST", "/api/x", ""), []string{"-X", "POST", "http://h/api/x"}},
		{
			"a body", request("POST", "/api/x", `{"b":1.50,"a":"<&>"}`),
			[]string{"http://h/api/x", "-H", form, "-d", `{"a":"<&>","b":1.50}`},
		},
		{
			"another type", request("POST", "/api/x", `[]`,
				func(r *lendingtest.Request) { r.Header.Set("Content-Type", hostile) }),
			[]string{"http://h/api/x", "-H", "Content-Type: " + hostile, "-d", "[]"},
		},
		{"a read with a body", request("GET", "/api/x", `{}`), []string{
			"-X", "GET", "http://h/api/x", "-H", form, "-d",
			"{}",
		}},
		{"a file", request("POST", "/api/x", `"QUJD"`), []string{
			"http://h/api/x", "-H", form, "--data-binary",
			"@B0",
		}},
		{
			"no JSON", request("POST", "/api/x", `{"password":"Se`),
			[]string{"http://h/api/x", "-H", form, "--data-binary", "@B0"},
		},
		{"two values", request("POST", "/api/x", `{} {}`), []string{
			"http://h/api/x", "-H", form, "--data-binary",
			"@B0",
		}},
		{
			"a long body", request("POST", "/api/x", `["`+strings.Repeat("x", bodyShown)+`"]`),
			[]string{"http://h/api/x", "-H", form, "--data-binary", "@B0"},
		},
		{
			"secrets",
			request("POST", "/api/x?code=Se&ssn=Se&%73sn=Se&name=a",
				`{"Password":"Se","trustedDeviceToken":"Se","a":[{"CODE":"Se"}],"otp":{"b":"Se"},"signature2":"Se",`+
					`"customer_ssn":1,"homeSSN":"Se","businessName":"b","zipCode":"c"}`),
			[]string{
				"http://h/api/x?code=C0&ssn=S0&%73sn=S0&name=a", "-H", form, "-d",
				`{"Password":"P0","a":[{"CODE":"C0"}],"businessName":"b","customer_ssn":"S0","homeSSN":"S0",` +
					`"otp":"O0","signature2":"I0","trustedDeviceToken":"D0","zipCode":"c"}`,
			},
		},
		{
			"the shell", request(hostile, "/api/"+hostile+"?"+hostile, `{"a":`+text(hostile)+`}`),
			[]string{
				"-X", hostile, "http://h/api/" + hostile + "?" + hostile, "-H", form, "-d",
				`{"a":` + text(hostile) + `}`,
			},
		},
		{
			"curl", request("GET", "/api/{a}/../[1-9]", ""),
			[]string{"--globoff", "--path-as-is", "http://h/api/{a}/../[1-9]"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			line := curl("http://h", "", test.r)
			assert.NotContains(t, line, `Se"`, test.name)
			assert.NotContains(t, line, `Se&`, test.name)
			assert.NotContains(t, line, mark, test.name)
			cmd := exec.CommandContext(t.Context(), "sh", "-c", `curl() { printf '%s\n' "$@"; }; `+line)
			cmd.Dir = t.TempDir()
			cmd.Env = []string{
				"TOKEN=T0", "BODY=B0", "PASSWORD=P0", "CODE=C0", "SSN=S0", "OTP=O0", "SIGNATURE=I0",
				"TRUSTEDDEVICETOKEN=D0",
			}
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, test.name)
			assert.Equal(t, append([]string{"-s"}, test.want...), strings.Split(strings.TrimSuffix(string(out), "\n"),
				"\n"), test.name)
			left, err := os.ReadDir(cmd.Dir)
			require.NoError(t, err)
			assert.Empty(t, left, test.name)
		})
	}
	assert.True(t, strings.HasPrefix(curl("https://h", "a b.pem", request("GET", "/", "")),
		"curl -s --cacert 'a b.pem' 'https://h/'"))
}

func text(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// Every route has its method of package lending.
func TestMethods(t *testing.T) {
	table, err := os.ReadFile("../../testdata/routes.tsv")
	require.NoError(t, err)
	want := map[string]string{}
	for _, line := range strings.Split(strings.TrimSpace(string(table)), "\n")[1:] {
		column := strings.Split(line, "\t")
		want[column[1]+" "+column[2]] = column[0]
	}
	assert.Equal(t, want, methods)
}
