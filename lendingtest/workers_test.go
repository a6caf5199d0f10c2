package lendingtest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/lendingtest/control"
)

// Twelve callers of the API and eight of the control, all at once: each gets a response, and at the
// end the records are whole and every list has its rows once. The race detector watches.
func TestManyWorkers(t *testing.T) {
	t.Parallel()
	const rounds = 25
	receiver := newReceiver(t)
	r, url := controlled(t, lendingtest.WithLoopbackReceivers(), lendingtest.WithReadLag(time.Millisecond))
	r.AddSubscription(lendingtest.Subscription{WebhookURI: receiver.URL})
	c, ctx := control.Dial(url), t.Context()
	loan := r.AddLoan(lendingtest.Loan{})
	var all sync.WaitGroup
	for worker := range 12 {
		all.Go(func() {
			own := *r
			for round := range rounds {
				own.token = r.Token(lendingtest.Username) // others expire tokens, and restore the state without them
				answer := work(&own, loan, worker, round)
				if assert.NoError(t, answer.err) {
					assert.GreaterOrEqual(t, answer.status, http.StatusOK, answer.body)
					assert.True(t, answer.body == "" || json.Valid([]byte(answer.body)), answer.body)
				}
			}
		})
	}
	for worker := range 8 {
		all.Go(func() {
			for range rounds {
				assert.NoError(t, steer(t, r, c, loan, worker))
			}
		})
	}
	all.Wait()

	require.NoError(t, c.Post(ctx, "clear-faults", nil, nil))
	require.NoError(t, c.Post(ctx, "delivery-mode", struct{}{}, nil))
	require.NoError(t, c.Wait(ctx))
	snap, err := c.Snapshot(ctx)
	require.NoError(t, err)
	require.NoError(t, lendingtest.New().Restore(snap), "whole")
	of := map[string]int{}
	for _, customer := range snap.Customers {
		of[customer.ID] = 0
	}
	for _, a := range snap.Applications {
		of[a.CustomerID]++
	}
	assert.Equal(t, of, r.Newest(len(of)).ApplicationsOf)
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

// steer gives orders of a kind; each worker has its own.
func steer(t *testing.T, r *rig, c *control.Client, loan lendingtest.Loan, worker int) error {
	t.Helper()
	ctx := t.Context()
	var errs []error
	do := func(err error) { errs = append(errs, err) }
	switch worker {
	case 0:
		do(c.Fail(ctx, "*", lendingtest.Fault{Status: 503, Times: 2}))
		do(c.Post(ctx, "clear-faults", nil, nil))
	case 1:
		_, err := c.AddLoan(ctx, lendingtest.Loan{})
		do(err)
		email := map[string]string{"email": "ann@example.com"}
		do(c.Post(ctx, "update", map[string]any{"id": loan.CustomerID, "set": email}, nil))
	case 2:
		snap, err := c.Snapshot(ctx)
		do(err)
		do(c.Post(ctx, "restore", snap, nil))
	case 3:
		var found []lendingtest.Request
		do(c.Get(ctx, "requests", url.Values{"outcome": {lendingtest.OutcomeRefused}, "limit": {"9"}}, &found))
		var posted []lendingtest.Delivery
		do(c.Get(ctx, "deliveries", nil, &posted))
		r.Newest(50)
	case 4:
		var a lendingtest.Account
		do(c.Post(ctx, "add-account", struct{}{}, &a))
		r.Token(a.Username)
	case 5:
		do(c.Post(ctx, "delivery-mode", map[string]any{"copies": 1, "badSignature": true}, nil))
		do(c.Post(ctx, "delivery-mode", struct{}{}, nil))
	case 6:
		do(c.Advance(ctx, time.Second))
		do(c.Post(ctx, "decision", struct{}{}, nil))
		steps := json.RawMessage(`[{"after":"1s","order":"clear-faults","body":{}}]`)
		do(c.Post(ctx, "play", map[string]any{"steps": steps}, nil))
	case 7:
		_, err := c.Executed(ctx, "POST /api/Application/create-application")
		do(err)
		do(c.Post(ctx, "expire-tokens", struct{}{}, nil))
		var sent []lendingtest.Sent
		do(c.Get(ctx, "sent", nil, &sent))
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
