package openapi_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const partner = "partnerId=" + lendingtest.PartnerID

// TestEveryRouteIsDescribed calls every route, in every broken form and in a valid form, and
// compares requests and responses with the description.
func TestEveryRouteIsDescribed(t *testing.T) {
	s := newSuite(t)
	secret := s.journey()
	nobody := s.request("getCustomerByEmail", "email=nobody@example.com", "")
	nobody.want = []int{204}
	s.send(nobody)
	administrators := s.request("getAllSubscriptions", "", "")
	administrators.want = []int{403}
	s.send(administrators)
	s.deliveries(secret)

	for id, op := range s.operations {
		assert.Positive(t, s.done[id], "%s was never exercised", op.route())
	}
	for _, more := range []string{noContent, mediaType} {
		assert.Positive(t, s.beyond[more], "the fake no longer departs: %s", more)
	}
}

// journey takes the steps of lendingtest/testdata/journey.txt, which has their form, and returns the secret of the
// subscription.
func (s *suite) journey() (secret string) {
	s.Helper()
	steps, err := os.ReadFile("../../lendingtest/testdata/journey.txt")
	require.NoError(s, err)
	known := map[string]string{
		"mine": partner, "partner": lendingtest.PartnerID, "agent": lendingtest.AgentID, "receiver": s.receiver,
		"bank": bankData, "invoice": invoice,
		"signatures": signatures, "more": `"password":"Secret-12","mobileNumber":"(555) 010-0199"`,
	}
	fill := func(text string) string {
		return placeholder.ReplaceAllStringFunc(text, func(name string) string {
			switch name = strings.Trim(name, "{}"); name {
			case "code":
				return s.service.TwoFactorCode(lendingtest.Username)
			case "otp":
				return s.service.OTP(known["loan"])
			}
			return known[name]
		})
	}
	for line := range strings.Lines(string(steps)) {
		if strings.HasPrefix(line, "#") || line == "\n" {
			continue
		}
		row := strings.Split(strings.TrimSuffix(line, "\n"), "|")
		captures, want := strings.TrimSpace(row[0]), strings.TrimSpace(row[2])
		if s.token = known["token"]; captures == "nobody" || captures == "admin" {
			s.token, captures = known[captures], ""
		}
		id, params, body := s.step(fill(strings.TrimSpace(row[1])))
		if want == "204" {
			x := s.request(id, params, body)
			x.want = []int{204}
			s.send(x)
			continue
		}
		answer := s.ok(id, params, body)
		for capture := range strings.FieldsSeq(captures) {
			name, path, _ := strings.Cut(capture, "=")
			known[name] = s.member(answer, path)
		}
	}
	s.token = known["token"]
	return known["secret"]
}

var placeholder = regexp.MustCompile(`\{[a-z]+\}`)

// step finds the operation and the parameters of "METHOD path body".
func (s *suite) step(request string) (id, params, body string) {
	s.Helper()
	method, rest, _ := strings.Cut(request, " ")
	target, body, _ := strings.Cut(rest, " ")
	mux := http.NewServeMux()
	for name, op := range s.operations {
		mux.HandleFunc(op.route(), func(_ http.ResponseWriter, r *http.Request) {
			id, params = name, r.URL.RawQuery
			for _, p := range op.Parameters {
				if p.Value.In == openapi3.ParameterInPath {
					params += "&" + p.Value.Name + "=" + r.PathValue(p.Value.Name)
				}
			}
		})
	}
	mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(s.Context(), method, "/api/"+target, nil))
	require.NotEmpty(s, id, "no operation for %s", request)
	return id, params, body
}

const invoice = `{"amount":2500.00,"percentOfIncome":10,"terms":6,"fixedRepaymentCalculation":true}`

func (s *suite) user(name string) string {
	return `{"firstName":"Ada","lastName":"Lovelace","email":"` + name +
		`@example.com","password":"Analytical-1","mobileNumber":"(415) 555-0100"}`
}

func (s *suite) application(customer string) string {
	return `{"customerId":"` + customer + `","businessName":"Lovelace Analytics","businessZip":"94105",` +
		`"extraInformation":{"years":"7"},"partnerId":"` + lendingtest.PartnerID +
		`","agentId":"` + lendingtest.AgentID + `"}`
}

const bankData = `{"accounts":[{"accountNumber":"1","balance":"48210.55","transactions":[{"date":"2026-08-03",` +
	`"description":"Invoice","amount":"12500.00"}]}]}`

func file(content string) string {
	return `"` + base64.StdEncoding.EncodeToString([]byte(content)) + `"`
}

const signatures = `{"ipAddress":"192.0.2.1","mimeType":"image/png","signature":"aW1hZ2U=","signature2":"aW1hZ2U="}`

const calculation = `{"amount":2500.5,"percentOfIncome":10,"terms":6,"fixedRepaymentCalculation":true}`

// All names except dateUTC are those of the record.
func confirmation(amount, rate, otp string) string {
	return `{"amount":` + amount + `,"advanceRate":` + rate + `,"dateUTC":"2026-11-20T00:00:00Z","otp":"` + otp + `"}`
}

// deliveries compares the delivered events with the callback of the description.
func (s *suite) deliveries(secret string) {
	s.Helper()
	require.NoError(s, s.service.Wait(s.Context()))
	event := slices.Collect(maps.Values(s.operations["register"].Callbacks["event"].Value.Map()))[0].Post
	envelope := event.RequestBody.Value.Content["application/json"].Schema.Value
	signature := event.Parameters[0].Value
	require.Equal(s, "abp-webhook-signature", signature.Name)
	all, events := s.service.Deliveries(), map[string]bool{}
	for _, d := range all {
		require.Empty(s, d.Err)
		events[d.Event] = true
		value := decode[any](s, string(d.Body))
		require.NoError(s, envelope.VisitJSON(value), "%s", d.Body)
		require.Empty(s, missing(envelope, value, ""))
		require.NoError(s, signature.Schema.Value.VisitJSON(d.Signature))
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(d.Body)
		assert.Equal(s, hex.EncodeToString(mac.Sum(nil)),
			strings.ToLower(strings.NewReplacer("sha256=", "", "-", "").Replace(d.Signature)))
	}
	assert.Greater(s, len(events), 10, "the journey makes the fake post many kinds of events")
}
