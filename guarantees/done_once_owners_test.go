package guarantees_test

import (
	"bytes"
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

// TestRepeatedCommandStaysInDoubt sends a command again whose first sending can still be
// executed, or may have been. The service rejects the second: that says nothing of the first.
func TestRepeatedCommandStaysInDoubt(t *testing.T) {
	for _, test := range []struct {
		name  string
		first lendingtest.Fault
		wait  time.Duration
		call  func(context.Context, *lending.Client, order) error
		route string
	}{
		{
			"a read shows nothing, and it can be executed late", lendingtest.Fault{Late: quiet - time.Second}, time.Second,
			func(ctx context.Context, c *lending.Client, _ order) error {
				_, err := c.Applications.CreateCustomer(ctx, fake.Ada())
				return err
			}, fake.CreateRoute,
		},
		{
			"no read can show it", lendingtest.Fault{ResetAfter: true}, 2 * quiet,
			func(ctx context.Context, c *lending.Client, o order) error {
				_, err := c.Applications.UpdateName(ctx, o.application, "New")
				return err
			}, renameRoute,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			journaled(t, nil, func(t *testing.T, service *lendingtest.Service, store *tampered, client *lending.Client) {
				o, journal := newOrder(service), lending.NewJournal(store, nil)
				ctx := lending.WithKey(t.Context(), "the/key", lending.MayRepeat())
				service.Fail(test.route, test.first)
				require.ErrorIs(t, test.call(ctx, client, o), lending.ErrOutcomeUnknown)
				bubble.Elapse(test.wait)
				service.Fail(test.route, lendingtest.Fault{Status: http.StatusBadRequest})
				require.ErrorIs(t, test.call(ctx, client, o), lending.ErrOutcomeUnknown)
				unsettled := fake.Must(journal.Unsettled(t.Context(), 2))
				require.Len(t, unsettled, 1)
				assert.Equal(t, lending.CommandUnknown, unsettled[0].State)
			})
		})
	}
}

// TestLostEntryIsWrittenAgain has the store lose an entry while its command is under way: the
// answer is recorded, and the next call returns it.
func TestLostEntryIsWrittenAgain(t *testing.T) {
	journaled(t, nil, func(t *testing.T, service *lendingtest.Service, store *tampered, client *lending.Client) {
		user, ctx := fake.Newcomer(), lending.WithKey(t.Context(), "the/key")
		lose := func() { store.JournalStore = lending.NewMemoryJournalStore() }
		service.Fail(fake.CreateRoute, lendingtest.Fault{Reached: lose})
		saves := 0
		store.save = func(lending.JournalEntry) error {
			saves++
			require.Less(t, saves, 10, "it goes on for ever")
			return nil
		}
		first := fake.Must(client.Applications.CreateCustomer(ctx, user))
		assert.Equal(t, first, fake.Must(client.Applications.CreateCustomer(ctx, user)))
		assert.Equal(t, 1, service.Executed(fake.CreateRoute))
	})
}

// TestLateOwnerLeavesTheLock has a process stand still with the answer in its hands, and another
// send the command again. The process goes on: a newer value has to wait for as long as the
// second sending can be executed late.
func TestLateOwnerLeavesTheLock(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process func(...lending.Option) *lending.Client) {
		o := newOrder(service)
		store, goOn := lending.NewMemoryJournalStore(), make(chan struct{})
		owner := process(lending.WithJournal(lending.NewJournal(frozen{store, false, goOn}, nil)))
		other := process(lending.WithJournal(lending.NewJournal(store, nil)))
		rename := func(client *lending.Client, key, name string) error {
			ctx, stop := context.WithTimeout(lending.WithKey(t.Context(), key), 10*time.Second)
			defer stop()
			_, err := client.Applications.UpdateName(ctx, o.application, name)
			return err
		}
		owned := make(chan error)
		go func() { owned <- rename(owner, "older", "Older") }()
		bubble.Elapse(11 * time.Second)
		service.Fail(renameRoute, lendingtest.Fault{Late: quiet - time.Second})
		require.ErrorIs(t, rename(other, "older", "Older"), lending.ErrOutcomeUnknown)
		close(goOn)
		require.NoError(t, <-owned)
		var refused *lending.KeyError
		require.ErrorAs(t, rename(other, "newer", "Newer"), &refused)
		require.ErrorIs(t, refused, lending.ErrScopeHeld)
		assert.Equal(t, 10*time.Second+quiet, refused.RetryAfter)
	})
}

// TestAbsencesDoNotProveAnOffer has the service say in two ways that there is no offer.
func TestAbsencesDoNotProveAnOffer(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process func(...lending.Option) *lending.Client) {
		o, client := newOrder(service), process()
		status := http.StatusNotFound
		const offer = "GET /api/Application/application-offer/{applicationId}"
		service.Answer(offer, func(w http.ResponseWriter, r *http.Request) {
			wire.Answer(status, `{"title":"None","errorCode":"NotFound"}`)(w, r)
		})
		service.Fail(fake.ProcessRoute, lendingtest.Fault{ResetBefore: true})
		call := func() error {
			_, err := client.Applications.Process(lending.WithKey(t.Context(), "the/key"), o.application)
			return err
		}
		require.ErrorIs(t, call(), lending.ErrOutcomeUnknown)
		status = http.StatusBadRequest
		require.ErrorIs(t, call(), lending.ErrUnsettled)
		bubble.Elapse(quiet)
		require.ErrorIs(t, call(), lending.ErrUndecided)
	})
}

// TestConflictBeginsTheCallAnew has another process change an entry while this call takes the
// lock of its command, or frees one that nobody needs any more: the call goes on.
func TestConflictBeginsTheCallAnew(t *testing.T) {
	for _, test := range []struct {
		name string
		in   func(lending.JournalEntry) bool
	}{
		{"the lock of another command is freed", func(e lending.JournalEntry) bool {
			return e.Key == ":first" && e.Scope == ""
		}},
		{"the lock is taken before the reads", func(e lending.JournalEntry) bool {
			return e.Key == ":second" && e.State == lending.CommandFree && e.Scope != ""
		}},
		{"the command is written down", func(e lending.JournalEntry) bool {
			return e.Key == ":second" && e.State == lending.CommandSent
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			journaled(t, nil, func(t *testing.T, service *lendingtest.Service, store *tampered, client *lending.Client) {
				o := newOrder(service)
				create := func(key string) error {
					_, err := client.Applications.Create(lending.WithKey(t.Context(), key), o.request(), nil)
					return err
				}
				service.Fail(fake.ListRoute, lendingtest.Fault{Status: http.StatusForbidden})
				require.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(create("first")), "it has the lock")
				bubble.Elapse(time.Minute)
				conflicts := 0
				store.save = func(entry lending.JournalEntry) error {
					if conflicts == 0 && test.in(entry) {
						conflicts++
						return lending.ErrJournalConflict
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

// lastSaved is a store that has what was saved, and returns what the test says.
type lastSaved struct {
	lending.JournalStore
	saved []lending.JournalEntry
	next  *lending.JournalEntry
}

func (s *lastSaved) Save(_ context.Context, entry lending.JournalEntry) error {
	entry.Revision++
	entry.Data = bytes.Clone(entry.Data)
	s.saved = append(s.saved, entry)
	return nil
}

func (s *lastSaved) Load(context.Context, string) (*lending.JournalEntry, error) { return s.next, nil }

// TestEncryptedEntryIsOfItsState returns, to an encrypted store, the data of an entry as that
// of another key, revision or state.
func TestEncryptedEntryIsOfItsState(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*lending.JournalEntry)
		want   error
	}{
		{"unchanged", func(*lending.JournalEntry) {}, nil},
		{"another key", func(e *lending.JournalEntry) { e.Key = "other" }, lending.ErrCorruptEntry},
		{"a later revision", func(e *lending.JournalEntry) { e.Revision++ }, lending.ErrCorruptEntry},
		{"another state", func(e *lending.JournalEntry) { e.State = lending.CommandDone }, lending.ErrCorruptEntry},
		{"a changed byte", func(e *lending.JournalEntry) { e.Data[20] ^= 1 }, lending.ErrCorruptEntry},
		{"no data", func(e *lending.JournalEntry) { e.Data = nil }, lending.ErrCorruptEntry},
	} {
		t.Run(test.name, func(t *testing.T) {
			inner := &lastSaved{}
			store := fake.Must(lending.NewEncryptedJournalStore(inner, bytes.Repeat([]byte("k"), 32)))
			entry := lending.JournalEntry{Key: "key", State: lending.CommandFree, Scope: "scope", Data: []byte("data")}
			require.NoError(t, store.Save(t.Context(), entry))
			inner.next = &inner.saved[0]
			test.change(inner.next)
			loaded, err := store.Load(t.Context(), "key")
			require.ErrorIs(t, err, test.want)
			if test.want == nil {
				entry.Revision = 1
				assert.Equal(t, &entry, loaded)
			}
		})
	}
}

// TestEncryptedLocksNeedTheKey saves the same lock with two keys: what the store has of it
// differs, so that nobody without the key can tell what it is of.
func TestEncryptedLocksNeedTheKey(t *testing.T) {
	locks := map[string]bool{"scope": true}
	for _, key := range []string{"a", "b", "a"} {
		inner := &lastSaved{}
		store := fake.Must(lending.NewEncryptedJournalStore(inner, bytes.Repeat([]byte(key), 32)))
		entry := lending.JournalEntry{Key: "key", State: lending.CommandFree, Scope: "scope"}
		require.NoError(t, store.Save(t.Context(), entry))
		locks[inner.saved[0].Scope] = true
	}
	assert.Len(t, locks, 3, "one of each key, and none that is the plain text")
}
