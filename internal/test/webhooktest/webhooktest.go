// Package webhooktest kills the processes of a receiver to see whether its [webhook.Deduper]
// or its [webhook.Inbox] does what lendingtest/storetest cannot look for: a harness needs the
// TestMain of a package, and hands sockets and files to the processes that it starts.
package webhooktest

import (
	"fmt"
	"testing"
	"time"

	"github.com/lendingapi/lending-go/webhook"
)

// wait passes real time, or virtual time in a bubble of testing/synctest.
func wait(d time.Duration) { <-time.After(d) }

// must stops the test if err is an error.
func must(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// event returns the nth event, of which no two are equal.
func event(n int) *webhook.Event {
	e, err := webhook.Parse([]byte(fmt.Sprintf("\ufeff{\"webhookEvent\":\"WB_Loan_Opened\",\"data\":{\"n\":%d}} ", n)))
	if err != nil {
		panic(err)
	}
	return e
}
