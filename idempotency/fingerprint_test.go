package idempotency_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/internal/redact"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/seeds"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

// printed is a layer for the last request and its fingerprint. It sends nothing.
type printed struct {
	raw   lending.RawRequest
	body  []byte
	print string
	first string // by the rule of the release 0.1
}

var errPrinted = errors.New("printed")

func (p *printed) Do(ctx context.Context, _ string, call *lending.MutationCall,
	_ func(context.Context) (*lending.Response, error),
) (*lending.Response, error) {
	p.raw = lending.RawRequest{Method: call.Method(), Path: call.Route(), Args: call.Args(), Query: call.Query()}
	p.body = call.Body()
	sum, err := call.Fingerprint(ctx, []byte("salt"))
	first, failed := call.FormerFingerprint(ctx, []byte("salt"))
	p.print, p.first = string(sum), string(first)
	return nil, cmp.Or(err, failed, errPrinted)
}

// TestFingerprintIsOfTheRequest writes the request of every mutation as other releases could: with
// other orders of members, new members with zero values, without the members with zero values, and with
// other spellings of numbers and times. The fingerprint stays. It changes with each value.
func TestFingerprintIsOfTheRequest(t *testing.T) {
	random := rand.New(rand.NewPCG(uint64(seeds.FromEnvironment(t, seeds.Variable, 1)), 0))
	layer := &printed{}
	client := wire.NewClient(t, "https://lending.example", lending.WithIdempotency(layer),
		lending.WithTokenSource(lending.StaticToken("test-token")))
	ctx := lending.WithIdempotencyKey(t.Context(), "the/key")
	printOf := func(raw lending.RawRequest, body string) string {
		if raw.Body = nil; body != "" {
			raw.Body = json.RawMessage(body)
		}
		_, err := client.Do(ctx, raw)
		require.ErrorIs(t, err, errPrinted)
		return layer.print
	}
	routes := catalog.Routes(t)
	for _, name := range slices.Sorted(maps.Keys(checkRows)) {
		if checkRows[name].how == noKey || catalog.IsUpload(routes[name]) { // see TestFingerprintCoversTheUpload
			continue
		}
		t.Run(name, func(t *testing.T) {
			_, err := catalog.Calls[name](ctx, client)
			require.ErrorIs(t, err, errPrinted)
			raw, want := layer.raw, layer.print
			var body any
			if layer.body != nil {
				body = decoded(t, layer.body)
			}
			for range 50 {
				text := rewritten(random, body)
				require.Equal(t, want, printOf(raw, text), text)
			}
			for changed := range changes(body) {
				assert.NotEqual(t, want, printOf(raw, changed), changed)
			}
			unchanged := rewritten(random, body)
			for i := range raw.Args {
				other := raw
				other.Args = slices.Clone(raw.Args)
				other.Args[i] += "7"
				assert.NotEqual(t, want, printOf(other, unchanged))
			}
			for param := range raw.Query {
				other := raw
				other.Query = url.Values{}
				maps.Copy(other.Query, raw.Query)
				other.Query[param] = []string{raw.Query.Get(param) + "7"}
				assert.NotEqual(t, want, printOf(other, unchanged))
				other.Query[param+"7"] = raw.Query[param]
				delete(other.Query, param)
				assert.NotEqual(t, want, printOf(other, unchanged), "the value of another parameter")
			}
		})
	}
}

func decoded(t *testing.T, text []byte) (value any) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&value))
	return value
}

// rewritten returns value as JSON in another form with the same meaning.
func rewritten(random *rand.Rand, value any) string {
	switch value := value.(type) {
	case map[string]any:
		var members []string
		for name, member := range value {
			isZero := slices.Contains([]any{"", false, nil, json.Number("0")}, plain(member))
			if !isZero || random.IntN(2) == 0 {
				members = append(members, strconv.Quote(name)+":"+rewritten(random, member))
			}
		}
		for n := range random.IntN(3) {
			zeros := []string{`null`, `""`, `0`, `0.00`, `false`, `[]`, `{}`, `{"a":{"b":null}}`}
			members = append(members, fmt.Sprintf(`"later%d":%s`, n, zeros[random.IntN(len(zeros))]))
		}
		random.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		return "{" + strings.Join(members, " , ") + "}"
	case []any:
		var elements []string
		for _, element := range value {
			elements = append(elements, rewritten(random, element))
		}
		return "[" + strings.Join(elements, ",") + "]"
	case json.Number:
		switch text := value.String(); {
		case random.IntN(2) == 0:
			return text
		case strings.ContainsRune(text, '.'):
			return text + "00e0"
		default:
			return text + "000E-3"
		}
	case string:
		if at, err := time.Parse(time.RFC3339, value); err == nil {
			value = at.In(time.FixedZone("", random.IntN(10)*3600)).Format(time.RFC3339Nano)
		}
		return string(fake.Must(json.Marshal(value)))
	case nil:
		return ""
	}
	return fmt.Sprint(value)
}

// plain returns value if it can be compared.
func plain(value any) any {
	switch value.(type) {
	case map[string]any, []any:
		return 1
	}
	return value
}

// changes yields value as JSON with each of its leaves changed in turn, except for secrets.
func changes(value any) func(func(string) bool) {
	return func(yield func(string) bool) {
		var walk func(value any, set func(any)) bool
		walk = func(at any, set func(any)) bool {
			change := func(to any) bool {
				set(to)
				ok := yield(string(fake.Must(json.Marshal(value))))
				set(at)
				return ok
			}
			switch at := at.(type) {
			case map[string]any:
				for name, member := range at {
					if !walk(member, func(to any) { at[name] = to }) {
						return false
					}
				}
			case []any:
				for i, element := range at {
					if !walk(element, func(to any) { at[i] = to }) {
						return false
					}
				}
			case json.Number:
				return change(at+"1") && change("-"+at)
			case string:
				return at == redact.Placeholder || change(at+"x") && (at == "" || change(""))
			case bool:
				return change(!at)
			}
			return true
		}
		walk(value, func(any) {})
	}
}

// TestFingerprintCoversTheUpload by name, size and, where the content can be read twice, by it.
func TestFingerprintCoversTheUpload(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		o, client := newOrder(service), process()
		const submit = "POST /api/Application/submit-bankstatement-document/{applicationId}"
		upload := func(document lending.Document) error {
			return client.Applications.SubmitBankStatement(lending.WithIdempotencyKey(t.Context(), "statement"),
				o.application, document)
		}
		file := strings.NewReader("xx%PDF-1.7")
		_, _ = file.Seek(2, 0)
		require.NoError(t, upload(lending.Document{Name: "a.pdf", Content: file}))
		require.NoError(t, upload(lending.Document{Name: "a.pdf", Content: bytes.NewBufferString("%PDF-1.7")}),
			"the same content, from elsewhere")
		assert.Equal(t, 1, service.Executed(submit))
		for _, other := range []lending.Document{
			{Name: "b.pdf", Content: strings.NewReader("%PDF-1.7")},
			{Name: "a.pdf", Content: strings.NewReader("%PDF-1.8")},
			{Name: "a.pdf", Content: strings.NewReader("%PDF-1.7 ")},
		} {
			require.ErrorIs(t, upload(other), idempotency.ErrKeyReused)
		}
		assert.Equal(t, 1, service.Executed(submit))
	})
}

// TestSecretsOfExtraTellRequestsApart has two payees that differ in a secret alone. Passwords and codes, which change
// from try to try, and the entries of the release 0.1 keep one fingerprint.
func TestSecretsOfExtraTellRequestsApart(t *testing.T) {
	layer := &printed{}
	client := wire.NewClient(t, "https://lending.example", lending.WithIdempotency(layer),
		lending.WithTokenSource(lending.StaticToken("test-token")))
	for _, test := range []struct {
		name string
		same bool
		body func(secret lending.Secret) any
	}{
		{"accountNumber", false, func(s lending.Secret) any { return map[string]lending.Secret{"accountNumber": s} }},
		{"in a list", false, func(s lending.Secret) any { return map[string]any{"to": []any{map[string]any{"iban": s}}} }},
		{"list of secrets", false, func(s lending.Secret) any { return map[string]any{"ibans": []lending.Secret{s}} }},
		{"in a record", false, func(s lending.Secret) any {
			return catalog.Unpublished{"of": lending.PrimaryApplicantRequest{Extra: catalog.Unpublished{"ssn": s}}}
		}},
		{"Password", true, func(s lending.Secret) any { return map[string]lending.Secret{"newPassword": s} }},
		{"one-time code", true, func(s lending.Secret) any { return map[string]any{"sms": map[string]any{"SMSCode": s}} }},
		{"pin", true, func(s lending.Secret) any { return catalog.Unpublished{"pin": s} }},
		{"list of one-time passwords", true, func(s lending.Secret) any { return map[string]any{"otp": []any{s}} }},
		{"token in a record", true, func(s lending.Secret) any {
			return catalog.Unpublished{"of": lending.PrimaryApplicantRequest{Extra: catalog.Unpublished{"token": s}}}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var prints, first []string
			for _, secret := range []string{"000111222", "000111223"} {
				request := lending.PrimaryApplicantRequest{Extra: test.body(lending.NewSecret(secret))}
				ctx := lending.WithIdempotencyKey(t.Context(), "the/key")
				require.ErrorIs(t, client.Approval.AddPrimaryApplicantDetails(ctx, catalog.Application, request), errPrinted)
				prints, first = append(prints, layer.print), append(first, layer.first)
				assert.NotContains(t, string(layer.body), secret)
			}
			assert.Equal(t, test.same, prints[0] == prints[1])
			assert.Equal(t, first[0], first[1])
		})
	}
}

// TestFingerprintsOfEarlierReleasesStay for requests that had another form on the wire: no body in
// place of null, days with a zone, and a time with nanoseconds.
func TestFingerprintsOfEarlierReleasesStay(t *testing.T) {
	layer := &printed{}
	client := wire.NewClient(t, "https://lending.example", lending.WithIdempotency(layer),
		lending.WithTokenSource(lending.StaticToken("test-token")))
	for _, test := range []struct {
		name, want string
		call       func(ctx context.Context) error
	}{
		{"nil body", "41a6f9dd706500c1052d508717c39f7e2a7c6a7a6f0ceb5c1b832dcacd81654a", func(ctx context.Context) error {
			_, err := client.Applications.QuickTest(ctx, catalog.OtherApplication, nil)
			return err
		}},
		{"day", "98e7ac3fd4f65faaad3b18b6da46e7d17d8825c4e0a702a59888e82bcbd15fb4", func(ctx context.Context) error {
			_, err := client.Applications.UpdateData(ctx, catalog.OtherApplication,
				lending.ApplicationData{Name: "N", ZipCode: "94105", StartDate: catalog.Start})
			return err
		}},
		{"nanoseconds", "7f93c9986c3082cb9f6d6373b24bc8b206c5a1045a0c498c49e23e15a8cb7c89", func(ctx context.Context) error {
			_, err := client.Loans.ConfirmInvoiceWithdrawal(ctx, catalog.Withdrawal(),
				lending.WithdrawInvoiceRequestData{DateUTC: catalog.Date.Add(123_456_789), OTP: lending.NewSecret("012345")})
			return err
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.Error(t, test.call(lending.WithIdempotencyKey(t.Context(), "the/key")))
			assert.Equal(t, test.want, fmt.Sprintf("%x", layer.first))
		})
	}
}
