package lending_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/delivery"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/fips"
	"github.com/lendingapi/lending-go/internal/test/race"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

const savedSubscription = `{"id":"11111111-2222-3333-4444-555555555555","webhookUri":"https://partner.example/a",` +
	`"isActive":true,"webhooks":[],"secret":"whs_x"}`

// changed returns savedSubscription with another value.
func changed(from, to string) string { return strings.Replace(savedSubscription, from, to, 1) }

func partnerTarget() lending.WebhookTarget {
	return lending.ForPartner(lending.PartnerID(uuid.MustParse(lendingtest.PartnerID)))
}

// subscriber returns a client that has signed in, and how to count what it registers.
func subscriber(t *testing.T, opts ...lendingtest.Option) (*lendingtest.Server, *lending.Client, func() int) {
	t.Helper()
	registered := 0
	service, client := fake.Start(t, append(opts, lendingtest.WithWatcher(func(r lendingtest.Request, _ bool) {
		if strings.HasSuffix(r.Path, "/register") {
			registered++
		}
	}))...)
	return service, client, func() int { return registered }
}

func TestEnsureIsSafeToRepeat(t *testing.T) {
	t.Parallel()
	_, client, registered := subscriber(t)
	ensure := func(uri string, events ...lending.EventName) *lending.EnsuredSubscription {
		t.Helper()
		want := lending.WebhookSubscription{WebhookURI: uri, Webhooks: events}
		e, err := client.Webhooks.Ensure(t.Context(), partnerTarget(), want)
		require.NoError(t, err)
		require.Equal(t, uri, e.Subscription.WebhookURI)
		require.False(t, e.Subscription.Secret.IsZero())
		return e
	}
	const opened, closed = lending.EventLoanOpened, lending.EventLoanClosed
	var secret string
	for i, tt := range []struct {
		uri    string
		events []lending.EventName
		want   bool
		calls  int
	}{
		{"https://partner.example/a", []lending.EventName{opened, closed}, true, 1},
		{"https://partner.example/a", []lending.EventName{opened, closed}, false, 1},
		{"https://partner.example/a", []lending.EventName{closed, opened, opened}, false, 1},
		{"https://partner.example/b", []lending.EventName{opened, closed}, true, 2},
		{"https://partner.example/b", []lending.EventName{opened}, true, 3},
		{"https://partner.example/c", nil, true, 4},
		{"https://partner.example/c", nil, false, 4},
		{"https://partner.example/c", catalogue(t), false, 4}, // all, spelled out
	} {
		t.Run(tt.uri, func(t *testing.T) {
			e := ensure(tt.uri, tt.events...)
			require.Equal(t, tt.want, e.Changed, "step %d", i)
			require.Equal(t, tt.calls, registered(), "step %d", i)
			if secret == "" {
				secret = e.Subscription.Secret.Reveal()
			}
			require.Equal(t, secret, e.Subscription.Secret.Reveal(), "the secret was changed")
			require.NotContains(t, fmt.Sprintf("%v %+v %#v", e, e, e), secret)
		})
	}
}

func TestEnsureRefuses(t *testing.T) {
	t.Parallel()
	_, client, registered := subscriber(t)
	ensure := func(target lending.WebhookTarget, uri string, events ...lending.EventName) error {
		want := lending.WebhookSubscription{WebhookURI: uri, Webhooks: events}
		_, err := client.Webhooks.Ensure(t.Context(), target, want)
		return err
	}
	for _, tt := range []struct {
		name   string
		target lending.WebhookTarget
		uri    string
		fields int
	}{
		{"http", partnerTarget(), "http://partner.example", 1},
		{"no target", lending.WebhookTarget{}, "https://partner.example", 1},
		{"both at once", lending.WebhookTarget{}, "http://partner.example", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			argument, ok := errors.AsType[*lending.ArgumentError](ensure(tt.target, tt.uri))
			require.True(t, ok)
			require.Len(t, argument.Fields, tt.fields)
		})
	}
	require.Zero(t, registered())
	err := ensure(partnerTarget(), "https://partner.example", "WB_Moon_Landed")
	require.Equal(t, lending.OutcomeRejected, lending.OutcomeOf(err))
	require.Equal(t, 1, registered())
}

// An http receiver is for this machine, and only of a service that is on it too.
func TestHTTPReceiversStayOnThisMachine(t *testing.T) {
	t.Parallel()
	const beside, elsewhere = "http://127.0.0.1:8080/lending", "https://service.example"
	for _, tt := range []struct {
		base, uri string
		sent      bool
	}{
		{beside, "http://127.0.0.1:9090/hooks", true},
		{"http://localhost", "http://[::1]/hooks", true},
		{"https://[::1]:8443", "HTTP://LocalHost:1", true},
		{beside, "https://partner.example/hooks", true},
		{beside, "http://partner.example/hooks", false},
		{beside, "http://127.0.0.1.partner.example", false},
		{beside, "http://localhost.partner.example", false},
		{beside, "http://user@localhost", false},
		{beside, "http://", false},
		{beside, "ftp://127.0.0.1", false},
		{elsewhere, "http://127.0.0.1:9090/hooks", false},
		{elsewhere, "http://localhost", false},
		{"https://127.0.0.1.service.example", "http://localhost", false},
		{elsewhere, "https://partner.example/hooks", true},
		{elsewhere, "https://127.0.0.1/hooks", true},
	} {
		t.Run(tt.uri+" of "+tt.base, func(t *testing.T) {
			sent := 0
			service := wire.RoundTripper(func(r *http.Request) (*http.Response, error) {
				sent++
				return wire.Reply(200, changed("https://partner.example/a", tt.uri))(r)
			})
			client := wire.NewClient(t, tt.base, lending.WithHTTPClient(&http.Client{Transport: service}),
				lending.WithTokenSource(lending.StaticToken("test-token")))
			want := lending.WebhookSubscription{WebhookURI: tt.uri}
			for _, way := range []struct {
				name string
				send func() error
			}{
				{"Register", func() error { return client.Webhooks.Register(t.Context(), partnerTarget(), want) }},
				{"UpdateURI", func() error { return client.Webhooks.UpdateURI(t.Context(), partnerTarget(), tt.uri) }},
				{"Ensure", func() error {
					_, err := client.Webhooks.Ensure(t.Context(), partnerTarget(), want)
					return err
				}},
			} {
				sent = 0
				if err := way.send(); tt.sent {
					require.NoError(t, err, way.name)
				} else {
					require.Contains(t, catalog.Refused(t, err), "webhookUri", way.name)
				}
				require.Equal(t, tt.sent, sent > 0, way.name)
			}
		})
	}
}

// The service in process posts its events to such a receiver, if it may.
func TestHTTPReceiverFromEndToEnd(t *testing.T) {
	t.Parallel()
	arrived := make(chan []byte, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		arrived <- body
	}))
	defer receiver.Close()
	want := lending.WebhookSubscription{WebhookURI: receiver.URL}

	_, client, _ := subscriber(t)
	_, err := client.Webhooks.Ensure(t.Context(), partnerTarget(), want)
	require.Equal(t, lending.OutcomeRejected, lending.OutcomeOf(err), "as the service itself refuses it")

	service, client, _ := subscriber(t, lendingtest.WithLoopbackReceivers())
	ensured, err := client.Webhooks.Ensure(t.Context(), partnerTarget(), want)
	require.NoError(t, err)
	require.NoError(t, client.Webhooks.UpdateURI(t.Context(), partnerTarget(), receiver.URL+"/hooks"))
	require.NoError(t, client.Webhooks.Simulate(t.Context(), partnerTarget(), lending.EventLoanCreated))
	require.NoError(t, service.Wait(t.Context()))
	delivery := service.Deliveries()[0]
	require.Equal(t, http.StatusOK, delivery.Status)
	require.NoError(t, lending.Verify(ensured.Subscription.Secret.Reveal(), <-arrived, delivery.Signature))
	err = client.Webhooks.UpdateURI(t.Context(), partnerTarget(), "http://partner.example")
	require.ErrorContains(t, err, "webhookUri must be an https address")
}

// What the service makes of a registration is scripted here: what was there before,
// how it answers, and what it reads back.
func TestEnsureBelievesOnlyWhatReadsBack(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name           string
		before, answer int
		after          string
		want           error
	}{
		{"saved", 204, 200, savedSubscription, nil},
		{"none is 404", 404, 200, savedSubscription, nil},
		{"none is 400", 400, 200, savedSubscription, nil},
		{"success, nothing saved", 204, 200, ``, lending.ErrInactive},
		{"success, another address", 204, 200, changed("/a", "/b"), lending.ErrInactive},
		{"success, other events", 204, 200, changed("[]", `["WB_Loan_Opened"]`), lending.ErrInactive},
		{"success, no secret", 204, 200, changed("whs_x", ""), lending.ErrInactive},
		{"success, inactive", 204, 200, changed("true", "false"), lending.ErrInactive},
		{"unknown, but it was saved", 204, 502, savedSubscription, nil},
		{"unknown, and was not saved", 204, 502, ``, lending.ErrOutcomeUnknown},
		{"refused", 204, 403, savedSubscription, lending.ErrForbidden},
		{"cannot be read", 403, 200, savedSubscription, lending.ErrForbidden},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			registered := false
			client := wire.Serve(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Method == http.MethodPost:
					sent, err := io.ReadAll(r.Body)
					assert.NoError(t, err)
					assert.Contains(t, string(sent), `"isActive":true`)
					registered = true
					w.WriteHeader(tt.answer)
				case !registered:
					w.WriteHeader(tt.before)
				case tt.after == "":
					w.WriteHeader(http.StatusNoContent)
				default:
					wire.Answer(200, tt.after)(w, r)
				}
			})
			want := lending.WebhookSubscription{WebhookURI: "https://partner.example/a"}
			e, err := client.Webhooks.Ensure(t.Context(), partnerTarget(), want)
			require.ErrorIs(t, err, tt.want)
			switch {
			case tt.want == nil:
				require.True(t, e.Changed)
			case tt.name == "success, inactive":
				require.ErrorContains(t, err, "it is switched off; ask the service")
			case strings.HasPrefix(tt.name, "success"):
				require.ErrorContains(t, err, "did not save it, or saved no secret; call Ensure again")
			}
		})
	}
}

// What was there before, with the address and the events that are wanted, must work too.
func TestEnsureProvesWhatItLeaves(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, body string
		want       error
	}{
		{"works", savedSubscription, nil},
		{"without a secret", changed("whs_x", ""), lending.ErrInactive},
		{"inactive", changed("true", "false"), lending.ErrInactive},
		{"none, before and after", `{}`, lending.ErrInactive},
		{"zero id", changed("11111111-2222-3333-4444-555555555555", uuid.Nil.String()), lending.ErrInactive},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := lending.WebhookSubscription{WebhookURI: "https://partner.example/a"}
			e, err := wire.Serve(t, wire.Answer(200, tt.body)).Webhooks.Ensure(t.Context(), partnerTarget(), want)
			require.ErrorIs(t, err, tt.want)
			require.Equal(t, tt.want == nil, e != nil && !e.Changed)
		})
	}
}

// The constants are the catalogue, of which the service in process has a transcription of its own.
func TestEventNamesAreTheCatalogue(t *testing.T) {
	source, err := os.ReadFile("webhook.go")
	require.NoError(t, err)
	require.Equal(t, catalogue(t), eventNames(string(source)))
}

// catalogue returns the event names that the service in process knows.
func catalogue(t *testing.T) []lending.EventName {
	t.Helper()
	source, err := os.ReadFile("lendingtest/internal/book/event.go")
	require.NoError(t, err)
	list, _, _ := strings.Cut(string(source), "// Wants")
	names := eventNames(list)
	require.Len(t, names, 22)
	return names
}

func eventNames(source string) (names []lending.EventName) {
	for _, name := range regexp.MustCompile(`"(WB_\w+)"`).FindAllStringSubmatch(source, -1) {
		names = append(names, lending.EventName(name[1]))
	}
	return names
}

// signatureVector is one of testdata/signatures.json, which openssl and Python wrote.
type signatureVector struct {
	Name, Secret, Signature string
	BodyBase64              []byte
	Repeat                  struct {
		Head, Fill, Tail string
		Count            int
	}
}

func (v signatureVector) body() []byte {
	if v.Repeat.Count > 0 {
		return []byte(v.Repeat.Head + strings.Repeat(v.Repeat.Fill, v.Repeat.Count) + v.Repeat.Tail)
	}
	return v.BodyBase64
}

func signatureVectors(tb testing.TB) []signatureVector {
	tb.Helper()
	text, err := os.ReadFile("testdata/signatures.json")
	require.NoError(tb, err)
	var file struct{ Vectors []signatureVector }
	require.NoError(tb, json.Unmarshal(text, &file))
	require.Greater(tb, len(file.Vectors), 10)
	return file.Vectors
}

func TestSignaturesOfOtherPrograms(t *testing.T) {
	for _, v := range signatureVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			require.Equal(t, v.Signature, lending.Sign(v.Secret, v.body()))
			require.NoError(t, lending.Verify(v.Secret, v.body(), v.Signature))
			require.ErrorIs(t, lending.Verify(v.Secret+"x", v.body(), v.Signature), lending.ErrSignature)
		})
	}
}

func TestVerifyRefusesEveryChangedBit(t *testing.T) {
	for _, part := range []string{"body", "signature"} {
		t.Run(part, func(t *testing.T) {
			body, signature := []byte(delivery.Body), []byte(delivery.Signature)
			changed := map[string][]byte{"body": body, "signature": signature}[part]
			verify := func() error { return lending.Verify(delivery.Secret, body, string(signature)) }
			require.NoError(t, verify())
			for i := range changed {
				for bit := byte(1); bit != 0; bit <<= 1 {
					changed[i] ^= bit
					require.ErrorIs(t, verify(), lending.ErrSignature, "byte %d, bit %#x", i, bit)
					changed[i] ^= bit
				}
			}
		})
	}
}

func TestVerifyTakesOnlyTheDocumentedForm(t *testing.T) {
	const good = delivery.Signature
	for _, signature := range []string{
		"", " ", "sha256=", good[:94], good + "-", good + "-00", " " + good, good + " ", strings.ToLower(good),
		strings.ToUpper(good), strings.ReplaceAll(good, "-", ""), strings.TrimPrefix(good, "sha256="),
		"sha1=" + good[7:], good + "," + good,
	} {
		t.Run(signature, func(t *testing.T) {
			err := lending.Verify(delivery.Secret, []byte(delivery.Body), signature)
			require.ErrorIs(t, err, lending.ErrSignature, "%q")
			require.NotContains(t, fmt.Sprintf("%v %+v %#v", err, err, err), "E6", "an error showed a signature")
		})
	}
	empty := lending.Sign("", []byte(delivery.Body))
	require.ErrorIs(t, lending.Verify("", []byte(delivery.Body), empty), lending.ErrSignature)
}

// A kept HMAC state must never answer for another secret or another body.
func TestVerifyKeepsSecretsApart(t *testing.T) {
	t.Parallel()
	done := make(chan error)
	for g := range 8 {
		go func() {
			for i := range 500 {
				secret, other := fmt.Sprint("secret ", (g+i)%3), fmt.Sprint("secret ", (g+i+1)%3)
				body := []byte(fmt.Sprint("body ", g, i))
				signature := formatted(macOf(secret, body))
				if lending.Verify(secret, body, signature) != nil || lending.Verify(other, body, signature) == nil {
					done <- fmt.Errorf("mixed up at %d %d", g, i)
					return
				}
			}
			done <- nil
		}()
	}
	for range 8 {
		require.NoError(t, <-done)
	}
}

func macOf(secret string, body []byte) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return mac.Sum(nil)
}

func formatted(mac []byte) string {
	return "sha256=" + strings.ReplaceAll(fmt.Sprintf("% X", mac), " ", "-")
}

// A collection empties the pool of states. The average over many runs hides that.
func TestVerifyAllocatesNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("with the race detector a pool forgets every fourth state")
	}
	body := []byte(delivery.Body)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		_ = lending.Verify(delivery.Secret, body, delivery.Signature)
	}))
}

// GODEBUG=fips140=only makes crypto/hmac panic for keys below 14 bytes.
func TestShortSecretsUnderFIPSOnly(t *testing.T) {
	if !fips.Only(t) {
		return
	}
	require.Panics(t, func() { macOf("13 characters", nil) }, "the mode is not on")
	for _, tt := range []struct {
		secret string
		works  bool
	}{{"x", false}, {"13 characters", false}, {"14 characters!", true}, {delivery.Secret, true}} {
		t.Run(tt.secret, func(t *testing.T) {
			signature := lending.Sign(tt.secret, []byte(delivery.Body))
			require.Equal(t, tt.works, signature != "")
			err := lending.Verify(tt.secret, []byte(delivery.Body), signature)
			if tt.works {
				require.NoError(t, err)
				return
			}
			err = lending.Verify(tt.secret, []byte(delivery.Body), delivery.Signature)
			require.ErrorIs(t, err, lending.ErrSignature)
			require.ErrorContains(t, err, "use a longer secret")
		})
	}
}

func FuzzVerify(f *testing.F) {
	for _, v := range signatureVectors(f) {
		f.Add(v.Secret, v.body(), v.Signature)
	}
	f.Add(delivery.Secret, []byte(delivery.Body), strings.ToLower(delivery.Signature))
	f.Fuzz(func(t *testing.T, secret string, body []byte, signature string) {
		// The header read in another way: as hexadecimal, then written back.
		sum, err := hex.DecodeString(strings.ReplaceAll(strings.TrimPrefix(signature, "sha256="), "-", ""))
		want := err == nil && hmac.Equal(sum, macOf(secret, body)) && secret != "" && signature == formatted(sum)
		if got := lending.Verify(secret, body, signature) == nil; got != want {
			t.Errorf("Verify = %t, want %t", got, want)
		}
		if secret != "" && lending.Verify(secret, body, lending.Sign(secret, body)) != nil {
			t.Error("Verify refuses what Sign wrote")
		}
	})
}
