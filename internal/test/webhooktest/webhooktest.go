// Package webhooktest tests a [webhook.Inbox] by killing the processes of
// a receiver. Package lendingtest/storetest cannot do this: the test needs the TestMain of a
// package, and passes sockets and files to its processes.
package webhooktest

import (
	"fmt"
	"testing"
	"time"

	"github.com/lendingapi/lending-go/webhook"
)

// wait waits for d, on the fake clock if the test runs in testing/synctest.
func wait(d time.Duration) { <-time.After(d) }

func must(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// event returns the nth event. No two events are equal.
func event(n int) *webhook.Event {
	e, err := webhook.Parse([]byte(fmt.Sprintf("\ufeff{\"webhookEvent\":\"WB_Loan_Opened\",\"data\":{\"n\":%d}} ", n)))
	if err != nil {
		panic(err)
	}
	return e
}
