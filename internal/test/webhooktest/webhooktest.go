// Package webhooktest tests a [webhook.Inbox] by killing the processes of
// a receiver. Package lendingtest/storetest cannot do this: the test needs the TestMain of a
// package, and passes sockets and files to its processes.
package webhooktest

import (
	"fmt"
	"time"

	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/webhook"
)

// wait waits for d, on the fake clock if the test runs in testing/synctest.
func wait(d time.Duration) { <-time.After(d) }

// event returns the nth event. No two events are equal.
func event(n int) *webhook.Event {
	return fake.Must(webhook.Parse(fmt.Appendf(nil, "\ufeff{\"webhookEvent\":\"WB_Loan_Opened\",\"data\":{\"n\":%d}} ", n)))
}
