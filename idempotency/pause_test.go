package idempotency_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

var incident = idempotency.Decision{By: "kim", Why: "withdrawals are doubled"}

const standingKey = "!standing"

func TestPausedLogSendsNothingAndTellsWho(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		log := fake.Must(idempotency.NewLog(entries, nil)) // of the operator
		o := newOrder(service)
		newcomer := creation(t, client, fake.Newcomer())
		require.NoError(t, creation(t, client, fake.Ada())("done"))
		rename := func() error { return o.rename(t, client, "in doubt", "New") }
		service.Fail(renameRoute, lendingtest.Fault{ResetAfter: true})
		require.ErrorIs(t, rename(), lending.ErrOutcomeUnknown)
		require.NoError(t, log.Pause(t.Context(), incident))
		bubble.Elapse(time.Minute)

		err := newcomer("new")
		require.ErrorIs(t, err, idempotency.ErrPaused)
		require.ErrorContains(t, err, "by kim since 2000-01-01 00:00:00 UTC: withdrawals are doubled")
		assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
		assert.Equal(t, "retry after 1m0s", lending.NextOf(err).String())
		err = rename()
		require.ErrorIs(t, err, idempotency.ErrPaused)
		assert.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(err))
		assert.Equal(t, "retry after 1m0s", lending.NextOf(err).String())
		require.ErrorContains(t, err, "call again after Log.Resume")
		require.NoError(t, creation(t, client, fake.Ada())("done"), "a replay")
		fake.Must(client.Customers.GetByEmail(t.Context(), fake.Ada().Email))
		assert.Equal(t, 1, service.Executed(fake.CreateRoute))
		assert.Equal(t, 1, service.Executed(renameRoute))
		second := log.Pause(t.Context(), idempotency.Decision{By: "lee", Why: "a test"})
		require.ErrorIs(t, second, idempotency.ErrPaused)
		require.ErrorContains(t, second, "paused the log: by kim since 2000-01-01 00:00:00 UTC: withdrawals are doubled")
		now := fake.Must(log.Standing(t.Context())).Paused
		assert.Equal(t, &idempotency.Instruction{Decision: incident, Age: time.Minute}, now)

		require.NoError(t, log.Resume(t.Context()))
		bubble.Elapse(500 * time.Millisecond)
		require.NoError(t, newcomer("new"))
		require.NoError(t, rename())
		assert.Equal(t, 2, service.Executed(fake.CreateRoute))
		assert.Nil(t, fake.Must(log.Standing(t.Context())).Paused)
	})
}

// TestEachRefusedCallIsLogged has a paused log refuse many calls, and a second pause.
func TestEachRefusedCallIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service, lines := lendingtest.New(), &strings.Builder{}
		defer service.Close()
		log := fake.Must(idempotency.NewLog(store.NewMemory(), nil))
		client := processWith(t, service, log, lending.WithLogger(slog.New(slog.NewTextHandler(lines, nil))))
		for range 2 {
			require.NoError(t, log.Pause(t.Context(), incident))
			for n := range 10 {
				require.ErrorIs(t, creation(t, client, fake.Newcomer())(fmt.Sprint(n)), idempotency.ErrPaused)
			}
			require.NoError(t, log.Resume(t.Context()))
			require.NoError(t, creation(t, client, fake.Newcomer())(rand.Text()))
		}
		assert.Equal(t, 20, strings.Count(lines.String(), "level=WARN"))
		assert.Equal(t, 20, strings.Count(lines.String(), "by kim since"))
	})
}

// TestCheckGoesOnDuringAPause has the response of a mutation lost: during a pause, a read still ends
// the doubt.
func TestCheckGoesOnDuringAPause(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		create := newOrder(service).creates(t, client)
		service.Fail(createApplicationRoute, lendingtest.Fault{ResetAfter: true})
		require.ErrorIs(t, create("the/key"), lending.ErrOutcomeUnknown)
		log := fake.Must(idempotency.NewLog(entries, nil))
		require.NoError(t, log.Pause(t.Context(), incident))
		bubble.Elapse(time.Second)
		require.NoError(t, create("the/key"))
		assert.Equal(t, 1, service.Executed(createApplicationRoute))
	})
}

func TestPauseNeedsAPersonAndAReason(t *testing.T) {
	log := fake.Must(idempotency.NewLog(store.NewMemory(), nil))
	for _, d := range []idempotency.Decision{{}, {By: "kim"}, {Why: "a test"}} {
		var argument *lending.ArgumentError
		require.ErrorAs(t, log.Pause(t.Context(), d), &argument)
		require.Nil(t, fake.Must(log.Standing(t.Context())).Paused)
	}
	require.Error(t, new(idempotency.Log).Pause(t.Context(), incident))
}

// TestNoReplicaBeginsToSendAfterAPause has three replicas send all the time, through a store and to
// a service with answers within half a second. The pause comes at another moment in each round.
func TestNoReplicaBeginsToSendAfterAPause(t *testing.T) {
	for round := range 10 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service, entries := lendingtest.New(), store.NewMemory()
				defer service.Close()
				var paused atomic.Bool
				var since time.Time // paused, in the store
				var sent, late, refused atomic.Int32
				slow := &tampered{Store: entries, save: func(e store.Entry) error {
					bubble.Elapse(time.Duration(len(e.Data)) * time.Millisecond)
					return nil
				}}
				way := wire.RoundTripper(func(r *http.Request) (*http.Response, error) {
					if strings.HasSuffix(r.URL.Path, "/create-customer") {
						sent.Add(1)
						if paused.Load() && time.Since(since) > time.Second {
							late.Add(1)
						}
					}
					bubble.Elapse(100 * time.Millisecond)
					return service.Transport().RoundTrip(r)
				})
				var replicas sync.WaitGroup
				for replica := range 3 {
					log := fake.Must(idempotency.NewLog(slow, nil))
					client := wire.NewClient(t, "https://lending.example", lending.WithIdempotency(log),
						lending.WithHTTPClient(&http.Client{Transport: way}),
						lending.WithTokenSource(lending.StaticToken(service.Token(lendingtest.Username))))
					for worker := range 3 {
						replicas.Go(func() {
							for n := 0; refused.Load() < 30; n++ {
								err := creation(t, client, fake.Newcomer())(fmt.Sprint(replica, worker, n))
								if err != nil {
									assert.ErrorIs(t, err, idempotency.ErrPaused)
									refused.Add(1)
									bubble.Elapse(100 * time.Millisecond)
								}
							}
						})
					}
				}
				bubble.Elapse(10*time.Second + time.Duration(round)*130*time.Millisecond)
				log := fake.Must(idempotency.NewLog(entries, nil))
				require.NoError(t, log.Pause(t.Context(), incident))
				since = time.Now()
				paused.Store(true)
				replicas.Wait()
				assert.Greater(t, sent.Load(), int32(50))
				assert.Zero(t, late.Load())
			})
		})
	}
}

// TestPauseIsSeenRightBeforeTheSend has a call wait, between its first look at the instructions and
// its send, and the pause come meanwhile. The mutation is not sent. The call says so, and its entry if the store works.
func TestPauseIsSeenRightBeforeTheSend(t *testing.T) {
	for _, test := range []struct {
		name    string
		inDoubt bool
		isGone  time.Duration // the store, from then on
		state   store.State
	}{
		{"first send", false, 0, store.Free},
		{"resend", true, 0, store.InDoubt},
		{"no store", false, time.Second, store.Sent},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := lendingtest.New()
				defer service.Close()
				entries := &tampered{Store: store.NewMemory()}
				log := fake.Must(idempotency.NewLog(entries, nil))
				o, client := newOrder(service), processWith(t, service, log)
				before := 0
				if test.inDoubt {
					service.Fail(renameRoute, lendingtest.Fault{ResetAfter: true})
					require.ErrorIs(t, o.rename(t, client, "the/key", "New"), lending.ErrOutcomeUnknown)
					before = 1
				}
				entries.save = func(e store.Entry) error {
					if e.State == store.Sent {
						entries.save = nil
						bubble.Elapse(600 * time.Millisecond)
						other := fake.Must(idempotency.NewLog(entries, nil))
						assert.NoError(t, other.Pause(t.Context(), incident))
						back := time.Now().Add(test.isGone)
						entries.save = func(store.Entry) error { return map[bool]error{true: errStore}[time.Now().Before(back)] }
					}
					return nil
				}
				err := o.rename(t, client, "the/key", "New")
				require.ErrorIs(t, err, idempotency.ErrPaused)
				assert.Equal(t, test.inDoubt, lending.OutcomeOf(err) == lending.OutcomeUnknown)
				assert.Equal(t, before, service.Executed(renameRoute))
				assert.Equal(t, test.state, fake.Must(entries.Load(t.Context(), ":the/key")).State)
				bubble.Elapse(time.Second) // the pause between two resends
				require.NoError(t, log.Resume(t.Context()))
				require.NoError(t, o.rename(t, client, "the/key", "New"))
				assert.Equal(t, before+1, service.Executed(renameRoute))
			})
		})
	}
}

// TestInstructionsCostTwoReadsASecond counts the reads of 1,000 calls in a second, half of which
// are replays. 50 calls run at a time.
func TestInstructionsCostTwoReadsASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := lendingtest.New()
		defer service.Close()
		var looks, loads atomic.Int32
		entries := &tampered{Store: store.NewMemory(), load: func(key string) error {
			loads.Add(1)
			if key == standingKey {
				looks.Add(1)
				bubble.Elapse(5 * time.Millisecond)
			}
			return nil
		}}
		client := processWith(t, service, fake.Must(idempotency.NewLog(entries, nil)))
		require.NoError(t, client.Session().SignIn(t.Context()))
		begin := time.Now()
		var calls sync.WaitGroup
		for lane := range 50 {
			calls.Go(func() {
				create := creation(t, client, fake.Newcomer())
				for range 20 {
					assert.NoError(t, create(fmt.Sprint(lane)))
					bubble.Elapse(50 * time.Millisecond)
				}
			})
		}
		calls.Wait()
		assert.LessOrEqual(t, looks.Load(), int32(2))
		assert.Equal(t, 1000+looks.Load(), loads.Load())
		assert.LessOrEqual(t, time.Since(begin), 1100*time.Millisecond)
	})
}

// TestMutationIsNotSentWithoutAViewOfThePause has the entry of the instructions unreadable. A
// recorded response needs no look.
func TestMutationIsNotSentWithoutAViewOfThePause(t *testing.T) {
	newer := store.Entry{Key: standingKey, State: store.Done, Data: []byte(`{"format":3,"pause":{}}`)}
	for _, test := range []struct {
		name    string
		prepare func(t *testing.T, entries *tampered)
		want    string
		person  bool
	}{
		{"the read fails", func(t *testing.T, e *tampered) {
			t.Helper()
			e.load = func(key string) error {
				if key == standingKey {
					return errStore
				}
				return nil
			}
		}, "the store of the log failed", false},
		{"the read takes longer than a second", func(t *testing.T, e *tampered) {
			t.Helper()
			e.load = func(key string) error {
				if key == standingKey {
					bubble.Elapse(1001 * time.Millisecond)
				}
				return nil
			}
		}, "deadline exceeded", false},
		{"a newer release has written it", func(t *testing.T, e *tampered) {
			t.Helper()
			_ = e.Store.Save(t.Context(), newer)
		}, "at least v0.3; update this replica", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := lendingtest.New()
				defer service.Close()
				entries := &tampered{Store: store.NewMemory()}
				log := fake.Must(idempotency.NewLog(entries, nil))
				client := processWith(t, service, log)
				require.NoError(t, creation(t, client, fake.Ada())("done"))
				bubble.Elapse(time.Second)
				test.prepare(t, entries)
				err := creation(t, client, fake.Newcomer())("new")
				require.ErrorIs(t, err, idempotency.ErrStore)
				require.ErrorContains(t, err, test.want)
				assert.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(err), "the store may be restored from a copy")
				next := lending.NextOf(err)
				assert.Equal(t, lending.Next{Retry: true, After: next.After, Person: test.person}, next)
				require.NoError(t, creation(t, client, fake.Ada())("done"))
				assert.Equal(t, 1, service.Executed(fake.CreateRoute))
				if test.person {
					require.ErrorContains(t, log.Pause(t.Context(), incident), test.want)
					require.ErrorContains(t, log.Resume(t.Context()), test.want)
					kept := fake.Must(entries.Load(t.Context(), standingKey))
					assert.Equal(t, string(newer.Data), string(kept.Data))
				}
			})
		})
	}
}

// TestInstructionsAreNoKey has the entry of the instructions in no list of keys, under no
// namespace, and neither swept nor forgotten.
func TestInstructionsAreNoKey(t *testing.T) {
	for _, namespace := range []string{"", "live"} {
		withStore(t, &idempotency.Options{Namespace: namespace},
			func(t *testing.T, _ *lendingtest.Service, entries *tampered, client *lending.Client) {
				log := fake.Must(idempotency.NewLog(entries, &idempotency.Options{Namespace: namespace}))
				other := fake.Must(idempotency.NewLog(entries, &idempotency.Options{Namespace: "other"}))
				require.NoError(t, log.Pause(t.Context(), incident))
				bubble.Elapse(100 * 24 * time.Hour)
				assert.Empty(t, fake.Must(log.Keys(t.Context(), idempotency.Filter{})))
				assert.Equal(t, idempotency.Counts{}, fake.Must(log.Counts(t.Context())))
				assert.Zero(t, fake.Must(log.Sweep(t.Context())))
				fake.Must(log.Check(t.Context(), client))
				for _, key := range []string{"!standing", "standing", "!", namespace + "!standing", namespace} {
					if key != "" {
						assert.Zero(t, fake.Must(log.Forget(t.Context(), key+"/")))
						assert.Zero(t, fake.Must(log.Forget(t.Context(), key)))
						assert.Empty(t, fake.Must(log.Lookup(t.Context(), key)).Route)
					}
				}
				assert.NotNil(t, fake.Must(log.Standing(t.Context())).Paused)
				assert.Nil(t, fake.Must(other.Standing(t.Context())).Paused, "another namespace")
			})
	}
}

// TestInstructionsOfANewerReleaseSurvive has a newer release add members to the entry, and an older
// replica pause and resume the log.
func TestInstructionsOfANewerReleaseSurvive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entries := store.NewMemory()
		require.NoError(t, entries.Save(t.Context(), store.Entry{
			Key: standingKey, State: store.Done, Data: []byte(`{"format":1,"later":{"a":1.50}}`),
		}))
		log := fake.Must(idempotency.NewLog(entries, nil))
		require.NoError(t, log.Pause(t.Context(), incident))
		require.NoError(t, log.Resume(t.Context()))
		var kept struct{ Later json.RawMessage }
		require.NoError(t, json.Unmarshal(fake.Must(entries.Load(t.Context(), standingKey)).Data, &kept))
		assert.Equal(t, `{"a":1.50}`, string(kept.Later))
	})
}
