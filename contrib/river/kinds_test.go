package lendingriver_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/riverqueue/river"
	"github.com/stretchr/testify/require"
)

const (
	createCustomer = "POST /api/Application/create-customer"
	createRoute    = "POST /api/Application/create-application"
	linkRoute      = "POST /api/Application/send-application-link"
	statusRoute    = "GET /api/Application/application-status/{applicationId}"
)

// office is a service with a client and its log.
type office struct {
	t           *testing.T
	ctx         context.Context
	service     *lendingtest.Service
	log         *idempotency.Log
	entries     *entries
	client      *lending.Client
	customer    lending.CustomerID
	application lending.ApplicationID
}

// store is a store that can fail.
type entries struct {
	store.Store
	fail func(store.Entry) error
}

func (s *entries) Save(ctx context.Context, entry store.Entry) error {
	if s.fail != nil {
		if err := s.fail(entry); err != nil {
			return err
		}
	}
	return s.Store.Save(ctx, entry)
}

type noTokens struct{}

func (noTokens) Token(context.Context) (lending.Token, error) {
	return lending.Token{}, &lending.ArgumentError{Fields: []lending.FieldError{{Field: "username"}}}
}

func newOffice(t *testing.T) *office {
	t.Helper()
	o := &office{t: t, ctx: t.Context(), service: lendingtest.New(), entries: &entries{Store: store.NewMemory()}}
	t.Cleanup(o.service.Close)
	customer := o.service.AddCustomer(lendingtest.Customer{Email: "order@example.com"})
	application := o.service.AddApplication(lendingtest.Application{CustomerID: customer.ID})
	o.customer, _ = lending.ParseCustomerID(customer.ID)
	o.application, _ = lending.ParseApplicationID(application.ID)
	var err error
	o.log, err = idempotency.NewLog(o.entries, nil)
	require.NoError(t, err)
	o.client = o.newClient(lending.Credentials{
		Username: lendingtest.AdministratorUsername, Password: lending.NewSecret(lendingtest.AdministratorPassword),
	})
	return o
}

func (o *office) newClient(credentials lending.Credentials) *lending.Client {
	o.t.Helper()
	client, err := lending.New("https://lending.example",
		lending.WithHTTPClient(&http.Client{Transport: o.service.Transport()}),
		lending.WithCredentials(credentials), lending.WithIdempotency(o.log))
	require.NoError(o.t, err)
	o.t.Cleanup(client.Close)
	return client
}

// create is the mutation that most errors come from.
func (o *office) create(key string) error {
	_, err := o.client.Applications.Create(lending.WithIdempotencyKey(o.ctx, key), lending.ApplicationRequest{
		CustomerID: o.customer, BusinessName: "Engines", BusinessZip: "94105",
	}, nil)
	return err
}

func (o *office) sendLink(key string) error {
	return o.client.Applications.SendLink(lending.WithIdempotencyKey(o.ctx, key), o.application)
}

// kinds lists every kind of error of the library, and the state that River gives the job:
// cancelled, snoozed, or failed and tried again.
var kinds = map[string]struct {
	fails func(o *office) error
	is    error // found in it
	event river.EventKind
	wait  time.Duration // until the next try, if it is snoozed
}{
	"argument": {
		fails: func(o *office) error {
			_, err := o.client.Applications.Create(lending.WithIdempotencyKey(o.ctx, "order-1"),
				lending.ApplicationRequest{}, nil)
			return err
		},
		event: river.EventKindJobCancelled,
	},
	"key of another account": {
		fails: func(o *office) error {
			require.NoError(o.t, o.create("order-1"))
			o.client = o.newClient(lending.Credentials{
				Username: lendingtest.Username, Password: lending.NewSecret(lendingtest.Password),
			})
			return o.create("order-1")
		},
		is: idempotency.ErrOtherAccount, event: river.EventKindJobCancelled,
	},
	"key of another request": {
		fails: func(o *office) error {
			require.NoError(o.t, o.create("order-1"))
			return o.sendLink("order-1")
		},
		event: river.EventKindJobCancelled,
	},
	"refused": {
		fails: failing(lendingtest.Fault{Status: http.StatusBadRequest}),
		event: river.EventKindJobCancelled,
	},
	"refused for now": {
		fails: failing(lendingtest.Fault{Status: http.StatusConflict, RetryAfter: 30 * time.Second}),
		event: river.EventKindJobSnoozed, wait: 30 * time.Second,
	},
	"forbidden": {
		fails: failing(lendingtest.Fault{Status: http.StatusForbidden}), is: lending.ErrForbidden,
		event: river.EventKindJobCancelled,
	},
	"token refused": {
		fails: failing(lendingtest.Fault{Status: http.StatusUnauthorized}), is: lending.ErrUnauthorized,
		event: river.EventKindJobFailed,
	},
	"rate limited": {
		fails: failing(lendingtest.Fault{Status: http.StatusTooManyRequests, RetryAfter: 42 * time.Second}),
		is:    lending.ErrRateLimited,
		event: river.EventKindJobSnoozed, wait: 42 * time.Second,
	},
	"rate limited for nobody knows how long": {
		fails: failing(lendingtest.Fault{Status: http.StatusTooManyRequests}), is: lending.ErrRateLimited,
		event: river.EventKindJobFailed,
	},
	"overloaded": {
		fails: failing(lendingtest.Fault{Status: http.StatusServiceUnavailable, RetryAfter: 2 * time.Minute}),
		is:    lending.ErrOutcomeUnknown,
		event: river.EventKindJobSnoozed, wait: 2 * time.Minute,
	},
	"answer lost": {
		fails: failing(lendingtest.Fault{ResetAfter: true}), is: lending.ErrOutcomeUnknown,
		event: river.EventKindJobFailed,
	},
	"time is up": {
		fails: func(o *office) error {
			o.service.Fail(createRoute, lendingtest.Fault{DelayBefore: time.Minute})
			ctx, cancel := context.WithTimeout(o.ctx, time.Second)
			defer cancel()
			o.ctx = ctx
			return o.create("order-1")
		},
		is: context.DeadlineExceeded, event: river.EventKindJobFailed,
	},
	"the worker stops": { // which River sees by this error, and has another go on at once
		fails: func(o *office) error {
			ctx, cancel := context.WithCancel(o.ctx)
			o.ctx = ctx
			o.service.Fail(createRoute, lendingtest.Fault{Reached: cancel, DelayBefore: time.Minute})
			return o.create("order-1")
		},
		is: context.Canceled, event: river.EventKindJobFailed,
	},
	"answer cut": {
		fails: failing(lendingtest.Fault{CutBody: 5}), is: lending.ErrMayHaveHappened,
		event: river.EventKindJobFailed, // the next attempt reads the rest in the log
	},
	"answer not kept": { // and no read rebuilds it
		fails: func(*office) error { return fmt.Errorf("step: %w", idempotency.ErrAnswerLost) },
		is:    idempotency.ErrAnswerLost, event: river.EventKindJobSnoozed, wait: 15 * time.Minute,
	},
	"answer not decoded": {
		fails: func(o *office) error {
			o.service.Answer(createRoute, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(`{"id": 7}`))
			})
			return o.create("order-1")
		},
		is: lending.ErrMayHaveHappened, event: river.EventKindJobCancelled,
	},
	"in progress": {
		fails: func(o *office) error {
			o.service.Fail(createRoute, lendingtest.Fault{DelayBefore: time.Minute})
			ctx, cancel := context.WithTimeout(o.ctx, 50*time.Second)
			defer cancel()
			first := *o
			first.ctx = ctx
			go func() { _ = first.create("order-1") }()
			elapse(20 * time.Second)
			return o.create("order-1")
		},
		is: idempotency.ErrInProgress, event: river.EventKindJobSnoozed, wait: 30 * time.Second,
	},
	"in progress, as another says who does not say for how long": {
		fails: func(*office) error { return fmt.Errorf("the other worker: %w", idempotency.ErrInProgress) },
		is:    idempotency.ErrInProgress, event: river.EventKindJobSnoozed, wait: time.Minute,
	},
	"resolved too early": {
		fails: func(o *office) error {
			_ = failing(lendingtest.Fault{ResetBefore: true})(o)
			elapse(3 * time.Minute)
			return o.log.Resolve(o.ctx, "order-1", idempotency.Resolution{
				By: "ada", Why: "she asked",
				Verdict: idempotency.NotHappened(),
			})
		},
		is: idempotency.ErrInDoubt, event: river.EventKindJobSnoozed, wait: 2 * time.Minute,
	},
	"inDoubt": {
		fails: func(o *office) error {
			_ = failing(lendingtest.Fault{ResetBefore: true})(o)
			elapse(time.Minute)
			return o.create("order-1")
		},
		is: idempotency.ErrInDoubt, event: river.EventKindJobSnoozed, wait: 4 * time.Minute,
	},
	"inDoubt, and no read says for how long": {
		fails: func(o *office) error {
			_ = failing(lendingtest.Fault{ResetBefore: true})(o)
			o.service.Fail("GET /api/Application/get-customer-applications/{customerId}",
				lendingtest.Fault{Status: http.StatusForbidden, Times: -1})
			return o.create("order-1")
		},
		is: idempotency.ErrInDoubt, event: river.EventKindJobSnoozed, wait: time.Second,
	},
	"locked": {
		fails: func(o *office) error {
			_ = failing(lendingtest.Fault{ResetBefore: true})(o)
			return o.create("order-2")
		},
		is: idempotency.ErrLocked, event: river.EventKindJobSnoozed, wait: time.Second,
	},
	"needs review": {
		fails: func(o *office) error {
			o.service.Fail(linkRoute, lendingtest.Fault{ResetBefore: true})
			_ = o.sendLink("order-1")
			return o.sendLink("order-1")
		},
		is: idempotency.ErrNeedsReview, event: river.EventKindJobSnoozed, wait: 15 * time.Minute,
	},
	"log down before": {
		fails: func(o *office) error {
			o.entries.fail = func(store.Entry) error { return errors.New("down") }
			return o.create("order-1")
		},
		is: idempotency.ErrStore, event: river.EventKindJobFailed,
	},
	"log down after": {
		fails: func(o *office) error {
			o.entries.fail = func(entry store.Entry) error {
				if entry.State == store.Done {
					return errors.New("down")
				}
				return nil
			}
			return o.create("order-1")
		},
		is: idempotency.ErrStore, event: river.EventKindJobFailed,
	},
	"sign-in refused": {
		fails: func(o *office) error {
			o.client = o.newClient(lending.Credentials{Username: "nobody", Password: lending.NewSecret("wrong")})
			return o.create("order-1")
		},
		event: river.EventKindJobSnoozed, wait: time.Minute,
	},
	"sign-in of a person": {
		fails: func(o *office) error {
			var err error
			o.client, err = lending.New("https://lending.example", lending.WithIdempotency(o.log))
			require.NoError(o.t, err)
			return o.create("order-1")
		},
		is: lending.ErrSignInRequired, event: river.EventKindJobSnoozed, wait: 15 * time.Minute,
	},
	"argument of a sign-in": { // which is none of the order's
		fails: func(o *office) error {
			var err error
			o.client, err = lending.New("https://lending.example", lending.WithIdempotency(o.log),
				lending.WithTokenSource(noTokens{}))
			require.NoError(o.t, err)
			return o.create("order-1")
		},
		event: river.EventKindJobFailed,
	},
	"read finds nothing": {
		fails: func(o *office) error {
			o.service.Fail(statusRoute, lendingtest.Fault{Status: http.StatusNotFound})
			_, err := o.client.Applications.Status(o.ctx, o.application)
			return err
		},
		is: lending.ErrNotFound, event: river.EventKindJobFailed,
	},
	"of another": {
		fails: func(*office) error { return errOther }, is: errOther,
		event: river.EventKindJobFailed,
	},
	"snoozed by the job": {
		fails: func(o *office) error {
			return errors.Join(failing(lendingtest.Fault{Status: http.StatusBadRequest})(o), river.JobSnooze(time.Hour))
		},
		event: river.EventKindJobSnoozed, wait: time.Hour,
	},
	"cancelled by the job": {
		fails: func(o *office) error {
			return river.JobCancel(failing(lendingtest.Fault{
				Status:     http.StatusServiceUnavailable,
				RetryAfter: time.Hour,
			})(o))
		},
		is: lending.ErrOutcomeUnknown, event: river.EventKindJobCancelled,
	},
}

var errOther = errors.New("the disk is full")

func elapse(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // on the fake clock of the bubble

// failing returns the error of the mutation under a fault.
func failing(fault lendingtest.Fault) func(*office) error {
	return func(o *office) error {
		o.service.Fail(createRoute, fault)
		return o.create("order-1")
	}
}
