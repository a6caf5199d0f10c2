package idempotency_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

func TestMutationIsRecordedBeforeTheSend(t *testing.T) {
	for _, isDone := range []bool{false, true} {
		t.Run(fmt.Sprint("the save is done: ", isDone), func(t *testing.T) {
			withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
				entries.failOnce(isDone, store.Sent)
				user, ctx := fake.Newcomer(), lending.WithIdempotencyKey(t.Context(), "the/key")
				_, err := client.Applications.CreateCustomer(ctx, user)
				require.ErrorIs(t, err, idempotency.ErrStore)
				require.ErrorIs(t, err, errStore)
				assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
				assert.Zero(t, service.Executed(fake.CreateRoute))
				fake.Must(client.Applications.CreateCustomer(ctx, user))
				assert.Equal(t, 1, service.Executed(fake.CreateRoute))
			})
		})
	}
}

func TestFailedCheckStopsTheSend(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, _ *tampered, client *lending.Client) {
		service.Fail(fake.EmailRoute, lendingtest.Fault{
			Status:     http.StatusTooManyRequests,
			RetryAfter: time.Hour,
		})
		user, ctx := fake.Newcomer(), lending.WithIdempotencyKey(t.Context(), "the/key")
		_, err := client.Applications.CreateCustomer(ctx, user)
		assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
		var failed *lending.Error
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, fake.CreateRoute, failed.Method+" "+failed.Route)
		assert.Equal(t, time.Hour, failed.RetryAfter)
		assert.Equal(t, "retry after 1h0m0s", lending.NextOf(err).String())
		require.NotErrorIs(t, err, lending.ErrRateLimited, "the status is that of another call")

		service.Fail(fake.EmailRoute, lendingtest.Fault{Status: http.StatusForbidden})
		_, err = client.Applications.CreateCustomer(ctx, user)
		assert.Equal(t, "stop", lending.NextOf(err).String(), "%v", err)
		assert.Zero(t, service.Executed(fake.CreateRoute))
		fake.Must(client.Applications.CreateCustomer(ctx, user))
	})
}

// A mutation which waits for a sign-in, or for a person who is asked for a code, is not written
// down as sent.
func TestFailedSignInLeavesTheKeyFree(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		service.Fail(fake.LoginRoute, lendingtest.Fault{Status: http.StatusServiceUnavailable})
		entries.save = func(entry store.Entry) error {
			assert.NotEqual(t, store.Sent, entry.State)
			return nil
		}
		o := newOrder(service)
		err := client.Applications.SendLink(lending.WithIdempotencyKey(t.Context(), "the/key"), o.application)
		require.Error(t, err)
		assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
	})
}

func TestUnreadableEntryStopsTheSend(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		entries.load = func(string) error { return errStore }
		_, err := client.Applications.CreateCustomer(lending.WithIdempotencyKey(t.Context(), "the/key"),
			fake.Newcomer())
		require.ErrorIs(t, err, idempotency.ErrStore)
		assert.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(err), "an earlier call may have sent it")
		entries.load = nil
		for key, data := range map[string]string{"broken": "{", "without a route": "{}"} {
			require.NoError(t, entries.Save(t.Context(), store.Entry{Key: ":" + key, State: store.Free, Data: []byte(data)}))
			_, err = client.Applications.CreateCustomer(lending.WithIdempotencyKey(t.Context(), key), fake.Newcomer())
			require.ErrorIs(t, err, store.ErrCorrupt)
		}
		assert.Zero(t, service.Executed(fake.CreateRoute))
	})
}

// stuck is a document whose Read does not come back by itself.
type stuck struct {
	*strings.Reader
	read func()
}

func (s stuck) Read([]byte) (int, error) { s.read(); return 0, io.EOF }

// TestUnreadableDocumentIsNotSent: the log could not distinguish two documents.
func TestUnreadableDocumentIsNotSent(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, _ *tampered, client *lending.Client) {
		o := newOrder(service)
		ctx, cancel := context.WithCancel(t.Context())
		goOn := make(chan struct{})
		defer close(goOn)
		for _, content := range []stuck{
			{strings.NewReader("%PDF"), func() { cancel(); <-goOn }},
			{strings.NewReader("%PDF"), func() { panic("of a caller's reader") }},
		} {
			err := client.Applications.SubmitBankStatement(lending.WithIdempotencyKey(ctx, "statement"), o.application,
				lending.Document{Name: "a.pdf", Content: content})
			require.ErrorContains(t, err, "the request cannot be read twice")
			assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
			ctx = t.Context()
		}
		require.ErrorAs(t, client.Applications.SubmitBankStatement(lending.WithIdempotencyKey(ctx, "statement"),
			o.application,
			lending.Document{Name: "a.pdf", Content: stuck{strings.NewReader("%PDF"), func() { panic("again") }}}),
			new(*lending.PanicError))
		assert.Empty(t, service.Snapshot().Applications[1].Documents)
	})
}

func TestStoreFailureAfterASuccess(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		done := func(entry store.Entry) error {
			if entry.State == store.Done {
				return errStore
			}
			return nil
		}
		user, ctx := fake.Newcomer(), lending.WithIdempotencyKey(t.Context(), "the/key")
		entries.save = done
		customer, err := client.Applications.CreateCustomer(ctx, user)
		require.ErrorIs(t, err, idempotency.ErrStore)
		require.NotNil(t, customer, "the answer came")
		assert.Equal(t, service.Snapshot().Customers[0].ID, customer.ID.String())
		assert.Equal(t, lending.OutcomeDone, lending.OutcomeOf(err))
		entries.save = nil
		bubble.Elapse(2 * time.Minute)
		fake.Must(client.Applications.CreateCustomer(ctx, user))
		assert.Equal(t, 1, service.Executed(fake.CreateRoute))

		other, otherCtx := fake.Newcomer(), lending.WithIdempotencyKey(t.Context(), "another/key")
		begun := time.Now()
		entries.save = func(entry store.Entry) error {
			if time.Since(begun) < 5*time.Second {
				return done(entry)
			}
			return nil
		}
		fake.Must(client.Applications.CreateCustomer(otherCtx, other))
		assert.Equal(t, 2, service.Executed(fake.CreateRoute))
	})
}

// TestOutcomeIsRecorded ends the context of a call: the log records a lost response, and a mutation
// without a send, all the same.
func TestOutcomeIsRecorded(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		log, user := fake.Must(idempotency.NewLog(entries, nil)), fake.Newcomer()
		entries.isStrict = true
		entries.failOnce(true, store.Sent)
		create := func() error {
			ctx, stop := context.WithTimeout(lending.WithIdempotencyKey(t.Context(), "customer"), 10*time.Second)
			defer stop()
			_, err := client.Applications.CreateCustomer(ctx, user)
			return err
		}
		err := create()
		require.ErrorIs(t, err, idempotency.ErrStore)
		require.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
		inDoubt, err := log.Keys(t.Context(), doubtful)
		require.NoError(t, err)
		require.Empty(t, inDoubt)
		service.Fail(fake.CreateRoute, lendingtest.Fault{DelayBefore: time.Hour})
		require.ErrorIs(t, create(), lending.ErrOutcomeUnknown)
		inDoubt, err = log.Keys(t.Context(), doubtful)
		require.NoError(t, err)
		require.Len(t, inDoubt, 1)
		assert.Equal(t, store.InDoubt, inDoubt[0].State)
		bubble.Elapse(maxLateness)
		require.NoError(t, create())
		assert.Equal(t, 1, service.Executed(fake.CreateRoute))
	})
}

// TestRejectedMutationMayBeCorrected after its first send, and not after a send with an unknown outcome.
func TestRejectedMutationMayBeCorrected(t *testing.T) {
	for _, before := range []lendingtest.Fault{{}, {ResetBefore: true}} {
		t.Run(fmt.Sprintf("sent before=%t", before.ResetBefore), func(t *testing.T) {
			keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
				client, user := process(), fake.Newcomer()
				ctx := lending.WithIdempotencyKey(t.Context(), "customer")
				if before.ResetBefore {
					service.Fail(fake.CreateRoute, before)
					_, err := client.Applications.CreateCustomer(ctx, user)
					require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
					bubble.Elapse(maxLateness)
				}
				service.Fail(fake.CreateRoute, lendingtest.Fault{Status: http.StatusBadRequest})
				_, err := client.Applications.CreateCustomer(ctx, user)
				require.Equal(t, lending.OutcomeRejected, lending.OutcomeOf(err))
				user.LastName = "Byron"
				_, err = client.Applications.CreateCustomer(ctx, user)
				if before.ResetBefore {
					require.ErrorIs(t, err, idempotency.ErrKeyReused)
					require.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
					return
				}
				require.NoError(t, err)
			})
		})
	}
}

// TestKeyedCallEndsInTime gives a keyed call a deadline of an hour: it ends after two minutes,
// and no other process waits longer.
func TestKeyedCallEndsInTime(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		o, client, other := newOrder(service), process(), process()
		require.NoError(t, client.Session().SignIn(t.Context()))
		send := func(client *lending.Client) error {
			ctx, stop := context.WithTimeout(lending.WithIdempotencyKey(t.Context(), "the/key"), time.Hour)
			defer stop()
			return client.Applications.SendLink(ctx, o.application)
		}
		held, ended := make(chan struct{}), make(chan time.Duration)
		service.Fail(linkRoute, lendingtest.Fault{Reached: func() { close(held) }, DelayBefore: time.Hour})
		go func() {
			start := time.Now()
			assert.ErrorIs(t, send(client), lending.ErrOutcomeUnknown)
			ended <- time.Since(start)
		}()
		<-held
		var refused *idempotency.Error
		require.ErrorAs(t, send(other), &refused)
		require.ErrorIs(t, refused, idempotency.ErrInProgress)
		assert.Equal(t, 2*time.Minute, refused.RetryAfter)
		assert.Equal(t, 2*time.Minute, <-ended)
	})
}

// lateTimer is a context whose timer has not fired when its deadline is over, as in a process
// after SIGCONT.
type lateTimer struct {
	context.Context
	deadline time.Time
}

func (c lateTimer) Deadline() (time.Time, bool) { return c.deadline, true }

// TestStoppedProcessSendsNothingAfterItsDeadline has a process stand still, after "sent" is
// durable, until its deadline is over, and run on before the timer of its context does: another
// process may have sent the mutation meanwhile.
func TestStoppedProcessSendsNothingAfterItsDeadline(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, where string
		foreign     bool
	}{
		{"after the save", "saved", false},
		{"after the save, with a transport of the caller's", "saved", true},
		{"with a connection in its hands", "connected", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			service := lendingtest.NewServer()
			defer service.Close()
			entries := &tampered{Store: store.NewMemory()}
			opts := []lending.Option{
				lending.WithCredentials(fake.Credentials(service)),
				lending.WithIdempotency(fake.Must(idempotency.NewLog(entries, nil))),
			}
			if test.foreign {
				opts = append(opts, lending.WithHTTPClient(&http.Client{Transport: service.Transport()}))
			}
			client := wire.NewClient(t, service.URL, opts...)
			o := newOrder(service.Service)
			require.NoError(t, client.Session().SignIn(t.Context()))
			ctx := lateTimer{lending.WithIdempotencyKey(t.Context(), "the/key"), time.Now().Add(200 * time.Millisecond)}
			stop := func() { <-time.After(time.Until(ctx.deadline) + time.Millisecond) }
			var call context.Context = ctx
			if test.where == "saved" {
				entries.saved = func(entry store.Entry) error {
					if entry.State == store.Sent {
						stop()
					}
					return nil
				}
			} else {
				call = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
					GotConn: func(httptrace.GotConnInfo) { stop() },
				})
			}
			err := client.Applications.SendLink(call, o.application)
			require.Error(t, err)
			assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err), err)
			assert.Zero(t, service.Executed(linkRoute))
			entry := fake.Must(entries.Load(t.Context(), ":the/key"))
			assert.Equal(t, store.Free, entry.State)
			require.NoError(t, client.Applications.SendLink(lending.WithIdempotencyKey(t.Context(), "the/key"), o.application))
			assert.Equal(t, 1, service.Executed(linkRoute))
		})
	}
}

// TestRepeatedSaveIsNoConflict has a driver repeat a save after its effect: this call has
// the entry then, and nobody else.
func TestRepeatedSaveIsNoConflict(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		entries.saved = func(entry store.Entry) error { return entries.Store.Save(t.Context(), entry) }
		fake.Must(client.Applications.CreateCustomer(lending.WithIdempotencyKey(t.Context(), "the/key"),
			fake.Newcomer()))
		assert.Equal(t, 1, service.Executed(fake.CreateRoute))
	})
}

// TestConflictRestartsTheCall has another process change an entry while this call takes the
// lock of its mutation, or frees an unused lock: the call goes on.
func TestConflictRestartsTheCall(t *testing.T) {
	for _, test := range []struct {
		name string
		in   func(store.Entry) bool
	}{
		{"the lock of another command is freed", func(e store.Entry) bool {
			return e.Key == ":first" && e.Lock == ""
		}},
		{"the lock is taken before the reads", func(e store.Entry) bool {
			return e.Key == ":second" && e.State == store.Free && e.Lock != ""
		}},
		{"the command is written down", func(e store.Entry) bool {
			return e.Key == ":second" && e.State == store.Sent
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
				o := newOrder(service)
				create := o.creates(t, client)
				service.Fail(fake.ListRoute, lendingtest.Fault{Status: http.StatusForbidden})
				require.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(create("first")), "it has the lock")
				bubble.Elapse(time.Minute)
				conflicts := 0
				entries.save = func(entry store.Entry) error {
					if conflicts == 0 && test.in(entry) {
						conflicts++
						return store.ErrConflict
					}
					return nil
				}
				require.NoError(t, create("second"))
				assert.Equal(t, 1, conflicts)
				assert.Equal(t, 1, service.Executed(createApplicationRoute))
			})
		})
	}
}

// TestLostEntryIsWrittenAgain has the store lose the entry of a mutation that is on its way: the log keeps
// the answer, or the doubt.
func TestLostEntryIsWrittenAgain(t *testing.T) {
	for _, test := range []struct {
		name string
		lose func(context.Context, *tampered)
		want error
	}{
		{"a response", func(_ context.Context, entries *tampered) { entries.Store = store.NewMemory() }, nil},
		{"a lost response", func(ctx context.Context, entries *tampered) {
			sent := fake.Must(entries.Load(ctx, ":lost"))
			fake.Must(entries.Replace(ctx, []store.Entry{{Key: sent.Key, Revision: sent.Revision}}))
		}, lending.ErrOutcomeUnknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
				create := newOrder(service).createsID(t, client)
				saves := 0
				entries.save = func(store.Entry) error {
					saves++
					require.Less(t, saves, 10, "it goes on for ever")
					return nil
				}
				service.Fail(createApplicationRoute, lendingtest.Fault{
					Reached: func() { test.lose(t.Context(), entries) }, ResetAfter: test.want != nil,
				})
				first, err := create("lost")
				require.ErrorIs(t, err, test.want)
				second := fake.Must(create("lost"))
				if test.want == nil {
					assert.Equal(t, first, second)
				}
				assert.Equal(t, 1, service.Executed(createApplicationRoute))
			})
		})
	}
}

// TestFailedSaveWithAnEffectAsksNobody has a save that fails and has its effect: the call said "not
// sent", and the next call of the same process sends the mutation, without a person.
func TestFailedSaveWithAnEffectAsksNobody(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		o := newOrder(service)
		send := func(client *lending.Client) error {
			ctx, stop := context.WithTimeout(lending.WithIdempotencyKey(t.Context(), "the/key"), time.Minute)
			defer stop()
			return client.Applications.SendLink(ctx, o.application)
		}
		gone := false
		entries.saved = func(store.Entry) error { gone = true; return errStore }
		entries.load = func(string) error { return map[bool]error{true: errStore}[gone] }
		entries.save = func(store.Entry) error { return map[bool]error{true: errStore}[gone] }
		err := send(client)
		require.ErrorIs(t, err, idempotency.ErrStore)
		assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
		entries.saved, entries.load, entries.save = nil, nil, nil
		require.Equal(t, store.Sent, fake.Must(entries.Load(t.Context(), ":the/key")).State)

		others := fake.Must(idempotency.NewLog(entries, nil))
		other := processWith(t, service, others)
		require.ErrorIs(t, send(other), idempotency.ErrInProgress, "another process cannot know")
		bubble.Elapse(maxLateness)
		assert.Equal(t, 1, fake.Must(others.Keys(t.Context(), doubtful))[0].Sends)
		service.Fail(linkRoute, lendingtest.Fault{ResetAfter: true})
		require.ErrorIs(t, send(client), lending.ErrOutcomeUnknown)
		bubble.Elapse(maxLateness)
		r := says(idempotency.NotHappened())
		r.Sends = 1
		assert.Equal(t, "Sends conflict", catalog.Refused(t, others.Resolve(t.Context(), "the/key", r)), "of an older look")
		assert.Equal(t, 1, service.Executed(linkRoute))
		r.Verdict, r.Sends = idempotency.Happened(nil), 2
		require.NoError(t, others.Resolve(t.Context(), "the/key", r))
		require.NoError(t, send(client))
		require.NoError(t, send(other))
		assert.Equal(t, 1, service.Executed(linkRoute))
	})
}
