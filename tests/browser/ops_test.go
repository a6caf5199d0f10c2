package browser_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/ops"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// desk is a backend with the page of package ops.
type desk struct {
	*testing.T
	service *lendingtest.Service
	client  *lending.Client
	log     *idempotency.Log
	inbox   *webhook.MemoryInbox
	url     string
}

func openDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{T: t, service: lendingtest.New(), inbox: webhook.NewMemoryInbox()}
	t.Cleanup(d.service.Close)
	d.log = fake.Must(idempotency.NewLog(store.NewMemory(), &idempotency.Options{MaxLateness: time.Nanosecond}))
	d.client = fake.SignIn(t, d.service, nil, lending.WithIdempotency(d.log))
	d.url = d.replica()
	return d
}

// replica starts another process's page over the same stores.
func (d *desk) replica() (url string) {
	d.Helper()
	server := httptest.NewServer(ops.Handler(ops.Options{
		Log: d.log, Inboxes: map[string]webhook.DeadLetters{"webhooks": d.inbox},
		Sessions: map[string]*lending.Session{"acme": d.client.Session()},
		Who:      func(*http.Request) (string, bool) { return "dora", true },
		Show:     func(*http.Request) bool { return true },
		Logger:   slog.New(slog.DiscardHandler),
	}))
	d.Cleanup(func() {
		assert.NoError(d, server.Config.Shutdown(context.Background()), "it ends the open pages")
		server.Close()
	})
	return server.URL + "/ops/"
}

// loseUploads loses the responses to uploads. No read shows them, so each key needs a person.
func (d *desk) loseUploads(keys ...string) {
	d.Helper()
	const route = "POST /api/ApplicationApproval/submit-document/{applicationId}"
	row := d.service.AddApplication(lendingtest.Application{Offer: &lendingtest.Offer{
		Amount: 100_000, ExpiresUTC: lendingtest.Timestamp{Time: time.Now().Add(time.Hour)},
	}})
	application := fake.Must(lending.ParseApplicationID(row.ID))
	d.service.Fail(route, lendingtest.Fault{ResetAfter: true, Times: len(keys)})
	for _, key := range keys {
		err := d.client.Approval.SubmitDocument(lending.WithIdempotencyKey(d.Context(), key), application, "Other",
			lending.Document{Name: "a.pdf", Content: strings.NewReader("content")})
		require.Equal(d, lending.OutcomeUnknown, lending.OutcomeOf(err), err)
	}
}

// audit audits a loan with withdrawals of another program, and an application that fails to be read.
func (d *desk) audit(withdrawals int) {
	d.Helper()
	loan := d.service.AddLoan(lendingtest.Loan{Withdrawals: make([]lendingtest.Withdrawal, min(withdrawals, 30))})
	d.service.UpdateLoan(loan.ID, func(l *lendingtest.Loan) {
		for i := range l.Withdrawals {
			l.Withdrawals[i].ID = uuid.NewString()
		}
	})
	_, _ = d.client.Loans.ResendWithdrawalOTP(lending.WithIdempotencyKey(d.Context(), "order-1/otp"),
		fake.Must(lending.ParseLoanID(loan.ID)))
	d.service.Fail("GET /api/ApplicationApproval/get-all-applicants/{applicationId}",
		lendingtest.Fault{Status: http.StatusBadGateway, Times: 10})
	for _, err := range d.log.Audit(d.Context(), idempotency.AuditOptions{
		From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Hour), Client: d.client,
	}) {
		require.NoError(d, err)
	}
}

// setAside makes dead letters of events.
func (d *desk) setAside(name string, cause error, count int) {
	d.Helper()
	for n := range count {
		event, err := webhook.Parse(fmt.Appendf(nil, `{"webhookEvent":%s,"data":{"n":%d}}`, text(name), n))
		require.NoError(d, err)
		require.NoError(d, d.inbox.Put(d.Context(), event))
		entry, err := d.inbox.Take(d.Context())
		require.NoError(d, err)
		require.NoError(d, d.inbox.DeadLetter(d.Context(), entry, cause))
	}
}

// The operator's page fits at each width, light and dark, with any number of entries, is accessible,
// and shows hostile texts as text.
func TestOpsPage(t *testing.T) {
	for _, test := range []struct {
		keys, letters int
		widths        []int
	}{{0, 0, []int{320}}, {30, 30, []int{320, 768, 1280}}, {2_000, 20_000, []int{320}}} {
		t.Run(fmt.Sprint(test.letters), func(t *testing.T) {
			d := openDesk(t)
			if test.letters > 0 {
				d.setAside("WB_Loan_Created", errors.New("the loan is not in our database yet"), test.letters-2)
				d.setAside("a\u202eb\u2066c", errors.New("\u202elost"), 1)
				d.setAside(hostile, errors.New(hostile), 1)
				d.loseUploads("order/" + hostile[:200])
				d.audit(test.letters)
			}
			var keys []string
			for n := 1; n < test.keys; n++ {
				keys = append(keys, fmt.Sprintf("order-%d/document", n))
			}
			d.loseUploads(keys...)
			b := browser.open(t, d.url+"?prefix=order-1", 320, false)
			b.waitText("#connection", "Live")
			b.fits(fmt.Sprint("ops ", test.letters), test.widths)
			b.waitText("#summary", fmt.Sprintf("%d dead letter", test.letters))
			if test.letters > 0 {
				shown := value[string](b, "document.body.textContent")
				assert.GreaterOrEqual(t, strings.Count(shown, hostile[:200]), 3, "event, cause and key stand there as text")
			}
			assert.Equal(t, "undefined", value[string](b, "typeof pwned"))
			assert.Zero(t, value[int](b, "document.querySelectorAll('img, main script, iframe, [onerror]').length"))
			assert.Empty(t, b.complaints())
		})
	}
}

// A person decides a key and redrives a dead letter with the keyboard. The pages of both replicas
// follow without a reload.
func TestOpsPageByKeyboard(t *testing.T) {
	d := openDesk(t)
	d.loseUploads("order-1/document", "order-2/document")
	d.setAside("WB_Loan_Created", errors.New("no loan yet"), 3)
	other := browser.open(t, d.replica(), 900, false)
	other.waitText("#connection", "Live")
	b := browser.open(t, d.url, 900, false)
	b.waitText("#connection", "Live")

	b.tabTo("#review [name=why]")
	assert.True(t, value[bool](b, `getComputedStyle(document.activeElement).outlineStyle === "solid"`),
		"the focus is seen")
	b.typed("the service's support has the document")
	b.press("Enter")
	assert.Empty(t, value[string](b, `document.querySelector("#said").textContent`), "Enter alone decides nothing")
	b.tabTo("#review [value=happened]")
	b.press("Enter")
	b.waitText("#said", "Resolved.")
	for _, page := range []*tab{b, other} {
		page.waitText("#summary", "Needs a person: 1 key.")
		page.wait(`document.querySelectorAll("#review article").length === 1`)
	}
	assert.Contains(t, value[string](b, `document.querySelector("#review").textContent`), "order-2/document")
	assert.Equal(t, "review", value[string](b, "document.activeElement.id"), "the focus stays where the key was")

	entries, err := d.log.Keys(t.Context(), idempotency.Filter{Prefix: "order-1/"})
	require.NoError(t, err)
	require.Len(t, entries, 1)
	assert.Equal(t, "dora", entries[0].ResolvedBy)

	b.tabTo("#inboxes article [data-order$=redrive] button")
	b.press("Enter")
	b.waitText("#said", "Redriven.")
	for _, page := range []*tab{b, other} {
		page.waitText("#summary", "1 waiting, 0 running, 2 dead letters")
		page.wait(`document.querySelectorAll("#inboxes article").length === 2`)
	}
	b.tabTo("#inboxes summary")
	b.press("Enter")
	b.tabTo("#inboxes [data-order$=drop] [name=why]")
	b.typed("nobody waits for these events")
	b.press("Enter")
	b.waitText("#said", "Dropped.")
	other.waitText("#inboxes", "No dead letters.")

	b.tabTo("#log [name=why]")
	b.typed("withdrawals are doubled")
	b.press("Enter")
	other.waitText("#summary", "The log is paused by dora")
	b.waitText("#log", "Resume the log")
	b.tabTo("#log [name=why]")
	b.typed("they were two orders")
	b.press("Enter")
	other.waitText("#log", "The log sends.")
	assert.Empty(t, append(b.complaints(), other.complaints()...))
}

// A person who writes keeps the text while another person decides, and is then told who has decided, and what.
func TestTwoPersonsAtAKey(t *testing.T) {
	d := openDesk(t)
	d.loseUploads("order-1/document", "order-2/document")
	b := browser.open(t, d.url, 900, false)
	b.tabTo("#review [name=why]")
	b.typed("I have asked the support")
	b.run(`field = document.activeElement`)
	require.NoError(t, d.log.Resolve(t.Context(), "order-1/document", idempotency.Resolution{
		By: "kim", Why: "the document is there", Verdict: idempotency.Happened(nil),
	}))
	b.waitText("#summary", "Needs a person: 1 key.")
	assert.True(t, value[bool](b, `document.activeElement === field && field.value === "I have asked the support"`))
	b.run(`field.form.querySelector("[value=happened]").click()`)
	b.waitText("#said", `"kim" has just decided this key: happened, without its response, because "the document is there"`)
	b.wait(`document.querySelectorAll("#review article").length === 1`)
	assert.Len(t, b.complaints(), 1, "the second verdict")
}

// The page of a sign-in, of a gateway or of nobody does not pass for the current state.
func TestPageOfAnotherIsNotShown(t *testing.T) {
	d := openDesk(t)
	var instead atomic.Pointer[http.HandlerFunc]
	handler := ops.Handler(ops.Options{Log: d.log})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if other := instead.Load(); other != nil && r.URL.Path == "/ops/" {
			(*other)(w, r)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	b := browser.open(t, server.URL+"/ops/", 900, false)
	for name, other := range map[string]http.HandlerFunc{
		"a sign-in":  func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<h1>Sign in</h1>") },
		"a redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/ops/page.css", http.StatusFound) },
		"a failure":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
	} {
		t.Run(name, func(t *testing.T) {
			instead.Store(nil)
			b.waitText("#connection", "Live")
			instead.Store(&other)
			b.waitText("#connection", "Not connected, trying again")
			assert.Contains(t, value[string](b, `document.querySelector("#review").textContent`), "No key needs a person")
		})
	}
}

// A person signs in with the sent code.
func TestPersonSignsIn(t *testing.T) {
	service := lendingtest.NewServer()
	t.Cleanup(service.Close)
	client := fake.Must(lending.New(service.URL, lending.WithCredentials(
		lending.Credentials{Username: lendingtest.Username, Password: lending.NewSecret(lendingtest.Password)})))
	t.Cleanup(client.Close)
	server := httptest.NewServer(ops.Handler(ops.Options{
		Sessions: map[string]*lending.Session{"acme": client.Session()},
		Who:      func(*http.Request) (string, bool) { return "dora", true }, Logger: slog.New(slog.DiscardHandler),
	}))
	t.Cleanup(server.Close)
	b := browser.open(t, server.URL+"/ops/", 320, false)
	b.tabTo("#session button")
	b.press("Enter")
	b.waitText("#said", "sign in again with the code")
	b.waitText("#session", "needs a person")
	b.fits("ops session", []int{320, 768, 1280})
	b.tabTo("#session [name=code]")
	b.typed(service.TwoFactorCode(lendingtest.Username))
	b.press("Enter")
	b.waitText("#said", "Signed in.")
	b.waitText("#session", "acme: signed in")
	assert.Len(t, b.complaints(), 1, "the sign-in without the code")
}
