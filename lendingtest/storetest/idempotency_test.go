package storetest

import (
	"bytes"
	"cmp"
	"context"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lendingapi/lending-go/idempotency/store"
)

// idempotencyModel is an idempotency store that keeps its contract except for its flaw.
type idempotencyModel struct {
	flaw    string
	mu      sync.Mutex
	entries map[string]entryModel
	locks   map[string]string // the key of the entry with the lock
	saves   uint64
}

type entryModel struct {
	store.Entry
	at     time.Time
	number uint64 // number of the Save
}

// idempotencyHandle is the store that a process has opened.
type idempotencyHandle struct {
	*idempotencyModel
	closed bool
}

func newIdempotencyModel(flaw string) *idempotencyModel {
	return &idempotencyModel{flaw: flaw, entries: map[string]entryModel{}, locks: map[string]string{}}
}

func openIdempotency(flaw string) func() store.Store {
	shared := newIdempotencyModel(flaw)
	var last *idempotencyHandle
	return func() store.Store {
		switch flaw {
		case "is each process's own":
			return newIdempotencyModel(flaw)
		case "is for one process", "begins ages anew with each process":
			if last != nil {
				last.closed = true
			}
			if flaw != "is for one process" {
				for key, e := range shared.entries {
					e.at = time.Now()
					shared.entries[key] = e
				}
			}
			last = &idempotencyHandle{idempotencyModel: shared}
			return last
		case "forgets its locks with its process":
			shared.locks = map[string]string{}
		}
		return &idempotencyHandle{idempotencyModel: shared}
	}
}

func (h *idempotencyHandle) Load(ctx context.Context, key string) (*store.Entry, error) {
	if h.closed {
		return nil, context.Canceled
	}
	return h.idempotencyModel.Load(ctx, key)
}

func (m *idempotencyModel) lock(ctx context.Context) {
	if m.flaw == "outlasts its context" && ctx.Err() != nil {
		wait(long)
	}
	m.mu.Lock()
}

// unlocked gives other goroutines the time to run.
func (m *idempotencyModel) unlocked(flaw string) {
	if m.flaw == flaw {
		m.mu.Unlock()
		pause()
		m.mu.Lock()
	}
}

func (m *idempotencyModel) name(key string) string {
	if m.flaw == "folds the case of keys" {
		return strings.ToLower(key)
	}
	return key
}

func (m *idempotencyModel) out(e entryModel) store.Entry {
	out := e.Entry
	if m.flaw != "lends what it keeps" {
		out.Data = bytes.Clone(out.Data)
	}
	if out.Age = time.Since(e.at); m.flaw == "returns the age that was given" {
		out.Age = e.Age
	}
	return out
}

func (m *idempotencyModel) Load(ctx context.Context, key string) (*store.Entry, error) {
	m.lock(ctx)
	defer m.mu.Unlock()
	e, ok := m.entries[m.name(key)]
	if !ok && m.flaw != "returns an empty entry for none" {
		return nil, nil
	}
	if m.flaw == "begins the age anew with Load" {
		e.at = time.Now()
		m.entries[m.name(key)] = e
	}
	out := m.out(e)
	return &out, nil
}

func (m *idempotencyModel) Save(ctx context.Context, entry store.Entry) error {
	m.lock(ctx)
	defer m.mu.Unlock()
	key := m.name(entry.Key)
	was, found := m.entries[key]
	m.unlocked("compares before it locks")
	other := was.Revision != entry.Revision
	switch m.flaw {
	case "saves over any older revision":
		other = found && was.Revision > entry.Revision || !found && entry.Revision != 0
	case "makes an entry of any revision":
		other = other && found
	case "compares the low half of a revision":
		other = int32(was.Revision) != int32(entry.Revision)
	}
	if other {
		if m.flaw == "begins the age anew with a refusal" && found {
			was.at = time.Now()
			m.entries[key] = was
		}
		if m.flaw == "gives the lock up before it compares" {
			delete(m.locks, was.Lock)
		}
		return store.ErrConflict
	}
	holder, held := m.locks[entry.Lock]
	m.unlocked("looks at the lock before it locks")
	held = held && entry.Lock != "" && (holder != entry.Key || m.flaw == "refuses its own lock")
	switch m.flaw {
	case "guards the locks of what is sent alone":
		held = held && m.entries[holder].State == store.Sent
	case "does not guard locks":
		held = false
	}
	if held {
		switch m.flaw {
		case "writes before it looks at the lock":
			m.keep(key, was, entry)
		case "gives the lock up for one that it does not get":
			delete(m.locks, was.Lock)
		case "names the wrong key":
			holder = entry.Key
		}
		return &store.LockedError{Key: holder}
	}
	if m.flaw != "keeps a lock for ever" {
		delete(m.locks, was.Lock)
	}
	m.locks[entry.Lock] = entry.Key
	m.keep(key, was, entry)
	return nil
}

func (m *idempotencyModel) keep(key string, was entryModel, entry store.Entry) {
	switch {
	case m.flaw == "knows its own states only" && !slices.Contains(allStates, entry.State):
		entry.State = store.Free
	case m.flaw == "cuts data" && len(entry.Data) > 1<<20:
		entry.Data = entry.Data[:1<<20]
	case m.flaw == "keeps data as text":
		entry.Data = []byte(strings.ToValidUTF8(string(entry.Data), "?"))
	case m.flaw == "keeps the data of before for none" && len(entry.Data) == 0:
		entry.Data = was.Data
	}
	if m.flaw != "keeps what it is lent" {
		entry.Data = bytes.Clone(entry.Data)
	}
	if entry.Revision++; m.flaw == "counts to nine" {
		entry.Revision = min(entry.Revision, 9)
	}
	m.saves++
	e := entryModel{entry, time.Now(), m.saves}
	if m.flaw == "keeps the age of the first Save" && was.Revision > 0 {
		e.at, e.number = was.at, was.number
	}
	if m.flaw == "writes the revision before the data" {
		half := was
		half.Key, half.Revision = entry.Key, entry.Revision
		m.entries[key] = half
		m.unlocked(m.flaw)
	}
	m.entries[key] = e
}

func (m *idempotencyModel) Replace(ctx context.Context, entries []store.Entry) (replaced int, err error) {
	m.lock(ctx)
	defer m.mu.Unlock()
	for _, entry := range entries {
		key := m.name(entry.Key)
		was, found := m.entries[key]
		m.unlocked("compares before it replaces")
		other := was.Revision != entry.Revision && m.flaw != "replaces any revision"
		if other || !found {
			if m.flaw == "counts what it leaves out" {
				replaced++
			}
			continue
		}
		if entry.Lock != was.Lock && m.flaw != "takes a lock with Replace" {
			entry.Lock = ""
		}
		if was.Lock != "" && entry.Lock != was.Lock && m.flaw != "keeps the lock of what it deletes" {
			delete(m.locks, was.Lock)
		}
		if entry.Lock != "" && entry.State != "" {
			m.locks[entry.Lock] = entry.Key
		} else if m.flaw != "keeps the lock of what it deletes" {
			delete(m.locks, entry.Lock)
		}
		if delete(m.entries, key); entry.State != "" || m.flaw == "keeps what has no state" {
			m.keep(key, was, entry)
		}
		replaced++
	}
	return replaced, nil
}

func (m *idempotencyModel) List(ctx context.Context, filter store.Filter) ([]store.Entry, error) {
	m.lock(ctx)
	defer m.mu.Unlock()
	after, _, err := filter.After.At()
	if err != nil && m.flaw != "takes any text for a position" {
		return nil, err
	}
	all := []entryModel{}
	for _, e := range m.entries {
		if m.selects(filter, e) {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b entryModel) int {
		switch m.flaw {
		case "lists by key":
			return strings.Compare(a.Key, b.Key)
		case "lists by state":
			return cmp.Or(strings.Compare(string(a.State), string(b.State)), cmp.Compare(a.number, b.number))
		case "lists the youngest first":
			return cmp.Compare(b.number, a.number)
		}
		return cmp.Compare(a.number, b.number)
	})
	if m.flaw == "counts the entries of a page" {
		all = all[min(len(all), int(after)):]
	}
	var listed []store.Entry
	size := 0
	for i, e := range all {
		isFull := len(listed) == filter.Limit && m.flaw != "lists without a limit"
		switch {
		case m.flaw == "looks at the prefix last" && !strings.HasPrefix(e.Key, filter.Prefix):
			filter.Limit--
			continue
		case m.isBefore(e, after):
			continue
		case isFull:
			return listed, nil
		}
		if size += len(e.Data); size > store.PageBytes && len(listed) > 0 && m.flaw != "lists all bytes" {
			break
		}
		out := m.out(e)
		if out.Position = store.PositionAt(e.number, e.Key); m.flaw == "counts the entries of a page" {
			out.Position = store.PositionAt(after+uint64(i)+1, "")
		}
		listed = append(listed, out)
	}
	return listed, nil
}

func (m *idempotencyModel) selects(filter store.Filter, e entryModel) bool {
	prefix := strings.HasPrefix(e.Key, filter.Prefix)
	if m.flaw == "takes a prefix for a pattern" {
		prefix, _ = path.Match(filter.Prefix+"*", e.Key)
	}
	old := time.Since(e.at) >= filter.Older || m.flaw == "lists the young"
	return old && (prefix || m.flaw == "looks at the prefix last") &&
		(slices.Contains(filter.States, e.State) || m.flaw == "lists every state")
}

// isBefore reports whether an entry belongs to an earlier page.
func (m *idempotencyModel) isBefore(e entryModel, after uint64) bool {
	switch m.flaw {
	case "begins each page with the end of the one before":
		return after > 0 && e.number < after
	case "leaves one out between pages":
		return after > 0 && e.number <= after+1
	case "counts the entries of a page":
		return false
	}
	return e.number <= after
}

func TestIdempotencyStoreFindsFlaws(t *testing.T) {
	eachFlaw(t, idempotencyRules, func(tb testing.TB, flaw string) idempotencyStore {
		tb.Helper()
		return idempotencyStore{begin(tb, openIdempotency(flaw))}
	}, map[string][]string{
		"a new store is empty": {"returns an empty entry for none", "makes an entry of any revision"},
		"Load returns the saved entry unchanged": {
			"cuts data", "keeps data as text", "keeps the data of before for none",
		},
		"an entry of a newer release stays unchanged": {"knows its own states only"},
		"keys and locks differ in every byte":         {"folds the case of keys"},
		"Save refuses another revision": {
			"saves over any older revision", "compares the low half of a revision",
			"gives the lock up before it compares", "begins the age anew with a refusal",
		},
		"a lock has one entry": {
			"does not guard locks", "guards the locks of what is sent alone", "refuses its own lock", "names the wrong key",
		},
		"a released lock is free": {"keeps a lock for ever"},
		"Save refuses the lock of another entry and changes nothing": {
			"writes before it looks at the lock", "gives the lock up for one that it does not get",
		},
		"Replace saves the entries whose revision matches": {
			"replaces any revision", "counts what it leaves out",
		},
		"Replace deletes an entry without a state": {"keeps what has no state", "keeps the lock of what it deletes"},
		"Replace takes no lock":                    {"takes a lock with Replace"},
		"Age is the time since the last Save": {
			"returns the age that was given", "keeps the age of the first Save", "begins the age anew with Load",
		},
		"List selects by prefix":        {"takes a prefix for a pattern"},
		"List selects by state":         {"lists every state"},
		"List selects by age":           {"lists the young"},
		"List returns the oldest first": {"lists by key", "lists by state", "lists the youngest first"},
		"pages of List follow each other": {
			"begins each page with the end of the one before", "leaves one out between pages", "takes any text for a position",
			"looks at the prefix last", "lists without a limit",
		},
		"pages of List miss no entry that changes meanwhile": {"counts the entries of a page"},
		"pages of List have a bounded size":                  {"lists all bytes"},
		"the caller owns the returned entries":               {"lends what it keeps", "keeps what it is lent"},
		"one of many parallel Saves succeeds":                {"compares before it locks", "counts to nine"},
		"one of many parallel Replaces succeeds":             {"compares before it replaces"},
		"one of many parallel keys gets the lock":            {"looks at the lock before it locks"},
		"parallel Saves are not mixed":                       {"writes the revision before the data"},
		"processes share the entries":                        {"is each process's own"},
		"saved entries survive their process": {
			"is each process's own", "forgets its locks with its process", "begins ages anew with each process",
		},
		"methods return when their context has ended": {"outlasts its context"},
	}, "is for one process")
}
