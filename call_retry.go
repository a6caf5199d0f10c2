package lending

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/lendingapi/lending-go/internal/backoff"
	"github.com/lendingapi/lending-go/internal/neterr"
)

// The bounds on retrying a read.
const (
	maxRetries   = 4
	firstBackoff = 300 * time.Millisecond
	maxBackoff   = 10 * time.Second
	maxWait      = time.Hour // a longer Retry-After is not waited for
)

// repeat retries a read after wait, until the read succeeds, fails for good, or the next attempt
// would begin after the deadline. A mutation never comes here.
func (x *exchange) repeat(hr *http.Request, wait time.Duration) (*http.Response, error) {
	if err := backoff.Sleep(hr.Context(), wait); err != nil {
		return nil, err
	}
	rr, err := retryablehttp.FromRequest(hr)
	if err != nil {
		return nil, err
	}
	client := &retryablehttp.Client{
		HTTPClient:   &x.http,
		RetryMax:     maxRetries - 1,
		Backoff:      func(least, _ time.Duration, _ int, _ *http.Response) time.Duration { return least },
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
	client.CheckRetry = func(ctx context.Context, resp *http.Response, err error) (again bool, _ error) {
		client.RetryWaitMin, again = x.again(ctx, resp, err)
		return again, nil
	}
	return client.Do(rr)
}

// again decides after an attempt whether to retry the read, and after which wait.
func (x *exchange) again(ctx context.Context, resp *http.Response, err error) (wait time.Duration, again bool) {
	if ctx.Err() != nil || !isTransient(resp, err) {
		return 0, false
	}
	var asked time.Duration
	if resp != nil {
		asked = backoff.RetryAfter(x.answer.Header)
	}
	wait = asked + backoff.After(x.attempts, firstBackoff, maxBackoff)
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
		if resp != nil { // the error then has status and errNoTime
			x.err = errNoTime
		}
		return 0, false
	}
	return wait, asked <= maxWait
}

// errNoTime is the cause of a read that gives up before the deadline of its context.
var errNoTime = hidden("the deadline comes before the time to try again", context.DeadlineExceeded)

func isTransient(resp *http.Response, err error) bool {
	if err != nil {
		return !neterr.IsPermanent(err) && !errors.Is(err, ErrTooLarge)
	}
	switch resp.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}
