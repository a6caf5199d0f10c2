package ops_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/ops"
)

// A person ends the wait of a session, at any replica: with the code that the service has sent to the owner of
// the account, or after the account works again.
func TestPersonEndsTheWaitOfASession(t *testing.T) {
	t.Parallel()
	const login = "POST /api/Authenication/login"
	tokens := lending.NewMemoryTokenStore()
	var waits, other *lending.Session
	b := open(t, func(o *ops.Options) { o.Sessions = nil })
	for _, session := range []**lending.Session{&waits, &other} {
		client := fake.Must(lending.New(b.service.URL, lending.WithTokenStore(tokens), lending.WithCredentials(
			lending.Credentials{Username: lendingtest.Username, Password: lending.NewSecret(lendingtest.Password)})))
		t.Cleanup(client.Close)
		*session = client.Session()
	}
	replica := func(session *lending.Session) *backend {
		r := *b
		r.address = b.serve(ops.Options{
			Sessions: map[string]*lending.Session{"acme": session}, Logger: slog.New(slog.NewTextHandler(b.actions, nil)),
			Who: func(r *http.Request) (string, bool) { name := r.Header.Get("X-Person"); return name, name != "" },
		})
		return &r
	}
	here, there := replica(waits), replica(other)

	assert.Contains(t, here.refused(http.StatusNotFound, "api/signin", map[string]any{"session": "none"}),
		`"now":["acme"]`)
	assert.Contains(t, here.refused(http.StatusConflict, "api/signin", map[string]any{"session": "acme", "code": "1"}),
		"no sign-in waits for a code")
	b.service.Fail(login, lendingtest.Fault{Status: http.StatusServiceUnavailable})
	assert.Contains(t, here.refused(http.StatusBadGateway, "api/signin", map[string]any{"session": "acme"}), "503")
	assert.Contains(t, here.refused(http.StatusConflict, "api/signin", map[string]any{"session": "acme"}),
		"has sent a code to the owner")
	assert.Contains(t, there.read(""), "The session waits until ")
	_, err := other.Token(t.Context())
	require.ErrorIs(t, err, lending.ErrSignInRequired, "the replica waits too")

	code := b.service.TwoFactorCode(lendingtest.Username)
	there.act("api/signin", map[string]any{"session": "acme", "code": code})
	assert.Contains(t, b.actions.String(), `who=dora what="sign in \"acme\"" why="" records=1`)
	assert.NotContains(t, b.actions.String(), code)
	for _, session := range []*lending.Session{waits, other} {
		token, err := session.Token(t.Context())
		require.NoError(t, err)
		assert.False(t, token.Value.IsZero())
	}
	assert.Contains(t, here.read(""), `signed in</span>`)

	status, text := here.send(http.MethodPost, "api/signin", map[string]any{"session": "acme"},
		http.Header{"Content-Type": {"application/json"}})
	assert.Equal(t, http.StatusForbidden, status, text)
}

// Of two persons who decide the same key, the second learns the decision of the first.
func TestSecondVerdictNamesTheFirst(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	b.loseDocument("order-1/document")
	order := map[string]any{"key": "order-1/document", "verdict": "happened", "why": "the support has it"}
	b.act("api/resolve", order)
	order["why"] = "seen"
	assert.Contains(t, b.refused(http.StatusConflict, "api/resolve", order),
		`\"dora\" has just decided this key: happened, without its response, because \"the support has it\"`)

	order["correct"], order["sends"] = true, 7
	assert.Contains(t, b.refused(http.StatusConflict, "api/resolve", order), "must be the current number of sends",
		"a correction hears its own reason")
}

// The page describes keys and letters in the partner's words. A function that panics costs its words only.
func TestPartnerDescribesKeysAndLetters(t *testing.T) {
	t.Parallel()
	const loan = "8c1b5a6e-2f7d-4b5b-9a51-0c7a3f5d2e10"
	b := open(t, func(o *ops.Options) {
		words := map[string]string{"order-1/document": "<b>Lovelace</b> & Sons, 2,500.00", loan: "order-7"}
		o.About = func(_ context.Context, key string, ids map[string]string) string {
			if text, ok := words[cmp.Or(key, ids["loanId"])]; ok {
				return text
			}
			panic("hush")
		}
	})
	b.loseDocument("order-1/document")
	b.loseDocument("order-2/document")
	b.setAside(errors.New("no loan yet"), `{"webhookEvent":"a","data":{"LoanId":"`+loan+`","applicationId":5}}`)
	b.setAside(errors.New("no loan yet"), event("b", 1))
	text := b.read("")
	assert.Len(t, regexp.MustCompile("lending ops panic.*signin_test.go").FindAllString(b.actions.String(), -1), 1,
		"a stack for all rows")
	assert.Contains(t, text, "<h3><bdi>&lt;b&gt;Lovelace&lt;/b&gt; &amp; Sons, 2,500.00</bdi></h3>")
	assert.Contains(t, text, "<h3><bdi>submit document</bdi></h3>", "no words for the second")
	assert.Contains(t, text, "<p><bdi>order-7</bdi>, <span class=\"soft\">id 1, set aside ")
	assert.Contains(t, b.read("api/key?key=order-1/document"), `"about":"\u003cb\u003eLovelace`)
	assert.Contains(t, b.read(inboxPath), `"about":"order-7"`)

	plain := open(t, nil)
	plain.setAside(nil, `{"webhookEvent":"a","data":{"loanId":"`+loan+`","customerId":"ada@example.com"}}`)
	assert.Contains(t, plain.read(inboxPath), `"about":"loan `+loan+`"`, "ids only")
}
