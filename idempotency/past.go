package idempotency

import (
	"context"
	"strconv"
	"time"

	"github.com/lendingapi/lending-go/idempotency/store"
)

const (
	// settled is the age at which no save can still come into the list before an entry.
	settled = 5 * time.Second
	// young is the age of a record, at the time of a copy, whose other mutations nobody has forgotten
	// or swept yet.
	young = 24 * time.Hour
)

// past is what the entries of the log tell about records, read while [Log.Restored] is in force.
type past struct {
	reading chan struct{} // has a value while a call uses the past
	after   store.Position
	made    map[string]maker    // by the id of a record
	adds    map[string]addition // by the stored key of a mutation
	hasGap  bool                // an entry could not be read, perhaps of a newer release
}

// maker is the mutation that has made a record.
type maker struct {
	at       time.Time // of its first try
	presumed bool      // a check or a person has found it after [Log.Restored]
}

// addition is a mutation that adds a record to a list: see listOf.
type addition struct {
	list   string
	isOpen bool      // it is not known whether it happened
	sent   time.Time // of its first try; zero if it is only presumed
	found  time.Time // when a check found its record; zero if none did
}

// withPast calls f with the past. It reads the news, unless the past has made the record id.
func (s *settings) withPast(ctx context.Context, id string, f func(*past)) error {
	p := &s.past
	select {
	case p.reading <- struct{}{}:
		defer func() { <-p.reading }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if _, known := p.made[id]; !known {
		all := store.Filter{Prefix: s.stored(""), States: allStates, After: p.after, Limit: pageLimit}
		for entry, err := range store.All(ctx, s.store, all) {
			if err != nil {
				return err
			}
			p.note(&entry)
			if entry.Age > settled {
				p.after = entry.Position
			}
		}
	}
	f(p)
	return nil
}

func (p *past) note(entry *store.Entry) {
	d, err := readData(entry.Data)
	if err != nil {
		p.hasGap = true
		return
	}
	now, born, found := time.Now(), entry.Age, time.Time{}
	for _, c := range d.changes(entry) {
		born = max(born, c.Age)
		if c.Why == shownByRead {
			found = now.Add(-c.Age)
		}
	}
	row := rowOf(d.Request.Route)
	happened := entry.State == store.Done || entry.State == store.Forgotten
	if happened && (row.ids && !row.adds || row.listsIDs && !row.isOne) {
		m := maker{at: now.Add(-born), presumed: d.Send.Presumed}
		for _, id := range uuidsIn(`"` + string(d.Response.Body) + `"`) { // text/plain has no quotes
			p.made[id] = m
		}
	}
	delete(p.adds, entry.Key)
	if list := listOf(row, d.Request.IDs); list != "" && entry.State != store.Free {
		a := addition{list: list, isOpen: !happened, found: found}
		if !d.Send.Presumed {
			a.sent = now.Add(-born)
		}
		p.adds[entry.Key] = a
	}
}

// listOf names the list to which a mutation adds one record, or returns "".
func listOf(row route, of ids) string {
	for _, name := range []string{"loanId", "applicationId", "customerId"} {
		if row.adds && of[name] != "" {
			return strconv.FormatBool(row.isOne) + of[name]
		}
	}
	return ""
}

// added returns the number of records that other mutations of the log than that with key have added
// to a list, or -1 if one of them may have.
func (p *past) added(list, key string) (n int) {
	for other, a := range p.adds {
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
func (p *past) claimer(list string, since time.Time) string {
	for key, a := range p.adds {
		if list != "" && a.list == list && a.found.After(since) && a.sent.Before(since) {
			return key
		}
	}
	return ""
}
