package idempotency_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/released"
)

// releasedEntry is a line of a file of entries. Each store keeps its data unchanged: the tests of the
// stores read the stores of each release. This test reads the data.
type releasedEntry struct {
	Call  string          `json:"call"` // of package catalog, whose arguments stay
	State store.State     `json:"state"`
	Lock  string          `json:"lock,omitempty"`
	Data  json.RawMessage `json:"data"`
}

// keyedCalls are the mutations with a key.
func keyedCalls() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(checkRows)) {
		if checkRows[name].how != noKey {
			names = append(names, name)
		}
	}
	return names
}

// scene is a mutation at a service of its own.
type scene struct {
	*testing.T
	name    string
	service *forgetful
	entries *tampered
	log     *idempotency.Log
	client  *lending.Client
}

func newScene(t *testing.T, name string, routes map[string]catalog.Route) *scene {
	t.Helper()
	s := &scene{T: t, name: name, service: &forgetful{routes: routes}, entries: &tampered{Store: store.NewMemory()}}
	s.log = fake.Must(idempotency.NewLog(s.entries, nil))
	s.client = s.service.client(t, s.log)
	return s
}

func (s *scene) call(opts ...keyOption) error {
	_, err := catalog.Calls[s.name](withKey(s.Context(), "the/key", opts...), s.client)
	return err
}

// reached returns an entry in the state. It is not ok if the mutation never needs a review.
func (s *scene) reached(state store.State) (e releasedEntry, ok bool) {
	s.Helper()
	var sent *store.Entry
	s.entries.saved = func(entry store.Entry) error {
		if entry.State == store.Sent {
			sent = &entry
		}
		return nil
	}
	s.service.status = map[store.State]int{store.Free: 429, store.Done: 200, store.Forgotten: 200}[state]
	_ = s.call()
	if state == store.NeedsReview {
		_ = s.call(withCheck(func(context.Context) (idempotency.Verdict, error) {
			return idempotency.NeedsReview("a release"), nil
		}))
	}
	if state == store.Forgotten {
		bubble.Elapse(31 * 24 * time.Hour)
		fake.Must(s.log.Sweep(s.Context()))
	}
	entry := fake.Must(s.entries.Load(s.Context(), ":the/key"))
	if state == store.Sent {
		entry = sent
	}
	return releasedEntry{s.name, entry.State, entry.Lock, entry.Data}, entry.State == state
}

// ends takes an entry to its end, and calls once more.
func (s *scene) ends(e releasedEntry) {
	s.Helper()
	require.NoError(s, s.entries.Save(s.Context(),
		store.Entry{Key: ":the/key", State: e.State, Lock: e.Lock, Data: e.Data}))
	s.service.status = http.StatusOK
	bubble.Elapse(2 * time.Hour) // an upload in flight ends after an hour
	key := fake.Must(s.log.Lookup(s.Context(), "the/key"))
	require.Equal(s, store.Sent, key.History[0].State)
	require.Equal(s, e.State, key.History[len(key.History)-1].State)
	err := s.call()
	if e.State == store.Free || e.State == store.Done {
		require.NoError(s, err)
	}
	if err != nil {
		require.True(s, lending.NextOf(err).Person, "%v", err)
		resolution := says(idempotency.NotHappened())
		if lending.OutcomeOf(err) == lending.OutcomeDone {
			resolution.Verdict = idempotency.Happened(json.RawMessage(s.service.routes[s.name].Success()))
		}
		resolution.Sends = key.Sends
		require.NoError(s, s.log.Resolve(s.Context(), "the/key", resolution))
		require.NoError(s, s.call())
	}
	sent := len(s.service.seen)
	require.NoError(s, s.call(), "after %v", err)
	assert.Equal(s, lending.OutcomeDone, fake.Must(s.log.Lookup(s.Context(), "the/key")).Outcome)
	assert.Len(s, s.service.seen, sent, "a done key sends nothing")
}

// TestEntriesOfEveryReleaseAreRead takes the entries of each release, of every mutation in every
// state, to their ends.
func TestEntriesOfEveryReleaseAreRead(t *testing.T) {
	routes := catalog.Routes(t)
	states := []store.State{
		store.Free, store.Sent, store.InDoubt, store.NeedsReview, store.Done, store.Forgotten,
	}
	released.Each(t, func(t *testing.T, folder string) {
		var text bytes.Buffer
		for _, name := range keyedCalls() {
			for _, state := range states {
				synctest.Test(t, func(t *testing.T) {
					e, ok := newScene(t, name, routes).reached(state)
					require.Equal(t, state != store.NeedsReview || checkRows[name].how != again, ok, "%s %s", name, state)
					if ok {
						require.NoError(t, json.NewEncoder(&text).Encode(e))
					}
				})
			}
		}
		require.NoError(t, os.WriteFile(filepath.Join(folder, "entries.jsonl"), text.Bytes(), 0o600))
	}, func(t *testing.T, folder string) {
		text, err := os.ReadFile(filepath.Join(folder, "entries.jsonl"))
		require.NoError(t, err)
		for line := range bytes.Lines(text) {
			var e releasedEntry
			require.NoError(t, json.Unmarshal(line, &e))
			t.Run(e.Call+" "+string(e.State), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { newScene(t, e.Call, routes).ends(e) })
			})
		}
	})
}
