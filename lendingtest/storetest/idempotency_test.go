package storetest

import (
	"bytes"
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lendingapi/lending-go/idempotency/store"
)

// flawedStore is a store in memory that keeps its contract except for its flaw.
type flawedStore struct {
	store.Store
	flaw   string
	lent   map[string][]byte // data that several callers have
	closed bool
}

func openIdempotency(flaw string) func() store.Store {
	shared, last := store.NewMemory(), &flawedStore{}
	return func() store.Store {
		switch flaw {
		case "is each process's own":
			shared = store.NewMemory()
		case "is for one process":
			last.closed = true
		case "forgets its locks with its process":
			entries, _ := shared.List(context.Background(), store.Filter{States: allStates, Limit: 100})
			for _, e := range entries {
				e.Lock = ""
				_ = shared.Save(context.Background(), e)
			}
		}
		last = &flawedStore{Store: shared, flaw: flaw, lent: map[string][]byte{}}
		return last
	}
}

func (f *flawedStore) Load(ctx context.Context, key string) (*store.Entry, error) {
	e, err := f.Store.Load(ctx, key)
	if f.flaw == "reads the revision before the data" {
		wait(3 * time.Millisecond)
	}
	switch {
	case f.closed, f.flaw == "outlasts its context" && ctx.Err() != nil:
		wait(long)
		return nil, context.Canceled
	case e == nil && f.flaw == "returns an empty entry for none":
		return &store.Entry{}, nil
	case e == nil:
		return nil, err
	}
	switch f.flaw {
	case "reads the revision before the data":
		e.Data = f.stored(key).Data
	case "lends what it keeps":
		if f.lent[key] == nil {
			f.lent[key] = e.Data
		}
		e.Data = f.lent[key]
	case "begins the age anew with Load":
		e.Age = 0
	}
	return e, err
}

func (f *flawedStore) Save(ctx context.Context, e store.Entry) error {
	was := f.stored(e.Key)
	switch {
	case f.flaw == "makes an entry of any revision" && was.Revision == 0,
		f.flaw == "saves over any older revision" && was.Revision > e.Revision,
		f.flaw == "compares the low half of a revision" && int32(was.Revision) == int32(e.Revision):
		e.Revision = was.Revision
	case f.flaw == "compares before it locks" && was.Revision == e.Revision:
		pause()
		e.Revision = f.stored(e.Key).Revision
	case f.flaw == "refuses its own lock" && was.Lock != "" && was.Lock == e.Lock:
		return &store.LockedError{Key: e.Key}
	case f.flaw == "reads the revision before the data":
		pause()
	case f.flaw == "cuts data":
		e.Data = e.Data[:min(len(e.Data), 1<<20)]
	case f.flaw == "keeps data as text":
		e.Data = bytes.ToValidUTF8(e.Data, []byte("?"))
	case f.flaw == "keeps the data of before for none" && len(e.Data) == 0:
		e.Data = was.Data
	case f.flaw == "knows its own states only" && !slices.Contains(allStates, e.State):
		e.State = store.Free
	case f.flaw == "folds the case of keys":
		e.Key = strings.ToLower(e.Key)
	}
	err := f.Store.Save(ctx, e)
	if held, ok := errors.AsType[*store.LockedError](err); ok {
		return f.refuse(ctx, was, e, held)
	}
	if f.flaw == "begins the age anew with a refusal" && err != nil {
		_ = f.Store.Save(ctx, was)
	}
	if f.flaw == "keeps a lock for ever" && err == nil && was.Lock != e.Lock {
		_ = f.Store.Save(ctx, sent("keeper of "+was.Lock, was.Lock))
	}
	return err
}

// refuse refuses a lock that another entry has.
func (f *flawedStore) refuse(ctx context.Context, was, e store.Entry, held *store.LockedError) error {
	switch f.flaw {
	case "does not guard locks":
		e.Lock = ""
		return f.Store.Save(ctx, e)
	case "guards the locks of what is sent alone":
		if e.Lock = ""; f.stored(held.Key).State != store.Sent {
			return f.Store.Save(ctx, e)
		}
	case "names the wrong key":
		held.Key = e.Key
	case "writes before it looks at the lock":
		e.Lock = was.Lock
		_ = f.Store.Save(ctx, e)
	case "gives the lock up for one that it does not get":
		was.Lock = ""
		_ = f.Store.Save(ctx, was)
	}
	return held
}

// stored returns the stored entry, or an empty entry.
func (f *flawedStore) stored(key string) store.Entry {
	e, _ := f.Store.Load(context.Background(), key)
	if e == nil {
		return store.Entry{}
	}
	return *e
}

func (f *flawedStore) Replace(ctx context.Context, entries []store.Entry) (int, error) {
	entries = slices.Clone(entries)
	for i, e := range entries {
		was := f.stored(e.Key)
		switch f.flaw {
		case "replaces any revision":
			entries[i].Revision = was.Revision
		case "keeps what has no state":
			entries[i].State = store.Free
		case "compares before it replaces":
			if pause(); was.Revision == e.Revision {
				entries[i].Revision = f.stored(e.Key).Revision
			}
		}
	}
	n, err := f.Store.Replace(ctx, entries)
	for _, e := range entries {
		was := f.stored(e.Key)
		switch {
		case f.flaw == "counts what it leaves out":
			n = len(entries)
		case f.flaw == "keeps the lock of what it deletes" && e.State == "":
			_ = f.Store.Save(ctx, sent("keeper of "+e.Lock, e.Lock))
		case f.flaw == "takes a lock with Replace":
			was.Lock = e.Lock
			_ = f.Store.Save(ctx, was)
		}
	}
	return n, err
}

func (f *flawedStore) List(ctx context.Context, filter store.Filter) ([]store.Entry, error) {
	prefix, after := filter.Prefix, uint64(0)
	switch f.flaw {
	case "takes any text for a position":
		if _, _, err := filter.After.At(); err != nil {
			filter.After = ""
		}
	case "takes a prefix for a pattern", "looks at the prefix last":
		filter.Prefix = ""
	case "lists every state":
		filter.States = allStates
	case "lists the young":
		filter.Older = 0
	case "lists without a limit":
		filter.Limit = 1000
	case "counts the entries of a page":
		after, _, _ = filter.After.At()
		filter.After, filter.Limit = "", filter.Limit+int(after)
	}
	page, err := f.Store.List(ctx, filter)
	switch f.flaw {
	case "takes a prefix for a pattern":
		page = slices.DeleteFunc(page, func(e store.Entry) bool {
			isMatch, _ := path.Match(prefix+"*", e.Key)
			return !isMatch
		})
	case "looks at the prefix last":
		page = slices.DeleteFunc(page, func(e store.Entry) bool { return !strings.HasPrefix(e.Key, prefix) })
	case "lists by key":
		slices.SortFunc(page, func(a, b store.Entry) int { return strings.Compare(a.Key, b.Key) })
	case "lists by state":
		slices.SortStableFunc(page, func(a, b store.Entry) int { return strings.Compare(string(a.State), string(b.State)) })
	case "lists the youngest first":
		slices.Reverse(page)
	case "counts the entries of a page":
		page = page[min(int(after), len(page)):]
		for i := range page {
			page[i].Position = store.PositionAt(after+uint64(i)+1, "")
		}
	case "leaves one out between pages":
		page = page[min(1, len(page)):]
	case "begins each page with the end of the one before":
		if len(page) > 1 {
			page[len(page)-1].Position = page[len(page)-2].Position
		}
	case "lists all bytes":
		for len(page) > 0 && len(page) < filter.Limit {
			filter.After = page[len(page)-1].Position
			next, _ := f.Store.List(ctx, filter)
			if len(next) == 0 {
				break
			}
			page = append(page, next...)
		}
	}
	return page, err
}

func TestIdempotencyStoreFindsFlaws(t *testing.T) {
	eachFlaw(t, idempotencyRules, func(tb testing.TB, flaw string) idempotencyStore {
		tb.Helper()
		return idempotencyStore{begin(tb, openIdempotency(flaw))}
	}, map[string][]string{
		"a new store is empty": {"returns an empty entry for none", "makes an entry of any revision"},
		"Load returns the saved entry unchanged, also of a newer release": {
			"cuts data", "keeps data as text", "keeps the data of before for none", "knows its own states only",
		},
		"keys and locks differ in every byte": {"folds the case of keys"},
		"Save refuses another revision": {
			"saves over any older revision", "compares the low half of a revision",
			"begins the age anew with a refusal",
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
			"begins the age anew with Load",
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
		"the caller owns the returned entries":               {"lends what it keeps"},
		"one of many parallel Saves succeeds":                {"compares before it locks"},
		"one of many parallel Replaces succeeds":             {"compares before it replaces"},
		"one of many parallel keys gets the lock":            {"does not guard locks"},
		"parallel Saves are not mixed":                       {"reads the revision before the data"},
		"processes share the entries":                        {"is each process's own"},
		"saved entries survive their process": {
			"is each process's own", "forgets its locks with its process",
		},
		"methods return when their context has ended": {"outlasts its context"},
	}, "is for one process")
}
