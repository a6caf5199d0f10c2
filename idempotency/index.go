package idempotency

import (
	"context"
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
	effects  *effects
	prefix   string        // of the stored keys
	inUse    chan struct{} // has a value while a call uses the index
	marks    []uint32      // in the order of the entries
	parts    []part        // of partSize entries each
	read     int           // the number of entries
	after    store.Position
	hasGap   bool      // an entry could not be read, perhaps of a newer release
	restore  string    // the restoration
	salted   time.Time // when the log has saved its salt: see follow
}

// part is the begin of some successive entries.
type part struct {
	from  uint64 // the time of the entry before: see [store.Position.At]
	marks int    // the number of marks before
}

// errReading is the error of a question whose call ends before the first read of the whole log. The next question goes
// on with the read.
const errReading = redact.Text("after Log.Restored each process reads the whole log once, and this read goes on")

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
	newSince     string    // see [entryData.newSince]
}

// addition is a mutation that adds a record to a list: see listOf.
type addition struct {
	list    string
	isOpen  bool   // it is not known whether it happened
	claimed string // see [entryData].Claimed
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
	if err := x.follow(ctx); err != nil {
		return nil, err
	}
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
	isSettled := true // a later page is read later: its entries can be older than a young entry was
	for entry, err := range x.list(ctx, x.after, pageLimit) {
		if err != nil {
			return nil, readError(ctx, err)
		}
		d, err := readData(entry.Data)
		x.hasGap = x.hasGap || err != nil
		marks := d.marks(&entry)
		if slices.ContainsFunc(marks, isWanted) {
			k.add(&entry, &d)
		}
		if isSettled = isSettled && entry.Age > maxSaveTime; isSettled { // else the next question reads the entry again
			x.keep(&entry, marks)
		}
	}
	k.hasGap = x.hasGap
	return k, nil
}

// follow clears the index after another restoration, or if the clock of the store was set back: new entries can stand
// before the last one that was read. The entry of the salt is saved once, so it looks younger only after such a change. It
// tells nothing while it looks as young as the entries that each question reads again: no age is below 0.
func (x *index) follow(ctx context.Context) error {
	now, err := x.operator.recent(ctx)
	if err != nil {
		return err
	}
	begun := time.Now()
	age, err := x.effects.saltAge(ctx)
	if err != nil {
		return readError(ctx, err)
	}
	isSetBack, id := age < maxSaveTime || begun.Add(-age).Sub(x.salted) > maxSaveTime/2, ""
	if now.Restore != nil {
		id = now.Restore.ID
	}
	if isSetBack || id != x.restore {
		x.clear()
	}
	x.restore, x.salted = id, time.Now().Add(-age)
	return nil
}

// list returns the entries after a position.
func (x *index) list(ctx context.Context, after store.Position, limit int) iter.Seq2[store.Entry, error] {
	return store.All(ctx, x.entries, store.Filter{Prefix: x.prefix, States: allStates, After: after, Limit: limit})
}

// keep keeps the marks of the next entry.
func (x *index) keep(entry *store.Entry, marks []uint32) {
	if x.read%partSize == 0 {
		from, _, _ := x.after.At() // made by the store
		x.parts = append(x.parts, part{from, len(x.marks)})
	}
	x.read++
	x.marks, x.after = append(x.marks, marks...), entry.Position
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

func (x *index) clear() { x.marks, x.parts, x.read, x.after, x.hasGap = nil, nil, 0, "", false }

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
	born := entry.Age
	for _, c := range d.History.changes(entry.Age) {
		born = max(born, c.Age)
	}
	for _, id := range d.made(entry.State) {
		k.made[id] = maker{at: time.Now().Add(-born), afterRestore: d.Send.AfterRestore, newSince: d.newSince()}
	}
	if list := listOf(rowOf(d.Request.Route), d.Request.IDs); list != "" && entry.State != store.Free {
		k.adds[entry.Key] = addition{list: list, isOpen: !hasHappened(entry.State), claimed: d.Claimed}
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
