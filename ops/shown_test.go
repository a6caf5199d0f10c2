package ops_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/ops"
	"github.com/lendingapi/lending-go/webhook"
)

// No page, JSON or log record of the handler contains a value of a request, a response or an event.
func TestNothingConfidentialIsShown(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	var canaries []string
	canary := func() string {
		canaries = append(canaries, fmt.Sprintf("c4n4ry%02d", len(canaries)))
		return canaries[len(canaries)-1]
	}
	for range 5 {
		b.service.Fail("POST /api/Application/create-customer", lendingtest.Fault{ResetAfter: true})
		ctx := lending.WithIdempotencyKey(t.Context(), fmt.Sprint("order-", len(canaries)))
		_, err := b.client.Applications.CreateCustomer(ctx, lending.UserRequest{
			FirstName: canary(), LastName: canary(), Email: canary() + "@example.com",
			Password: lending.NewSecret(canary()), MobileNumber: "(415) 555-0100",
			Extra: map[string]string{canary(): canary()},
		})
		require.Error(t, err)
		value := canary()
		b.setAside(errors.New("cannot mail "+value),
			fmt.Sprintf(`{"webhookEvent":"a","data":{"ssn":%q,"mail":%q}}`, canary(), value))
	}
	require.GreaterOrEqual(t, len(canaries), 40)
	_, text := b.post("api/resolve", map[string]any{
		"key": "order-0", "verdict": "happened", "why": "seen", "answer": map[string]string{"a": canary()},
	})
	all := text + b.actions.String()
	for _, path := range []string{
		"", "?prefix=order", "api/keys", "api/key?key=order-0", "api/sessions", "api/health", inboxPath,
	} {
		_, text := b.send(http.MethodGet, path, nil, http.Header{"X-Person": {"another"}})
		all += text
	}
	require.Contains(t, all, "order-0")
	for _, value := range canaries {
		assert.NotContains(t, all, value)
	}
}

// hanging is a store whose lists wait for the end of a test, whatever their context says.
type hanging struct {
	store.Store

	asked, end chan struct{}
}

func (h *hanging) List(context.Context, store.Filter) ([]store.Entry, error) {
	h.asked <- struct{}{}
	<-h.end
	return nil, nil
}

// A page whose store hangs ends by itself.
func TestPageOfAHangingStoreEnds(t *testing.T) {
	hangs := func() (*hanging, http.Handler) {
		h := &hanging{store.NewMemory(), make(chan struct{}, 1000), make(chan struct{})}
		return h, ops.Handler(ops.Options{Log: fake.Must(idempotency.NewLog(h, nil))})
	}
	t.Run("at the shutdown of a server with a context", func(t *testing.T) {
		t.Parallel()
		h, handler := hangs()
		defer close(h.end)
		ctx, stop := context.WithCancel(t.Context())
		server := httptest.NewUnstartedServer(handler)
		server.Config.BaseContext = func(net.Listener) context.Context { return ctx }
		server.Start()
		defer server.Close()
		var page sync.WaitGroup
		page.Go(func() {
			response, err := http.Get(server.URL + "/ops/")
			if assert.NoError(t, err) {
				assert.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
				assert.NoError(t, response.Body.Close())
			}
		})
		<-h.asked
		begun := time.Now()
		stop()
		require.NoError(t, server.Config.Shutdown(t.Context()))
		page.Wait()
		assert.Less(t, time.Since(begun), 5*time.Second, "the time of a page")
	})
	t.Run("after 5 seconds, with a few reads", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h, handler := hangs()
			get := func(path string) *httptest.ResponseRecorder {
				shown := httptest.NewRecorder()
				handler.ServeHTTP(shown, httptest.NewRequest(http.MethodGet, path, nil))
				return shown
			}
			begun := time.Now()
			var viewers sync.WaitGroup
			for i := range 100 {
				for _, path := range []string{"/ops/", "/ops/api/keys"} {
					viewers.Go(func() {
						shown := get(fmt.Sprint(path, "?prefix=", i))
						assert.Equal(t, http.StatusServiceUnavailable, shown.Code)
						assert.Contains(t, shown.Body.String(), "a store does not answer")
					})
				}
			}
			viewers.Wait()
			assert.Equal(t, 5*time.Second, time.Since(begun))
			assert.LessOrEqual(t, len(h.asked), 16, "of 200 requests")
			close(h.end)
			synctest.Wait()
			assert.Equal(t, http.StatusOK, get("/ops/").Code)
		})
	})
}

// The handler tells the state of the session without a sign-in.
func TestSession(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	text := b.read("api/sessions")
	require.JSONEq(t, `[{"name":"acme","signedIn":false}]`, text)
	assert.Zero(t, b.service.Executed("POST /api/Authenication/login"))
	require.NoError(t, b.client.Session().SignIn(t.Context()))
	text = b.read("api/sessions")
	assert.Contains(t, text, `"signedIn":true`)
	text = b.read("")
	assert.Contains(t, text, "signed in")
	assert.Contains(t, b.read("api/health"), `{"name":"session acme"}`)
}

// waiting is a store whose reads wait for the end of their context.
type waiting struct{ store.Store }

func (waiting) List(ctx context.Context, _ store.Filter) ([]store.Entry, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (waiting) Load(ctx context.Context, _ string) (*store.Entry, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// The page and the health name the part with a store without responses, and no other part.
func TestPartThatHangsLeavesTimeForTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inbox := webhook.NewMemoryInbox()
		handler := ops.Handler(ops.Options{
			Log:     fake.Must(idempotency.NewLog(waiting{store.NewMemory()}, nil)),
			Inboxes: map[string]webhook.DeadLetters{"one": inTime{inbox}, "two": inTime{inbox}},
		})
		for path, want := range map[string]string{
			"/ops/": "The idempotency log fails", "/ops/api/health": `"idempotency log","error"`,
		} {
			shown := httptest.NewRecorder()
			handler.ServeHTTP(shown, httptest.NewRequest(http.MethodGet, path, nil))
			assert.Contains(t, shown.Body.String(), want)
			assert.NotContains(t, shown.Body.String(), "inbox one fails")
			assert.NotContains(t, shown.Body.String(), `two","error"`)
		}
	})
}

// A person whose store hangs hears of it before lending-ops and most gateways give up, after a minute. An erasure
// can read for longer: each part that hangs has a minute.
func TestLongActionOnAHangingStoreEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := ops.Handler(ops.Options{
			Log:     fake.Must(idempotency.NewLog(waiting{store.NewMemory()}, nil)),
			Inboxes: map[string]webhook.DeadLetters{"a": hung{}},
			Who:     func(*http.Request) (string, bool) { return person, true }, Logger: slog.New(slog.DiscardHandler),
		})
		for path, want := range map[string]string{
			"erase":             `erased 0 records, but not all; repair this and erase again; log: .*; inbox .*`,
			"inboxes/a/redrive": "the store failed",
			"inboxes/a/drop":    "the store failed",
		} {
			order, limit := `{"why":"asked","all":true}`, 55*time.Second
			if path == "erase" {
				limit = 2 * time.Minute
				order = `{"why":"asked","ids":["` + customer + `"]}`
			}
			request := httptest.NewRequest(http.MethodPost, "/ops/api/"+path, strings.NewReader(order))
			request.Header.Set("Content-Type", "application/json")
			answer, begun := httptest.NewRecorder(), time.Now()
			handler.ServeHTTP(answer, request)
			assert.Equal(t, http.StatusServiceUnavailable, answer.Code)
			assert.Regexp(t, want, answer.Body.String())
			assert.Less(t, time.Since(begun), limit)
		}
	})
}

// hung is an inbox whose calls wait for the end of their context.
type hung struct{ letters }

func (hung) DeadLetters(ctx context.Context, _ webhook.DeadLetterFilter) ([]webhook.DeadLetter, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (hung) Erase(ctx context.Context, _ webhook.Decision, _ ...string) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

// inTime is an inbox with a look at its context.
type inTime struct{ *webhook.MemoryInbox }

func (inTime) Counts(ctx context.Context) (webhook.InboxCounts, error) {
	return webhook.InboxCounts{}, ctx.Err()
}

func (inTime) DeadLetters(ctx context.Context, _ webhook.DeadLetterFilter) ([]webhook.DeadLetter, error) {
	return nil, ctx.Err()
}
