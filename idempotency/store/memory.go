package store

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lendingapi/lending-go/internal/opaque"
)

// NewMemory returns a store for the clients of one process, which loses everything when the
// process ends: for tests, and for mutations that need to happen once only while the process
// lives.
func NewMemory() Store {
	m := &memory{entries: map[string]savedEntry{}, locks: map[string]string{}}
	return memoryStore{opaque.Hide(m)}
}

// memoryStore hides its entries from fmt.
type memoryStore struct{ state opaque.Value[*memory] }

type memory struct {
	mu      sync.Mutex
	entries map[string]savedEntry
	locks   map[string]string // to the key that has it
}

type savedEntry struct {
	Entry
	at time.Time
}

// loaded returns the entry with its age at now.
func (e savedEntry) loaded(now time.Time) Entry {
	entry := e.Entry
	entry.Data = slices.Clone(entry.Data)
	entry.Age = now.Sub(e.at)
	return entry
}

func (s memoryStore) Load(_ context.Context, key string) (*Entry, error) {
	m := s.state()
	m.mu.Lock()
	defer m.mu.Unlock()
	saved, ok := m.entries[key]
	if !ok {
		return nil, nil //nolint:nilnil // there is none, as the interface says
	}
	entry := saved.loaded(time.Now())
	return &entry, nil
}

func (s memoryStore) Save(_ context.Context, entry Entry) error {
	m := s.state()
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.entries[entry.Key]
	if was.Revision != entry.Revision {
		return ErrConflict
	}
	if holder, held := m.locks[entry.Lock]; held && holder != entry.Key {
		return &LockedError{Key: holder}
	}
	delete(m.locks, was.Lock)
	if entry.Lock != "" {
		m.locks[entry.Lock] = entry.Key
	}
	entry.Revision++
	entry.Data = slices.Clone(entry.Data)
	m.entries[entry.Key] = savedEntry{entry, time.Now()}
	return nil
}

// List sorts by the time of saving: ages that are taken at different instants would put
// entries into a wrong order.
func (s memoryStore) List(_ context.Context, filter Filter) ([]Entry, error) {
	m := s.state()
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	var found []savedEntry
	for _, saved := range m.entries {
		if strings.HasPrefix(saved.Key, filter.Prefix) && slices.Contains(filter.States, saved.State) && now.Sub(saved.at) >= filter.Older {
			found = append(found, saved)
		}
	}
	slices.SortFunc(found, func(a, b savedEntry) int {
		return cmp.Or(a.at.Compare(b.at), strings.Compare(a.Key, b.Key))
	})
	entries := make([]Entry, 0, min(len(found), filter.Limit))
	for _, saved := range found[:cap(entries)] {
		entries = append(entries, saved.loaded(now))
	}
	return entries, nil
}
