package lending_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
)

// The code blocks of the README and of the package documentation, as programs.

// create creates a customer, or finds the one that a call without an answer has created.
func create(ctx context.Context, client *lending.Client, customer lending.UserRequest) (*lending.UserResponse, error) {
	created, err := client.Applications.CreateCustomer(ctx, customer)
	if outcome := lending.OutcomeOf(err); err == nil || outcome == lending.OutcomeNotSent || outcome == lending.OutcomeRejected {
		return created, err
	}
	record, look := client.Customers.GetByEmail(ctx, customer.Email) // which the error names
	if look == nil {
		look = record.Decode(&created) // it is there: do not create it again
	}
	if look == nil && created.ID.IsZero() {
		look = errors.New("the customer has no id") // the shape of this answer is not published
	}
	if look != nil {
		return nil, errors.Join(err, look) // not known yet, or lending.Absent(look): it is not there, or not yet
	}
	return created, nil
}

func TestReadmeUnknownOutcome(t *testing.T) {
	service := lendingtest.NewServer()
	defer service.Close()
	token := lending.StaticToken(service.Token(lendingtest.Username))
	client, err := lending.New(service.URL, lending.WithTokenSource(token))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()

	service.Fail("POST /api/Application/create-customer", lendingtest.Fault{ResetAfter: true}) // it happens, and nobody is told

	const route = "POST /api/Application/create-customer"
	for i, next := range []lendingtest.Fault{{CutBody: -1}, {ResetBefore: true}} {
		customer := goodCustomer()
		customer.Email = fmt.Sprintf("ada%d@example.com", i)
		created, err := create(t.Context(), client, customer)
		require.NoError(t, err)
		assert.False(t, created.ID.IsZero())
		assert.Equal(t, i+1, service.Executed(route))
		service.Fail(route, next)
	}
	_, err = create(t.Context(), client, goodCustomer())
	require.ErrorIs(t, err, lending.ErrNoContent)
	assert.False(t, lending.Absent(err), "it is the error of a command, too")
	require.ErrorIs(t, err, lending.ErrMayHaveHappened)
	assert.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(err), "that of the command, not that of the read")
	assert.Equal(t, 2, service.Executed(route), "what is not there may come yet")
	service.Fail(route, lendingtest.Fault{CutBody: -1})
	service.Fail("GET /api/Customer/get-customer-by-email", lendingtest.Fault{Status: http.StatusOK, Body: []byte(`{"customerId":"x"}`)})
	_, err = create(t.Context(), client, goodCustomer())
	require.ErrorContains(t, err, "the customer has no id")
	service.Fail(route, lendingtest.Fault{Status: http.StatusConflict})
	_, err = create(t.Context(), client, goodCustomer())
	assert.Equal(t, lending.OutcomeRejected, lending.OutcomeOf(err))
}

// Whatever becomes of the confirmation, after some minutes the row says what the service
// did. One that is executed after its caller has gone is not confirmed again.
func TestReadmeBackend(t *testing.T) {
	const route = "POST /api/Loan/confirm-withdrawal-invoice/{loanId}"
	for name, fault := range map[string]*lendingtest.Fault{
		"success": {}, "lost before": {ResetBefore: true}, "lost after": {ResetAfter: true}, "answer cut": {CutBody: -1},
		"refused": {Status: http.StatusTooManyRequests}, "502 after": {Status: http.StatusBadGateway, Executes: true}, "late": nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service, client := demo()
				if fault == nil {
					client = clientOfLate(t, service)
				} else {
					service.Fail(route, *fault)
				}
				loan := service.AddLoan(lendingtest.Loan{})
				begun, err := begin(t.Context(), client, loan.ApplicationID, loan.ID)
				require.NoError(t, err)
				b := &backend{client, map[string][]byte{}}
				failed := b.confirm(t.Context(), "1", drawing{Withdrawal: begun}, lending.NewSecret(service.OTP(loan.ID)))

				var row drawing
				for range 12 { // minutes
					require.NoError(t, json.Unmarshal(b.rows["1"], &row))
					if row.Sent.IsZero() || row.Completed {
						break
					}
					require.ErrorIs(t, failed, lending.ErrOutcomeUnknown)
					require.Error(t, b.confirm(t.Context(), "1", row, lending.NewSecret("123456")), "before it is settled")
					elapse(time.Minute)
					require.NoError(t, b.settle(t.Context(), "1", row))
				}
				assert.NotEqual(t, row.Completed, row.Sent.IsZero(), "it is settled")
				elapse(time.Hour)
				assert.Equal(t, service.Executed(route) == 1, row.Completed)
			})
		})
	}
}

// clientOfLate returns a client whose confirmations break at once and arrive three minutes later.
func clientOfLate(t *testing.T, service *lendingtest.Service) *lending.Client {
	t.Helper()
	late := roundTripper(func(r *http.Request) (*http.Response, error) {
		if !strings.Contains(r.URL.Path, "confirm") {
			return service.Transport().RoundTrip(r)
		}
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		r = r.Clone(context.WithoutCancel(r.Context()))
		r.Body = io.NopCloser(bytes.NewReader(body))
		go func() {
			elapse(3 * time.Minute)
			_, _ = service.Transport().RoundTrip(r) //nolint:bodyclose // nobody reads it
		}()
		return nil, io.ErrUnexpectedEOF
	})
	client, err := lending.New("https://lending.example", lending.WithHTTPClient(&http.Client{Transport: late}),
		lending.WithTokenSource(lending.StaticToken(service.Token(lendingtest.Username))))
	require.NoError(t, err)
	return client
}

func TestReadmeTokenStore(t *testing.T) {
	service := lendingtest.NewServer()
	defer service.Close()
	baseURL, credentials, path := service.URL, credentialsOf(service), filepath.Join(t.TempDir(), "token")
	for range 2 {
		client, err := lending.New(baseURL, lending.WithCredentials(credentials), lending.WithTokenStore(lending.NewFileTokenStore(path)))
		require.NoError(t, err)
		require.NoError(t, client.Session().SignIn(t.Context()))
		require.NoError(t, client.Close())
	}
	assert.Equal(t, 1, service.Executed("POST /api/Authenication/login"))
}

func TestReadmeWebhooks(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	http := http.NewServeMux()
	const text = "whs_0123456789abcdef0123456789abcdef"
	secret, acted := lending.NewSecret(text), make(chan lending.EventName)
	handle := func(_ context.Context, event *lending.Event) error {
		acted <- event.Name
		return nil
	}

	inbox := lending.NewMemoryInbox() // contrib/bolt and contrib/redis have those that survive
	http.Handle("/webhooks", lending.NewReceiver(lending.SignedWith(secret), inbox.Put, nil))
	go lending.Work(ctx, inbox, handle, nil)

	assert.Equal(t, 204, deliverSigned(http, "/webhooks", text, loanOpened))
	assert.Equal(t, lending.EventLoanOpened, <-acted)
}

func TestDocumentationProgram(t *testing.T) {
	ctx := t.Context()
	service := lendingtest.NewServer()
	defer service.Close()
	application, err := lending.ParseApplicationID(service.AddApplication(lendingtest.Application{}).ID)
	require.NoError(t, err)
	address, username, password := service.URL, lendingtest.Username, lendingtest.Password
	askForCode := credentialsOf(service).TwoFactor
	err = func() error {
		client, err := lending.New(address, lending.WithCredentials(lending.Credentials{
			Username:  username,
			Password:  lending.NewSecret(password),
			TwoFactor: askForCode,
		}))
		if err != nil {
			return err
		}
		defer client.Close()

		status, err := client.Applications.Status(ctx, application)
		if err != nil {
			return err
		}
		fmt.Println("the application is", status)
		return nil
	}()
	require.NoError(t, err)
}
