package store

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lendingapi/lending-go/internal/opaque"
)

// NewMemory returns a store in the memory of one process, which loses everything when the
// process ends. Use the store for tests.
func NewMemory() Store {
	m := &memory{entries: map[string]savedEntry{}, locks: map[string]string{}, saves: map[State]*saves{}}
	return memoryStore{opaque.Hide(m)}
}

// memoryStore hides its entries from fmt.
type memoryStore struct{ state opaque.Value[*memory] }

type memory struct {
	mu      sync.Mutex
	entries map[string]savedEntry
	locks   map[string]string // from lock to key
	saves   map[State]*saves
	last    uint64 // the number of the last Save
}

type savedEntry struct {
	Entry
	at     time.Time
	number uint64 // the number of the Save
}

// saves are the keys that were saved in a state, in the order of the saves. The keys of entries
// that were saved again stay until they are the majority.
type saves struct {
	all  []numberedKey
	live int
}

type numberedKey struct {
	number uint64
	key    string
}

// loaded returns the entry with its age at now.
func (e savedEntry) loaded(now time.Time) Entry {
	entry := e.Entry
	entry.Data = slices.Clone(entry.Data)
	entry.Age = now.Sub(e.at)
	entry.Position = PositionAt(e.number, e.Key)
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
	of := m.saves[entry.State]
	if of == nil {
		of = &saves{}
		m.saves[entry.State] = of
	}
	of.all = append(of.all, numberedKey{m.last, entry.Key})
	of.live++
}

func (m *memory) remove(was savedEntry) {
	if was.Revision == 0 {
		return
	}
	delete(m.locks, was.Lock)
	delete(m.entries, was.Key)
	of := m.saves[was.State]
	of.live--
	if len(of.all) > 2*of.live+64 {
		of.all = slices.DeleteFunc(of.all, func(n numberedKey) bool { return m.entries[n.key].number != n.number })
	}
}

// List goes through the saves of the states, the oldest first, and skips other prefixes.
func (s memoryStore) List(_ context.Context, filter Filter) (page []Entry, err error) {
	after, _, err := filter.After.At()
	if err != nil {
		return nil, err
	}
	m := s.state()
	m.mu.Lock()
	defer m.mu.Unlock()
	now, size := time.Now(), 0
	for n := range m.inOrder(filter.States, after) {
		saved := m.entries[n.key]
		if len(page) >= filter.Limit || now.Sub(saved.at) < filter.Older {
			break
		}
		if strings.HasPrefix(saved.Key, filter.Prefix) {
			if size += len(saved.Data); size > PageBytes && len(page) > 0 {
				break
			}
			page = append(page, saved.loaded(now))
		}
	}
	return page, nil
}

// inOrder returns the entries of these states whose last save has a number above after, in the
// order of the saves.
func (m *memory) inOrder(states []State, after uint64) iter.Seq[numberedKey] {
	var rest [][]numberedKey
	for _, state := range slices.Compact(slices.Sorted(slices.Values(states))) {
		if of := m.saves[state]; of != nil {
			from, _ := slices.BinarySearchFunc(of.all, after+1, func(n numberedKey, number uint64) int {
				return cmp.Compare(n.number, number)
			})
			rest = append(rest, of.all[from:])
		}
	}
	return func(yield func(numberedKey) bool) {
		for {
			oldest := -1
			for i, saves := range rest {
				if len(saves) > 0 && (oldest < 0 || saves[0].number < rest[oldest][0].number) {
					oldest = i
				}
			}
			if oldest < 0 {
				return
			}
			n := rest[oldest][0]
			rest[oldest] = rest[oldest][1:]
			if m.entries[n.key].number == n.number && !yield(n) {
				return
			}
		}
	}
}
