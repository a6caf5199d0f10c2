package main

import (
	"bytes"
	"crypto/rand"
	_ "embed" // for methods.txt
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/lendingapi/lending-go/lendingtest"
)

// bodyShown limits the body in a curl line; a longer body comes from a file.
const bodyShown = 4 << 10

// Values under these names are never shown. The line has a shell variable instead.
var secretName = regexp.MustCompile(`(?i:trustedDeviceToken|password|token|secret|^code$|^signature|(?:^|[_-])(?:ssn|otp))|SSN|Ssn|OTP|Otp`)

// mark surrounds the name of a variable until the line has its quotes. The mark is random, so a
// request cannot contain it and make a reader send another variable.
var (
	mark     = rand.Text()
	variable = regexp.MustCompile(mark + `([A-Z]+)` + mark)
)

// hide returns the value, or for a secret the variable with its name.
func hide(name string, value any) any {
	if secret := secretName.FindString(name); secret != "" {
		return mark + strings.ToUpper(strings.Trim(secret, "_-")) + mark
	}
	return value
}

// curl returns a request as a curl line. Secrets are variables: $TOKEN, $PASSWORD, $CODE. A body
// that is long, or is no JSON object or array, is the file $BODY.
func curl(base, certificate string, r lendingtest.Request) string {
	line := "curl -s"
	if certificate != "" {
		line += " --cacert " + quote(certificate)
	}
	target := r.Path
	if r.Query != "" {
		target += "?" + hideQuery(r.Query)
	}
	if strings.ContainsAny(target, "[]{}") {
		line += " --globoff"
	}
	if strings.Contains(target, "/.") {
		line += " --path-as-is"
	}
	if r.Method == http.MethodHead {
		line += " -I" // otherwise curl waits for a body
	} else if usual := r.BodySize == 0 && r.Method == http.MethodGet || r.BodySize > 0 && r.Method == http.MethodPost; !usual {
		line += " -X " + quote(r.Method)
	}
	line += " " + quote(base+target)
	if r.HasToken {
		line += ` -H "Authorization: Bearer $TOKEN"`
	}
	if r.BodySize == 0 {
		return line
	}
	line += " -H " + quote("Content-Type: "+r.Header.Get("Content-Type"))
	if body, ok := hideBody(r); ok {
		return line + " -d " + quote(body)
	}
	return line + ` --data-binary "@$BODY"`
}

// quote returns text as a single word of the shell, in quotes.
func quote(text string) string {
	word := "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	word = variable.ReplaceAllString(word, `'"$$$1"'`)
	if cut, ok := strings.CutSuffix(word, `"''`); ok { // the word ends with a variable
		return cut + `"`
	}
	return word
}

// word returns text as a single word of the shell, in quotes only if needed.
func word(text string) string {
	if strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./") == "" {
		return text
	}
	return quote(text)
}

func hideQuery(query string) string {
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		name, value, found := strings.Cut(pair, "=")
		plain, _ := url.QueryUnescape(name)
		if shown := hide(plain, value); found && shown != value {
			pairs[i] = name + "=" + shown.(string)
		}
	}
	return strings.Join(pairs, "&")
}

func hideBody(r lendingtest.Request) (shown string, ok bool) {
	if r.BodySize > bodyShown {
		return "", false
	}
	body, ok := decoded(r.Body)
	switch body.(type) {
	case map[string]any, []any:
		return encoded(hideValues(body), ""), ok
	}
	return "", false // probably a file
}

// decoded returns a JSON value, or false if text is something else.
func decoded(text []byte) (value any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if d.Decode(&value) != nil {
		return nil, false
	}
	_, err := d.Token() // more input may follow, for example an extra bracket
	return value, err == io.EOF
}

// encoded returns a decoded value as JSON.
func encoded(value any, indent string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	_ = e.Encode(value) //nolint:errchkjson // was decoded, so it can be encoded
	return strings.TrimSpace(b.String())
}

// hideValues hides the secrets in v and changes v.
func hideValues(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			v[name] = hide(name, hideValues(value))
		}
	case []any:
		for i := range v {
			v[i] = hideValues(v[i])
		}
	}
	return v
}

// methodsText has the client's method for each route, for example Loans.Get.
//
//go:embed methods.txt
var methodsText string

var methods = func() map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(methodsText) {
		route, method, _ := strings.Cut(strings.TrimSpace(line), "\t")
		all[route] = method
	}
	return all
}()

// docs returns the address of the documentation of a route's method, or "".
func docs(route string) string {
	service, name, ok := strings.Cut(methods[route], ".")
	if !ok {
		return ""
	}
	return "https://pkg.go.dev/github.com/lendingapi/lending-go#" + service + "Service." + name
}

// shownAnswer returns the response of a request, with variables instead of secrets.
func shownAnswer(r lendingtest.Request) string {
	signIn := strings.Contains(r.Route, "/Authenication/")
	body, ok := decoded(r.Answer)
	_, bare := body.(string)
	switch {
	case len(r.Answer) == 0:
		return ""
	case signIn && !ok && r.Status < 400:
		return "not shown"
	case !ok || r.Status >= 400:
		return pretty(r.Answer)
	case signIn && bare:
		return "$TOKEN"
	}
	return variable.ReplaceAllString(encoded(hideValues(body), "  "), "$$$1")
}
