package idempotency

import (
	"context"
	"errors"
	"hash/maphash"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/redact"
)

const (
	// pageLimit is the size of a page of a function that reads many entries.
	pageLimit = 1000
	// partSize is the number of entries that a question reads again for a mark.
	partSize = 25
	// maxSaveTime is the age of an entry before which no later save of another entry can be listed.
	maxSaveTime = 5 * time.Second
	// keptWhole is the age of a record up to which all its mutations are in the log: nobody has forgotten
	// or swept one of them yet.
	keptWhole = 24 * time.Hour
)

// index finds the entries about a record while [Log.Restored] is in force. It reads each entry once, and keeps a
// mark of 4 bytes for each record that the mutation has made and each list to which it adds. A question reads the
// entries around its marks again.
type index struct {
	entries  store.Store
	operator *operator
	prefix   string        // of the stored keys
	inUse    chan struct{} // has a value while a call uses the index
	marks    []uint32      // in the order of the entries
	parts    []part        // of partSize entries each
	read     int           // the number of entries
	after    store.Position
	hasGap   bool     // an entry could not be read, perhaps of a newer release
	restore  string   // the restoration
	tail     []marked // the last settled entries, which each question reads again
}

// part is the begin of some successive entries.
type part struct {
	from  uint64 // the time of the entry before: see [store.Position.At]
	marks int    // the number of marks before
}

// marked is an entry with its marks.
type marked struct {
	at    store.Position
	saved time.Time // by the clock of this process
	marks []uint32
}

// errReading is the error of a question whose call ends before the first read of the whole log. The next question goes
// on with the read.
const errReading = redact.Text("after Log.Restored each process reads the whole log once, and this read goes on")

// errMoved is the error of a question if no entry of the tail is in its place, or one looks younger than before: the clock
// of the store was set back, and new entries can stand among those with marks.
const errMoved = redact.Text("the list of the store has changed")

// stillReading refuses a call that ends with errReading.
var stillReading = Error{kind: ErrInDoubt, cause: errReading, RetryAfter: time.Second}

func readError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errReading
	}
	return err
}

var markSeed = maphash.MakeSeed()

func markOf(name string) uint32 { return uint32(maphash.String(markSeed, name)) } //nolint:gosec // the half is enough

// known is what entries tell about some records.
type known struct {
	made   map[string]maker    // by the id of a record
	adds   map[string]addition // by the stored key of a mutation
	hasGap bool                // the log has an unreadable entry
}

// maker is the mutation that has made a record.
type maker struct {
	at           time.Time // of its first try
	afterRestore bool      // a check or a person has found it after [Log.Restored]
	isNew        string    // the [Log.Restored] before its first try; empty if there is none
}

// addition is a mutation that adds a record to a list: see listOf.
type addition struct {
	list    string
	isOpen  bool   // it is not known whether it happened
	claimed string // the [Log.Restored] after which a check found its record, of a try before; empty for none
}

// about returns what the log knows about the record id, and about other records and lists. It reads the new
// entries last, because an entry that is saved meanwhile moves to the end of the list, and not at all if the log
// knows the maker of the record id.
func (x *index) about(ctx context.Context, id string, others ...string) (*known, error) {
	select {
	case x.inUse <- struct{}{}:
		defer func() { <-x.inUse }()
	case <-ctx.Done():
		return nil, errReading
	}
	now, err := x.operator.recent(ctx)
	if err != nil {
		return nil, err
	}
	if now.Restore != nil && now.Restore.ID != x.restore {
		x.clear()
		x.restore = now.Restore.ID
	}
	k, err := x.ask(ctx, id, others)
	if errors.Is(err, errMoved) {
		x.clear()
		k, err = x.ask(ctx, id, others)
	}
	return k, err
}

func (x *index) ask(ctx context.Context, id string, others []string) (*known, error) {
	wanted := []uint32{markOf(id)}
	for _, other := range others {
		wanted = append(wanted, markOf(other))
	}
	isWanted := func(mark uint32) bool { return slices.Contains(wanted, mark) }
	k := &known{made: map[string]maker{}, adds: map[string]addition{}}
	for i, p := range x.parts {
		next := part{math.MaxUint64, len(x.marks)}
		if i+1 < len(x.parts) {
			next = x.parts[i+1]
		}
		if !slices.ContainsFunc(x.marks[p.marks:next.marks], isWanted) {
			continue
		}
		for entry, err := range x.list(ctx, store.PositionAt(p.from, ""), partSize) {
			if err != nil {
				return nil, err
			}
			if at, _, _ := entry.Position.At(); at > next.from {
				break
			}
			if d, err := readData(entry.Data); err == nil {
				k.add(&entry, &d)
			}
		}
	}
	if _, isKnown := k.made[id]; isKnown {
		return k, nil
	}
	return k, x.follow(ctx, isWanted, k)
}

// follow adds the new entries to the answer k, and keeps the marks of the settled ones before the tail.
func (x *index) follow(ctx context.Context, isWanted func(mark uint32) bool, k *known) error {
	begun, isMoved, isSettled := time.Now(), len(x.tail) > 0, true
	before, tail := x.tail, []marked(nil)
	for entry, err := range x.list(ctx, x.after, pageLimit) {
		if err != nil {
			return readError(ctx, err)
		}
		if i := slices.IndexFunc(before, func(e marked) bool { return e.at == entry.Position }); i >= 0 {
			if begun.Add(-entry.Age).Sub(before[i].saved) > maxSaveTime/2 {
				return errMoved
			}
			before, isMoved = before[i+1:], false
		}
		d, err := readData(entry.Data)
		x.hasGap = x.hasGap || err != nil
		marks := d.marks(&entry)
		if slices.ContainsFunc(marks, isWanted) {
			k.add(&entry, &d)
		}
		// A later page is read later: its entries can be older than a young entry was.
		if isSettled = isSettled && entry.Age > maxSaveTime+time.Since(begun); isSettled {
			tail = append(tail, marked{entry.Position, time.Now().Add(-entry.Age), marks})
		}
		if isMoved {
			continue
		}
		for ; len(tail) > partSize; tail = tail[1:] {
			x.keep(tail[0])
		}
		x.tail = tail
	}
	if k.hasGap = x.hasGap; isMoved {
		return errMoved
	}
	return nil
}

// list returns the entries after a position.
func (x *index) list(ctx context.Context, after store.Position, limit int) iter.Seq2[store.Entry, error] {
	return store.All(ctx, x.entries, store.Filter{Prefix: x.prefix, States: allStates, After: after, Limit: limit})
}

// keep keeps the marks of the next entry.
func (x *index) keep(e marked) {
	if x.read%partSize == 0 {
		from, _, _ := x.after.At() // made by the store
		x.parts = append(x.parts, part{from, len(x.marks)})
	}
	x.read++
	x.marks, x.after = append(x.marks, e.marks...), e.at
}

// drop gives up the memory of the index, unless a call uses it.
func (x *index) drop() {
	select {
	case x.inUse <- struct{}{}:
		x.clear()
		<-x.inUse
	default:
	}
}

func (x *index) clear() {
	x.marks, x.parts, x.read, x.after, x.hasGap, x.tail = nil, nil, 0, "", false, nil
}

// marks returns the marks of an entry.
func (d *entryData) marks(entry *store.Entry) (marks []uint32) {
	for _, id := range d.made(entry.State) {
		marks = append(marks, markOf(id))
	}
	if list := listOf(rowOf(d.Request.Route), d.Request.IDs); list != "" && entry.State != store.Free {
		marks = append(marks, markOf(list))
	}
	return marks
}

func (k *known) add(entry *store.Entry, d *entryData) {
	born, isFound, isNew := entry.Age, false, ""
	for _, c := range d.History.changes(entry.Age) {
		born, isFound = max(born, c.Age), isFound || c.Why == shownByRead
	}
	if d.IsNew && !d.Send.AfterRestore {
		isNew = d.Restore
	}
	for _, id := range d.made(entry.State) {
		k.made[id] = maker{at: time.Now().Add(-born), afterRestore: d.Send.AfterRestore, isNew: isNew}
	}
	if list := listOf(rowOf(d.Request.Route), d.Request.IDs); list != "" && entry.State != store.Free {
		a := addition{list: list, isOpen: !hasHappened(entry.State)}
		if isFound && isNew == "" {
			a.claimed = d.Restore
		}
		k.adds[entry.Key] = a
	}
}

// added returns the number of records that other mutations of the log than that with key have added
// to a list, or -1 if one of them may have.
func (k *known) added(list, key string) (n int) {
	for other, a := range k.adds {
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
// restoration, although another, lost mutation can have made the record; "" for none.
func (k *known) claimer(list, restoration string) string {
	for key, a := range k.adds {
		if list != "" && a.list == list && a.claimed == restoration {
			return key
		}
	}
	return ""
}
