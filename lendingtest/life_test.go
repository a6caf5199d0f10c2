package lendingtest_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/lendingtest/control"
)

// names returns the events that a receiver has got.
func names(r *rig) (all []string) {
	r.wait()
	for _, d := range r.Deliveries() {
		all = append(all, d.Event)
	}
	return all
}

// The id of the offer comes at once, the offer when the service's clock gets there.
func TestDecisionLater(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		declined bool
		cancel   bool
		status   string
		events   []string
	}{
		{"an offer", false, false, lendingtest.StatusOfferReady, []string{
			"WB_Application_Status_Changed", "WB_Under_Review", "WB_Application_Status_Changed", "WB_Application_Ready",
		}},
		{"declined", true, false, lendingtest.StatusDeclined, []string{
			"WB_Application_Status_Changed", "WB_Under_Review", "WB_Application_Status_Changed",
		}},
		{"cancelled meanwhile", false, true, lendingtest.StatusCancelled, []string{
			"WB_Application_Status_Changed", "WB_Under_Review", "WB_Application_Status_Changed", "WB_Application_Cancelled",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			receiver := newReceiver(t)
			r, url := controlled(t, lendingtest.WithLoopbackReceivers())
			c := control.Dial(url)
			decision := lendingtest.Decision{After: time.Hour, Declined: test.declined}
			require.NoError(t, c.Post(t.Context(), "decision", decision, nil))
			app := r.application()
			r.post("/api/Application/add-or-update-banking-data/"+app, bankData).ok()
			r.AddSubscription(lendingtest.Subscription{WebhookURI: receiver.URL, Webhooks: []string{
				"WB_Application_Status_Changed", "WB_Under_Review", "WB_Application_Ready", "WB_Application_Cancelled",
			}})
			offer := r.get("/api/Application/process-application/" + app).text()
			status := func() string { return r.get("/api/Application/application-status/" + app).text() }
			assert.Equal(t, lendingtest.StatusUnderReview, status())
			require.NoError(t, c.Advance(t.Context(), 59*time.Minute))
			r.token = r.Token(lendingtest.Username)
			r.get("/api/Application/application-offer/"+app).refused(400, "OfferNotFound")
			if test.cancel {
				r.post("/api/Application/cancel-application/"+app, "").ok()
			}
			require.NoError(t, c.Advance(t.Context(), time.Minute))
			assert.Equal(t, test.status, status())
			assert.Equal(t, test.events, names(r))
			if test.status == lendingtest.StatusOfferReady {
				assert.Equal(t, offer, r.get("/api/Application/application-offer/" + app).object()["id"])
			} else {
				r.get("/api/Application/application-offer/"+app).refused(400, "OfferNotFound")
			}
		})
	}
}

// Interest and repayments happen as the clock moves, each at its time, until nothing is owed.
func TestRepay(t *testing.T) {
	t.Parallel()
	const month = 720 * time.Hour
	r, url := controlled(t)
	c, ctx := control.Dial(url), t.Context()
	start := r.Now()
	loan := r.AddLoan(lendingtest.Loan{Amount: 1000_00, Balance: 500_00, AvailableBalance: 500_00, IsEnabled: true})
	repayment := lendingtest.Repayment{LoanID: loan.ID, Amount: 300_00, Every: month, Interest: 1}
	require.NoError(t, c.Post(ctx, "repay", repayment, nil))
	require.NoError(t, c.Advance(ctx, month/2))
	r.token = r.Token(lendingtest.Username)
	balance := func() []any {
		b := r.get("/api/Loan/get-total-balance/" + loan.ID).object()
		return []any{b["totalBalance"], b["availableBalance"]}
	}
	assert.Equal(t, []any{500., 500.}, balance())
	require.NoError(t, c.Advance(ctx, 10*month))
	r.token = r.Token(lendingtest.Username)
	assert.Equal(t, []any{0., 1000.}, balance())
	var lines []string
	for i, row := range r.Snapshot().Loans[0].Transactions {
		assert.WithinDuration(t, start.Add(time.Duration(i/2+1)*month), row.DateUTC.Time, time.Minute)
		lines = append(lines, fmt.Sprint(row.Type, " ", row.Amount))
	}
	assert.Equal(t, []string{"Interest 5.00", "Repayment 300.00", "Interest 2.05", "Repayment 207.05"}, lines)
	once := r.AddLoan(lendingtest.Loan{Amount: 100_00, Balance: 90_00, AvailableBalance: 10_00, IsEnabled: true})
	require.NoError(t, c.Post(ctx, "repay", lendingtest.Repayment{LoanID: once.ID, Amount: 40_00}, nil))
	assert.Equal(t, lendingtest.Cents(50_00), r.Snapshot().Loans[1].Balance)
	nobodys := lendingtest.Repayment{LoanID: "x", Amount: 1}
	require.EqualError(t, c.Post(ctx, "repay", nobodys, nil), "lendingtest: no loan x")
}

// An update changes the named fields alone and posts the events of what it changes.
func TestUpdate(t *testing.T) {
	t.Parallel()
	receiver := newReceiver(t)
	r, url := controlled(t, lendingtest.WithLoopbackReceivers())
	c, ctx := control.Dial(url), t.Context()
	sub := r.AddSubscription(lendingtest.Subscription{WebhookURI: receiver.URL})
	loan := r.AddLoan(lendingtest.Loan{})
	for _, test := range []struct {
		id     string
		set    map[string]any
		events []string
	}{
		{loan.ApplicationID, map[string]any{"status": "On Hold"}, []string{"WB_Application_Status_Changed"}},
		{loan.ApplicationID, map[string]any{"businessName": "Lovelace"}, nil},
		{loan.ApplicationID, map[string]any{"status": "Cancelled"}, []string{
			"WB_Application_Status_Changed", "WB_Application_Cancelled",
		}},
		{loan.ID, map[string]any{"isEnabled": false, "balance": 5}, []string{"WB_Loan_Enabled_Or_Disabled"}},
		{loan.ID, map[string]any{"isClosed": true}, []string{"WB_Loan_Closed"}},
		{loan.ID, map[string]any{"isClosed": false}, []string{"WB_Loan_Opened"}},
		{loan.CustomerID, map[string]any{"firstName": "Ada"}, nil},
		{sub.ID, map[string]any{"isActive": false}, nil},
	} {
		t.Run(fmt.Sprint(test.set), func(t *testing.T) {
			before := len(names(r))
			require.NoError(t, c.Post(ctx, "update", map[string]any{"id": test.id, "set": test.set}, nil))
			assert.Equal(t, test.events, append([]string(nil), names(r)[before:]...))
		})
	}
	snap := r.Snapshot()
	assert.Equal(t, []any{"Lovelace", "Cancelled", "Ada", loan.Amount, lendingtest.Cents(5_00), false}, []any{
		snap.Applications[0].BusinessName, snap.Applications[0].Status, snap.Customers[0].FirstName,
		snap.Loans[0].Amount, snap.Loans[0].Balance, snap.Subscriptions[0].IsActive,
	})
	for _, test := range []struct {
		id, says string
		set      map[string]any
	}{
		{loan.ID, `unknown field "amuont"`, map[string]any{"balance": 7, "amuont": 5}},
		{loan.ID, "cannot change the id", map[string]any{"balance": 7, "id": "x"}},
		{loan.ApplicationID, "set", map[string]any{"status": "Lost", "offer": 3}},
		{loan.ApplicationID, "change the id", map[string]any{"extraInformation": map[string]any{"years": "9"}, "id": "x"}},
		{"x", `no customer, application, loan or subscription "x"`, nil},
	} {
		t.Run(test.says, func(t *testing.T) {
			require.ErrorContains(t, c.Post(ctx, "update", map[string]any{"id": test.id, "set": test.set}, nil), test.says)
			assert.Equal(t, marshal(t, snap.Loans), marshal(t, r.Snapshot().Loans), "all fields or none")
			assert.Equal(t, marshal(t, snap.Applications), marshal(t, r.Snapshot().Applications))
		})
	}
}

// After a rotation deliveries are signed with the new secret, or with the one of before.
func TestDeliveryModes(t *testing.T) {
	t.Parallel()
	receiver := newReceiver(t)
	r, url := controlled(t, lendingtest.WithLoopbackReceivers())
	c, ctx := control.Dial(url), t.Context()
	old := r.AddSubscription(lendingtest.Subscription{WebhookURI: receiver.URL})
	loan := r.AddLoan(lendingtest.Loan{})
	r.UpdateSubscription(old.ID, func(s *lendingtest.Subscription) { s.Secret = "whs_new" })
	toggle := func(l *lendingtest.Loan) { l.IsEnabled = !l.IsEnabled }
	signedWith := func(mode lendingtest.DeliveryMode, secret string) {
		t.Helper()
		require.NoError(t, c.Post(ctx, "delivery-mode", mode, nil))
		r.UpdateLoan(loan.ID, toggle)
		r.wait()
		all := r.Deliveries()
		last := all[len(all)-1]
		assert.Equal(t, signature(secret, last.Body), last.Signature)
	}
	signedWith(lendingtest.DeliveryMode{Delay: time.Millisecond}, "whs_new")
	signedWith(lendingtest.DeliveryMode{OldSecret: true}, old.Secret)
	require.NoError(t, c.Post(ctx, "delivery-mode", lendingtest.DeliveryMode{Hold: true}, nil))
	r.UpdateLoan(loan.ID, closeLoan)
	r.wait()
	held := len(r.Deliveries())
	signedWith(lendingtest.DeliveryMode{}, "whs_new")
	assert.Len(t, r.Deliveries(), held+2)
	require.NoError(t, c.Post(ctx, "delivery-mode", lendingtest.DeliveryMode{Delay: time.Hour}, nil))
	r.UpdateLoan(loan.ID, toggle)
	r.Close() // does not wait for an hour
}

// The request log has the answer, and is asked by route, outcome, record and number.
func TestFind(t *testing.T) {
	t.Parallel()
	const route = "POST /api/Communication/post-messages/{applicationId}"
	r, address := controlled(t)
	c, ctx := control.Dial(address), t.Context()
	loan, other := r.AddLoan(lendingtest.Loan{}), r.AddLoan(lendingtest.Loan{})
	r.get("/api/Loan/get-loan/" + loan.ID).ok()                                          // 1
	r.get("/api/Loan/get-loan/" + other.ID).ok()                                         // 2
	r.get("/api/Loan/get-loan/x")                                                        // 3
	require.NoError(t, c.Fail(ctx, route, lendingtest.Fault{ResetAfter: true}))          //
	r.post("/api/Communication/post-messages/"+loan.ApplicationID, `{"message":"lost"}`) // 4
	r.post("/api/Application/cancel-application/"+unknownID, "")                         // 5
	for _, test := range []struct {
		name, query string
		want        []int
	}{
		{"all", "", []int{1, 2, 3, 4, 5}},
		{"a route", url.Values{"route": {route}}.Encode(), []int{4}},
		{"executed", "outcome=executed", []int{1, 2, 4}},
		{"refused", "outcome=refused", []int{3, 5}},
		{"lost", "outcome=lost", []int{4}},
		{"a customer", "about=" + loan.CustomerID, []int{1, 4}},
		{"a loan", "about=" + other.ID, []int{2}},
		{"a caller", "limit=2&about=" + lendingtest.Username, []int{4, 5}},
		{"older ones", "before=4&limit=2", []int{2, 3}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var all []struct{ Number int }
			query, err := url.ParseQuery(test.query)
			require.NoError(t, err)
			require.NoError(t, c.Get(ctx, "requests", query, &all))
			var numbers []int
			for _, request := range all {
				numbers = append(numbers, request.Number)
			}
			assert.Equal(t, test.want, numbers)
		})
	}
	var all []lendingtest.Request
	require.NoError(t, c.Get(ctx, "requests", url.Values{"limit": {"1"}}, &all))
	assert.Equal(t, marshal(t, r.Find(lendingtest.RequestFilter{Limit: 1})), marshal(t, all))
	assert.Contains(t, string(all[0].Answer), "ApplicationNotFound")
	assert.Empty(t, r.Requests()[3].Answer, "nobody was told")
	var sent []lendingtest.Sent
	require.NoError(t, c.Get(ctx, "sent", nil, &sent))
	assert.Equal(t, marshal(t, r.Sent()), marshal(t, sent))
	var routes []string
	require.NoError(t, c.Get(ctx, "routes", nil, &routes))
	assert.Equal(t, r.Routes(), routes)
	for _, query := range []string{"route=x", "outcome=x", "before=x", "limit=-1", "before=", "about=x"} {
		t.Run(query, func(t *testing.T) {
			status, said := call(t, address+"/requests?"+query)
			assert.Equal(t, 400, status, said)
		})
	}
}

// The answers that the log keeps are bounded, each and together.
func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	large := []byte(strings.Repeat("x", 9_000))
	r.Answer("GET /api/Loan/get-loan/{loanId}", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(large) })
	for range 5000 {
		r.get("/api/Loan/get-loan/" + unknownID)
	}
	total := 0
	for _, request := range r.Requests() {
		assert.LessOrEqual(t, len(request.Answer), 8<<10)
		total += len(request.Answer)
	}
	assert.LessOrEqual(t, total, 32<<20)
	assert.Greater(t, total, 16<<20)
}

// Every order of RECIPES.md is obeyed.
func TestRecipes(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("RECIPES.md")
	require.NoError(t, err)
	r, url := controlled(t)
	app := r.offered()
	loan, sub := r.AddLoan(lendingtest.Loan{}).ID, r.AddSubscription(lendingtest.Subscription{}).ID
	fill := strings.NewReplacer("APP", app, "LOAN", loan, "SUB", sub)
	row := regexp.MustCompile("(?m)^\\| [^|]+ \\| `([a-z-]+) (\\{.*?\\})` \\| `service\\.")
	rows := row.FindAllStringSubmatch(string(page), -1)
	assert.Greater(t, len(rows), 20)
	for _, row := range rows {
		t.Run(row[1]+row[2], func(t *testing.T) {
			resp, err := http.Post(url+"/"+row[1], "application/json", strings.NewReader(fill.Replace(row[2])))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, http.StatusNoContent, resp.StatusCode)
		})
	}
}
