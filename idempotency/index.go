package idempotency

import (
	"context"
	"time"

	"github.com/lendingapi/lending-go/idempotency/store"
)

const (
	// pageLimit is the size of a page of a function that reads many entries.
	pageLimit = 1000
	// maxSaveTime is the age of an entry before which no later save of another entry can be listed.
	maxSaveTime = 5 * time.Second
	// keptWhole is the age of a record up to which all its mutations are in the log: nobody has forgotten
	// or swept one of them yet.
	keptWhole = 24 * time.Hour
)

// index has the entries of the log by the records that they created. The log reads it while
// [Log.Restored] is in force.
type index struct {
	entries store.Store
	prefix  string        // of the stored keys
	inUse   chan struct{} // has a value while a call uses the index
	after   store.Position
	made    map[string]maker    // by the id of a record
	adds    map[string]addition // by the stored key of a mutation
	hasGap  bool                // an entry could not be read, perhaps of a newer release
}

// maker is the mutation that has made a record.
type maker struct {
	at           time.Time // of its first try
	afterRestore bool      // a check or a person has found it after [Log.Restored]
}

// addition is a mutation that adds a record to a list: see listOf.
type addition struct {
	list   string
	isOpen bool      // it is not known whether it happened
	sent   time.Time // of its first try; zero if the log knows no send
	found  time.Time // when a check found its record; zero if none did
}

// use calls f with the index. It first reads the new entries, unless the index has the record id.
func (x *index) use(ctx context.Context, id string, f func(*index)) error {
	select {
	case x.inUse <- struct{}{}:
		defer func() { <-x.inUse }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if _, known := x.made[id]; !known {
		all := store.Filter{Prefix: x.prefix, States: allStates, After: x.after, Limit: pageLimit}
		for entry, err := range store.All(ctx, x.entries, all) {
			if err != nil {
				return err
			}
			x.add(&entry)
			if entry.Age > maxSaveTime {
				x.after = entry.Position
			}
		}
	}
	f(x)
	return nil
}

func (x *index) add(entry *store.Entry) {
	d, err := readData(entry.Data)
	if err != nil {
		x.hasGap = true
		return
	}
	now, born, found := time.Now(), entry.Age, time.Time{}
	for _, c := range d.History.changes(entry.Age) {
		born = max(born, c.Age)
		if c.Why == shownByRead {
			found = now.Add(-c.Age)
		}
	}
	row := rowOf(d.Request.Route)
	happened := entry.State == store.Done || entry.State == store.Forgotten
	if happened && (row.ids && !row.adds || row.listsIDs && !row.isOne) {
		m := maker{at: now.Add(-born), afterRestore: d.Send.AfterRestore}
		for _, id := range uuidsIn(`"` + string(d.Response.Body) + `"`) { // text/plain has no quotes
			x.made[id] = m
		}
	}
	delete(x.adds, entry.Key)
	if list := listOf(row, d.Request.IDs); list != "" && entry.State != store.Free {
		a := addition{list: list, isOpen: !happened, found: found}
		if !d.Send.AfterRestore {
			a.sent = now.Add(-born)
		}
		x.adds[entry.Key] = a
	}
}

// added returns the number of records that other mutations of the log than that with key have added
// to a list, or -1 if one of them may have.
func (x *index) added(list, key string) (n int) {
	for other, a := range x.adds {
		switch {
		case a.list != list || other == key:
		case a.isOpen:
			return -1
		default:
			n++
		}
	}
	return n
}

// claimer returns the stored key of a mutation of a list that has taken a record for its own after the
// instruction, although another, lost mutation can have made the record; "" for none.
func (x *index) claimer(list string, since time.Time) string {
	for key, a := range x.adds {
		if list != "" && a.list == list && a.found.After(since) && a.sent.Before(since) {
			return key
		}
	}
	return ""
}
