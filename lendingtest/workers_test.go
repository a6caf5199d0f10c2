package lendingtest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/test/steer"
	"github.com/lendingapi/lending-go/lendingtest"
)

// Twelve callers of the API and ten of the control, all at once: each gets a response, and at the
// end the records are whole and every list has its rows once. The race detector watches.
func TestManyWorkers(t *testing.T) {
	t.Parallel()
	const rounds = 25
	receiver := newReceiver(t)
	r, url := controlled(t, lendingtest.WithLoopbackReceivers(), lendingtest.WithReadLag(time.Millisecond))
	r.AddSubscription(lendingtest.Subscription{WebhookURI: receiver.URL})
	c, ctx := steer.Control{URL: url}, t.Context()
	loan := r.AddLoan(lendingtest.Loan{})
	var all sync.WaitGroup
	for worker := range 12 {
		all.Go(func() {
			own := *r
			for round := range rounds {
				own.token = r.Token(lendingtest.Username) // others revoke tokens
				answer := work(&own, loan, worker, round)
				if assert.NoError(t, answer.err) {
					assert.GreaterOrEqual(t, answer.status, http.StatusOK, answer.body)
					assert.True(t, answer.body == "" || json.Valid([]byte(answer.body)), answer.body)
				}
			}
		})
	}
	for _, order := range orders {
		all.Go(func() {
			for range rounds {
				body := json.RawMessage(strings.ReplaceAll(order[1], "CUSTOMER", loan.CustomerID))
				resp, err := steer.Unkept.Post(url+"/"+order[0], "application/json", bytes.NewReader(body))
				if assert.NoError(t, err) {
					assert.Less(t, resp.StatusCode, 300, order[0])
					assert.NoError(t, resp.Body.Close())
				}
			}
		})
	}
	all.Go(func() {
		for range rounds {
			var snap lendingtest.Snapshot
			assert.NoError(t, c.Get(ctx, "snapshot", nil, &snap))
			assert.NotEmpty(t, snap.Loans)
			r.Requests()
			r.Deliveries()
		}
	})
	all.Wait()

	require.NoError(t, c.Post(ctx, "clear-faults", nil, nil))
	require.NoError(t, c.Post(ctx, "delivery-mode", struct{}{}, nil))
	require.NoError(t, c.Post(ctx, "wait", nil, nil))
	var snap lendingtest.Snapshot
	require.NoError(t, c.Get(ctx, "snapshot", nil, &snap))
	of := map[string]int{}
	for _, customer := range snap.Customers {
		of[customer.ID] = 0
	}
	for _, a := range snap.Applications {
		of[a.CustomerID]++
	}
	r.Advance(time.Second) // ends the lag of reads
	admin := r.as(lendingtest.AdministratorUsername)
	for customer, n := range of {
		assert.Len(t, admin.get("/api/Application/get-customer-applications/"+customer).list(), n)
	}
	assert.NotEmpty(t, of)
	assert.Greater(t, r.Arrived("GET /api/Loan/get-loan/{loanId}"), rounds)
}

// work makes a call, another one in each round and by each worker.
func work(r *rig, loan lendingtest.Loan, worker, round int) reply {
	name := fmt.Sprintf("%d.%d", worker, round)
	customer := `{"firstName":"A","lastName":"B","password":"Analytical-Engine-1","mobileNumber":"4155550100","email":"`
	switch (worker + round) % 8 {
	case 0:
		return r.post("/api/Application/create-customer", customer+name+`@example.com"}`)
	case 1:
		return r.post("/api/ApplicationBulk/create-customers",
			"["+customer+name+`@bulk.example"},`+customer+name+`@bulk.test"}]`)
	case 2:
		return r.post("/api/Application/create-application", `{"customerId":"`+loan.CustomerID+`"}`)
	case 3:
		return r.get("/api/Application/get-partner-applications/" + lendingtest.PartnerID + "?skip=1&take=5")
	case 4:
		return r.get("/api/Customer/get-customer-by-email?email=" + name + "@example.com")
	case 5:
		return r.post("/api/Communication/post-messages/"+loan.ApplicationID, `{"message":"`+name+`"}`)
	case 6:
		return r.post("/api/Loan/make-withdrawal-line-of-credit/"+loan.ID, `{"amount":1}`)
	}
	return r.get("/api/Loan/get-loan/" + loan.ID)
}

// orders are what the workers of the control send, each its own.
var orders = [][2]string{
	{"fail", `{"route":"*","fault":{"status":503,"times":2}}`},
	{"clear-faults", `{}`},
	{"add-loan", `{}`},
	{"update", `{"id":"CUSTOMER","set":{"email":"ann@example.com"}}`},
	{"add-account", `{}`},
	{"delivery-mode", `{"copies":1,"secret":"guess"}`},
	{"advance", `{"by":"1s"}`},
	{"revoke-tokens", `{}`},
}
