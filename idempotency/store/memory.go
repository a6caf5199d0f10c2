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

// NewMemory returns a store in the memory of one process, which loses everything when the
// process ends. Use the store for tests.
func NewMemory() Store {
	return memoryStore{opaque.Hide(&memory{entries: map[string]savedEntry{}, locks: map[string]string{}})}
}

// memoryStore hides its entries from fmt.
type memoryStore struct{ state opaque.Value[*memory] }

type memory struct {
	mu      sync.Mutex
	entries map[string]savedEntry
	order   []string          // the keys by their last Save
	locks   map[string]string // from lock to key
	last    uint64            // the number of the last Save
}

type savedEntry struct {
	Entry
	at     time.Time
	number uint64 // the number of the Save
}

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
		return nil, nil //nolint:nilnil // no entry: see Store.Load
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
	m.remove(was)
	m.add(entry)
	return nil
}

func (s memoryStore) Replace(_ context.Context, entries []Entry) (replaced int, err error) {
	m := s.state()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, entry := range entries {
		was := m.entries[entry.Key]
		if was.Revision != entry.Revision || was.Revision == 0 {
			continue
		}
		m.remove(was)
		if entry.Lock != was.Lock {
			entry.Lock = ""
		}
		if entry.State != "" {
			m.add(entry)
		}
		replaced++
	}
	return replaced, nil
}

func (m *memory) add(entry Entry) {
	if entry.Lock != "" {
		m.locks[entry.Lock] = entry.Key
	}
	entry.Revision++
	entry.Data = slices.Clone(entry.Data)
	m.last++
	m.entries[entry.Key] = savedEntry{entry, time.Now(), m.last}
	m.order = append(m.order, entry.Key)
}

func (m *memory) remove(was savedEntry) {
	if was.Revision == 0 {
		return
	}
	place := m.since(was.number)
	m.order = slices.Delete(m.order, place, place+1)
	delete(m.locks, was.Lock)
	delete(m.entries, was.Key)
}

// since returns the place of the first entry with at least this number.
func (m *memory) since(number uint64) int {
	byNumber := func(key string, number uint64) int { return cmp.Compare(m.entries[key].number, number) }
	place, _ := slices.BinarySearchFunc(m.order, number, byNumber)
	return place
}

func (s memoryStore) List(_ context.Context, filter Filter) (page []Entry, err error) {
	after, _, err := filter.After.At()
	if err != nil {
		return nil, err
	}
	m := s.state()
	m.mu.Lock()
	defer m.mu.Unlock()
	now, size := time.Now(), 0
	for _, key := range m.order[m.since(min(after, m.last)+1):] {
		saved := m.entries[key]
		switch {
		case !slices.Contains(filter.States, saved.State), !strings.HasPrefix(saved.Key, filter.Prefix):
			continue
		case len(page) >= filter.Limit, now.Sub(saved.at) < filter.Older, len(page) > 0 && size+len(saved.Data) > PageBytes:
			return page, nil
		}
		size += len(saved.Data)
		entry := saved.loaded(now)
		entry.Position = PositionAt(saved.number, saved.Key)
		page = append(page, entry)
	}
	return page, nil
}
