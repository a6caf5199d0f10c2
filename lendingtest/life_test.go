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

	"github.com/lendingapi/lending-go/internal/test/steer"
	"github.com/lendingapi/lending-go/lendingtest"
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
			c := steer.Control{URL: url}
			decision := map[string]any{"after": "1h", "declined": test.declined}
			require.NoError(t, c.Post(t.Context(), "decision", decision, nil))
			app := r.application()
			r.post("/api/Application/add-or-update-banking-data/"+app, bankData).ok()
			r.AddSubscription(lendingtest.Subscription{WebhookURI: receiver.URL, Webhooks: []string{
				"WB_Application_Status_Changed", "WB_Under_Review", "WB_Application_Ready", "WB_Application_Cancelled",
			}})
			offer := r.get("/api/Application/process-application/" + app).text()
			status := func() string { return r.get("/api/Application/application-status/" + app).text() }
			assert.Equal(t, lendingtest.StatusUnderReview, status())
			require.NoError(t, c.Post(t.Context(), "advance", map[string]string{"by": (59 * time.Minute).String()}, nil))
			r.token = r.Token(lendingtest.Username)
			r.get("/api/Application/application-offer/"+app).refused(400, "OfferNotFound")
			if test.cancel {
				r.post("/api/Application/cancel-application/"+app, "").ok()
			}
			require.NoError(t, c.Post(t.Context(), "advance", map[string]string{"by": time.Minute.String()}, nil))
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

// A repayment pays the balance at most. Without a balance there is no transaction.
func TestRepay(t *testing.T) {
	t.Parallel()
	r, url := controlled(t)
	c, ctx := steer.Control{URL: url}, t.Context()
	loan := r.AddLoan(lendingtest.Loan{Amount: 100_00, Balance: 90_00, AvailableBalance: 10_00, IsEnabled: true})
	repay := func(id string) error {
		return c.Post(ctx, "repay", map[string]any{"loanId": id, "amount": lendingtest.Cents(50_00)}, nil)
	}
	var balances []lendingtest.Cents
	for range 3 {
		require.NoError(t, repay(loan.ID))
		now := r.Snapshot().Loans[0]
		balances = append(balances, now.Balance, now.AvailableBalance, now.Transactions[len(now.Transactions)-1].Amount)
	}
	assert.Equal(t, []lendingtest.Cents{40_00, 60_00, 50_00, 0, 100_00, 40_00, 0, 100_00, 40_00}, balances)
	require.EqualError(t, repay("x"), `lendingtest: no loan "x"`)
}

// An update changes the named fields alone and posts the events of what it changes.
func TestUpdate(t *testing.T) {
	t.Parallel()
	receiver := newReceiver(t)
	r, url := controlled(t, lendingtest.WithLoopbackReceivers())
	c, ctx := steer.Control{URL: url}, t.Context()
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

// The request log has the answer.
func TestRequestLog(t *testing.T) {
	t.Parallel()
	const route = "POST /api/Communication/post-messages/{applicationId}"
	r, address := controlled(t)
	c, ctx := steer.Control{URL: address}, t.Context()
	require.NoError(t, c.Fail(ctx, route, lendingtest.Fault{ResetAfter: true}))
	r.post("/api/Communication/post-messages/"+r.AddLoan(lendingtest.Loan{}).ApplicationID, `{"message":"lost"}`)
	r.post("/api/Application/cancel-application/"+unknownID, "")
	var all, newest []lendingtest.Request
	require.NoError(t, c.Get(ctx, "requests", nil, &all))
	assert.Equal(t, marshal(t, r.Requests()), marshal(t, all))
	require.NoError(t, c.Get(ctx, "requests", url.Values{"limit": {"1"}}, &newest))
	assert.Equal(t, marshal(t, all[1:]), marshal(t, newest))
	assert.Contains(t, string(newest[0].Answer), "ApplicationNotFound")
	assert.Empty(t, all[0].Answer, "nobody was told")
	var sent []lendingtest.Sent
	require.NoError(t, c.Get(ctx, "sent", nil, &sent))
	assert.Equal(t, marshal(t, r.Sent()), marshal(t, sent))
	var routes []string
	require.NoError(t, c.Get(ctx, "routes", nil, &routes))
	assert.Equal(t, r.Routes(), routes)
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
			resp, err := steer.Unkept.Post(url+"/"+row[1], "application/json", strings.NewReader(fill.Replace(row[2])))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, http.StatusNoContent, resp.StatusCode)
		})
	}
}
