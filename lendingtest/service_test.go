package lendingtest_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/lendingtest"
)

func TestBasePath(t *testing.T) {
	t.Parallel()
	r := serverRig(t, lendingtest.WithBasePath("lending/v1/"))
	assert.True(t, strings.HasSuffix(r.base, "/lending/v1"))
	id := r.application()
	outside := *r
	outside.base = strings.TrimSuffix(r.base, "/lending/v1")
	for _, path := range []string{
		"/api/Loan/get-loan/" + id, "/", "/lending", "/lending/v1",
		"/lending/v10/api/Loan/get-loan/" + id,
	} {
		outside.get(path).refused(404, "NotFound")
	}
	requests := r.Requests()
	assert.Equal(t, "/lending/v1/api/Application/create-application", requests[0].Path)
	assert.Equal(t, "/lending/v10/api/Loan/get-loan/"+id, requests[len(requests)-1].Path)
}

// Nothing answers with a redirect, and no other path reaches a route.
func TestUncleanPaths(t *testing.T) {
	inEveryForm(t, func(r *rig) {
		id := r.application()
		for _, path := range []string{
			"/api//Loan/is-loan-closed/" + id, "/api/x/../Loan/is-loan-closed/" + id,
			"/api/Loan/is-loan-closed/" + id + "/", "/api/loan/is-loan-closed/" + id,
		} {
			r.get(path).refused(404, "NotFound")
		}
		r.get("/api/Application/application-status/..%2F"+id).refused(bad, invalid, "applicationId InvalidGuid")
		r.get("/api/Application/application-status/" + strings.ToUpper(id)).ok()
		reply := r.send(http.MethodHead, "/api/Application/process-application/"+id, nil)
		assert.Equal(r.t, 404, reply.status)
		assert.Zero(r.t, r.Arrived(processRoute), "HEAD does not run a GET that changes state")
	})
}

func TestProtocols(t *testing.T) {
	t.Parallel()
	for form, want := range map[string]string{
		"http": "http://127.0.0.1 HTTP/1.1", "https": "https://127.0.0.1 HTTP/1.1", "http2": "https://127.0.0.1 HTTP/2.0",
	} {
		t.Run(form, func(t *testing.T) {
			r := serverRig(t, forms[form]...)
			r.application()
			assert.Equal(t, want, r.base[:strings.LastIndex(r.base, ":")]+" "+r.Requests()[0].Proto)
		})
	}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.header.Set("X-Mark", "1")
	r.post("/api/Authenication/login?a=b%20c", `{"username":"x"}`)
	r.as("").get("/api/Loan/get-loan/%41")
	all := r.Requests()
	require.Len(t, all, 2)
	e := all[0]
	assert.Equal(t, []any{
		"POST", "POST /api/Authenication/login", "/api/Authenication/login", "a=b%20c", `{"username":"x"}`, 400,
	}, []any{e.Method, e.Route, e.Path, e.Query, string(e.Body), e.Status})
	assert.Equal(t, "1", e.Header.Get("X-Mark"))
	assert.NotContains(t, e.Header, "Authorization")
	assert.Equal(t, []any{"/api/Loan/get-loan/%41", "GET /api/Loan/get-loan/{loanId}", 401},
		[]any{all[1].Path, all[1].Route, all[1].Status})
	e.Header.Set("X-Mark", "2")
	assert.Equal(t, "1", r.Requests()[0].Header.Get("X-Mark"), "the request log is a copy")
}

// A test can call the handler with a request of http.NewRequest, which has no body.
func TestHandlerTakesARequestWithoutABody(t *testing.T) {
	t.Parallel()
	service := lendingtest.New()
	defer service.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/api/Loan/get-loan/1", nil)
	require.NoError(t, err)
	w := httptest.NewRecorder()
	service.ServeHTTP(w, r)
	assert.Equal(t, http.StatusUnauthorized, w.Code)
}

func TestClocks(t *testing.T) {
	t.Parallel()
	start := time.Date(2024, 1, 2, 3, 4, 5, 123456700, time.UTC)
	r := newRig(t, lendingtest.WithClock(func() time.Time { return start }), lendingtest.WithTokenLifetime(time.Minute))
	id := r.offered()
	offer := r.get("/api/Application/application-offer/" + id)
	assert.Equal(t, "2024-02-01T03:04:05.1234567", offer.object()["expiresUTC"])
	assert.Equal(t, "Tue, 02 Jan 2024 03:04:05 GMT", offer.header.Get("Date"))
	r.Advance(30 * time.Second)
	assert.Equal(t, start.Add(30*time.Second), r.Now())
	r.get("/api/Application/application-offer/" + id).ok()
	r.Advance(30 * time.Second)
	r.get("/api/Application/application-offer/"+id).refused(401, "TokenExpired")
	const far = 250 * 365 * 24 * time.Hour
	r.Advance(far)
	r.Advance(0) // does not panic
	end := r.Now()
	assert.Panics(t, func() { r.Advance(far) }, "a time.Duration has an end")
	assert.Equal(t, end, r.Now())
}

func TestAccounts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.AddAccount(lendingtest.Account{Username: "x", Password: "y"})
	r.AddAccount(lendingtest.Account{Username: lendingtest.Username, Password: "new"})
	assert.NotEmpty(t, r.post("/api/Authenication/login", `{"username":"x","password":"y"}`).object()["token"])
	assert.NotEmpty(t, r.post("/api/Authenication/login", `{"username":"`+lendingtest.Username+
		`","password":"new"}`).object()["token"])
	r.as("x").get("/api/Webhook/get-all-subscriptions").refused(403, "Forbidden")
	requests := r.Requests()
	assert.Equal(t, []string{"", "x"}, []string{requests[0].Username, requests[2].Username})
	assert.Panics(t, func() { r.Token("nobody") })
}

func TestSeedAndSnapshot(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	loan := r.AddLoan(lendingtest.Loan{})
	snap := r.Snapshot()
	require.Len(t, snap.Customers, 1)
	require.Len(t, snap.Applications, 1)
	require.Len(t, snap.Loans, 1)
	assert.Equal(t, loan.CustomerID, snap.Customers[0].ID)
	snap.Applications[0].ExtraInformation["x"] = "y"
	assert.Empty(t, r.Snapshot().Applications[0].ExtraInformation, "a snapshot is a copy")
	accounts := []lendingtest.BankAccount{{Transactions: []lendingtest.BankTransaction{{Amount: "1.00"}}}}
	r.AddApplication(lendingtest.Application{CustomerID: loan.CustomerID, Accounts: accounts})
	accounts[0].Transactions[0].Amount = "2.00"
	r.Snapshot().Applications[1].Accounts[0].Transactions[0].Amount = "3.00"
	assert.Equal(t, "1.00", r.Snapshot().Applications[1].Accounts[0].Transactions[0].Amount)
	assert.Equal(t, loan.ID, r.get("/api/Loan/get-customer-loans/" + loan.CustomerID).list()[0]["id"])
	r.UpdateCustomer(loan.CustomerID, func(c *lendingtest.Customer) { c.City = "Bern" })
	assert.Equal(t, "Bern", r.get("/api/Customer/get-customer-by-id/" + loan.CustomerID).object()["city"])
	r.AddTransactions(loan.ID, lendingtest.Transaction{})
	r.UpdateApplication(loan.ApplicationID, func(a *lendingtest.Application) {
		a.Messages = append(a.Messages, lendingtest.Message{})
	})
	snap = r.Snapshot()
	assert.NotEmpty(t, snap.Loans[0].Transactions[0].ID, "new rows have an identifier")
	assert.NotEmpty(t, snap.Applications[0].Messages[0].ID)
	added := r.AddLoan(lendingtest.Loan{
		Transactions: make([]lendingtest.Transaction, 2), Withdrawals: make([]lendingtest.Withdrawal, 1),
	})
	assert.NotEmpty(t, added.Withdrawals[0].ID)
	assert.NotEqual(t, added.Transactions[0].ID, added.Transactions[1].ID)
	assert.Panics(t, func() { r.UpdateLoan("x", func(*lendingtest.Loan) {}) })
}

// A body that cannot be read is the error of the caller, as with net/http, and no answer of the service.
func TestBodyThatCannotBeRead(t *testing.T) {
	t.Parallel()
	gone := errors.New("the file is gone")
	for name, r := range map[string]*rig{"in process": newRig(t), "over sockets": serverRig(t)} {
		for _, path := range []string{statement(r), "/api/Application/create-customer"} {
			t.Run(name+" "+strings.Split(path, "/")[3], func(t *testing.T) {
				body := io.MultiReader(strings.NewReader(`"QUJD`), iotest.ErrReader(gone))
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.base+path, body)
				require.NoError(t, err)
				request.Header = http.Header{"Authorization": {"Bearer " + r.token}, "Content-Type": {"application/json"}}
				response, err := r.client.Do(request)
				if err == nil {
					response.Body.Close()
				}
				require.ErrorIs(t, err, gone)
			})
		}
	}
}

func TestSynctest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, lendingtest.WithDeliveryClient(&http.Client{Transport: answers(http.StatusOK)}))
		r.AddSubscription(lendingtest.Subscription{WebhookURI: "https://receiver.test/"})
		start := time.Now()
		r.Fail("*", lendingtest.Fault{DelayBefore: 20 * time.Minute})
		id := r.offered()
		assert.Equal(t, 20*time.Minute, time.Since(start))
		assert.Equal(t, 20*time.Minute, r.Requests()[0].Duration)
		r.Fail("*", lendingtest.Fault{DelayBefore: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, r.within(ctx).get("/api/Application/application-status/"+id).err, context.DeadlineExceeded)
		<-time.After(40 * time.Minute) // no real time passes in here
		r.get("/api/Application/application-status/"+id).refused(401, "TokenExpired")
		r.wait()
		assert.NotEmpty(t, r.Deliveries())
	})
}

type answers int

func (status answers) RoundTrip(req *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, req.Body)
	return &http.Response{StatusCode: int(status), Body: http.NoBody, Header: http.Header{}, Request: req}, nil
}

// Close ends deliveries and delayed answers, and leaves nothing running.
func TestCloseLeavesNothing(t *testing.T) { // not parallel: it counts goroutines
	base := runtime.NumGoroutine()
	stuck := make(chan struct{})
	reached := make(chan struct{}, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		reached <- struct{}{}
		<-stuck
	}))
	for _, opts := range [][]lendingtest.Option{nil, {lendingtest.WithHTTP2()}} {
		s := lendingtest.NewServer(append(opts, lendingtest.WithLoopbackReceivers())...)
		r := &rig{Service: s.Service, t: t, base: s.URL, client: s.Client(), token: s.Token(lendingtest.Username)}
		s.AddSubscription(lendingtest.Subscription{WebhookURI: receiver.URL})
		id := r.application()
		<-reached
		held := make(chan error, 1)
		waiting := make(chan struct{})
		s.Fail("*", lendingtest.Fault{DelayBefore: time.Hour, Reached: func() { close(waiting) }})
		go func() { held <- r.cancel(id).err }() // a GET would be sent again by net/http
		<-waiting
		s.Close()
		require.Error(t, <-held)
		s.Close() // twice is fine
		assert.Len(t, s.Deliveries(), 1, "the delivery on its way was given up")
		r.client = &http.Client{Transport: s.Transport()}
		r.get("/api/Application/application-status/"+id).refused(503, "Closed")
	}
	close(stuck)
	receiver.Close()
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= base+1 }, time.Minute, time.Millisecond,
		"goroutines left; one is Eventually's own")
}
