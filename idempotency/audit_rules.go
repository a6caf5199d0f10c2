package idempotency

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go/idempotency/store"
)

// DifferenceKind is the kind of a [Difference].
type DifferenceKind string

// The kinds of differences.
const (
	Missing     DifferenceKind = "missing"     // a key is done, and the service does not show its record
	Shared      DifferenceKind = "shared"      // several keys claim the same record
	Unexplained DifferenceKind = "unexplained" // the service shows a record of no key
	Open        DifferenceKind = "open"        // a key is neither done nor rejected after a day
	Unread      DifferenceKind = "unread"      // the owner could not be compared: the audit is incomplete
)

// Difference is a difference between the log and the service: see [Log.Audit].
type Difference struct {
	Kind    DifferenceKind `json:"kind"`
	Owner   string         `json:"owner,omitempty"`   // customer, application or loan
	ID      string         `json:"id,omitempty"`      // of the owner
	List    string         `json:"list,omitempty"`    // applications, loans, applicants, offers or withdrawals
	Count   int            `json:"count,omitempty"`   // of records
	Keys    []string       `json:"keys,omitempty"`    // the keys, or those among which a record is missing
	Records []string       `json:"records,omitempty"` // the ids of the records, or of those among which some have no key
	Why     string         `json:"why,omitempty"`     // why an owner is unread, or a key is open
}

// AuditResult is the result of a complete pass of an audit: see [Log.Audit].
type AuditResult struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Ended  time.Time `json:"ended"`
	Keys   int       `json:"keys"`   // with a change between From and To
	Owners int       `json:"owners"` // in the requests of these keys

	Found       map[DifferenceKind]int `json:"found,omitempty"`       // the number of differences
	Differences []Difference           `json:"differences,omitempty"` // the first 100
	// NotAuditable is the number of keys without a read, by their method and path template, and of
	// owners of which the log has forgotten a key.
	NotAuditable map[string]int `json:"notAuditable,omitempty"`

	// Daily is the result of [Log.AuditDaily] if a later [Log.Audit] made this one, and of less than the same period.
	// The gauges show Daily.
	Daily *AuditResult `json:"daily,omitempty"`
}

// owners returns the customer, application and loan that a request names, such as "loan 8c1b5a6e-…".
func (i ids) owners() (all []string) {
	for _, kind := range [...]string{"customer", "application", "loan"} {
		if id := i[kind+"Id"]; uuid.Validate(id) == nil {
			all = append(all, kind+" "+strings.ToLower(id))
		}
	}
	return all
}

// record is a record of a list or of a response.
type record struct {
	id  string   // the member id, or the only UUID, or ""
	ids []string // all UUIDs, without those of the request
}

func recordOf(text []byte, own ids) record {
	r := record{id: idOf(text), ids: slices.DeleteFunc(uuidsIn(`"`+string(text)+`"`), own.has)} // text/plain has no quotes
	if r.id == "" && len(r.ids) == 1 {
		r.id = r.ids[0]
	}
	return r
}

// idOf returns the member id of a record if it is a UUID, else "".
func idOf(text []byte) string {
	var said struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(text, &said) != nil || uuid.Validate(said.ID) != nil {
		return ""
	}
	return strings.ToLower(said.ID)
}

// claim is a record that a key has made or may have made.
type claim struct {
	key    string
	in     reads     // the list of the record
	id     string    // "" if the response does not tell the id from others
	isSure bool      // the list must show the record
	once   bool      // the record can replace an earlier record
	at     time.Time // of the last change of the key
}

// claims returns the records of the key of an entry.
func (d *entryData) claims(entry *store.Entry) (all []claim) {
	row := rowOf(d.Request.Route)
	c := claim{key: entry.Key, in: row.reads, isSure: !row.isOne, once: row.once, at: time.Now().Add(-entry.Age)}
	switch {
	case entry.State == store.Free:
		return nil
	case !row.adds:
		for _, id := range d.made(entry.State) {
			all = append(all, claim{key: entry.Key, in: readsApplications, id: id})
		}
		return append(all, claim{key: entry.Key, in: row.mayAdd})
	case len(d.Response.Body) == 0: // of a batch see hasUnknown
		c.isSure = c.isSure && !isInDoubt(entry.State)
		return []claim{c}
	}
	for _, text := range elements(d.Response.Body) {
		c.id = recordOf(text, d.Request.IDs).id
		all = append(all, c)
	}
	return all
}

// changedIn reports whether the key of an entry changed from the time from on, and before to. [Log.Sweep] and others save
// a key again much later.
func (d *entryData) changedIn(entry *store.Entry, from, to time.Time) bool {
	changes, now := append(d.History.changes(entry.Age), Change{Age: entry.Age}), time.Now()
	return slices.ContainsFunc(changes, func(c Change) bool {
		at := now.Add(-c.Age)
		return !at.Before(from) && at.Before(to)
	})
}

// hasUnknown reports whether the mutation may have made records of which the log knows neither number nor owner.
func (d *entryData) hasUnknown(state store.State) bool {
	row := rowOf(d.Request.Route)
	isCreation := row.adds && row.form == objects || row.ids && row.reads == noReads
	return isCreation && state != store.Free && !d.Erased && len(d.Response.Body) == 0
}

// book is what the log knows about an owner, and what the service shows.
type book struct {
	owner, kind, id string // the owner, such as "loan 8c1b5a6e-…", and its parts

	claims map[string][]claim // by key
	parent string             // the application of a loan, if it matters
	born   time.Time          // when a key has made the owner or its parent; zero if unknown

	at    time.Time // of the reads
	lists map[reads][]record
}

// add adds the claims of a key that names the owner, or has made the owner, its parent or a listed record.
func (b *book) add(entry *store.Entry, d *entryData, made []string) {
	all := d.claims(entry)
	for i := range all {
		all[i].isSure = all[i].isSure && slices.Contains(d.Request.IDs.owners(), b.owner)
	}
	first := time.Now().Add(-entry.Age)
	for _, l := range d.History {
		first = first.Add(-time.Duration(l.Lasted) * time.Millisecond)
	}
	for _, id := range made {
		if id == b.id || id == b.parent {
			b.born = first
		}
	}
	b.claims[entry.Key] = all
}

// isWhole reports whether the log knows all keys of the owner, if it has forgotten keys that changed until gone.
func (b *book) isWhole(gone time.Time) bool { return gone.IsZero() || b.born.After(gone) }

// judge compares the lists with the claims. lags reports whether a list does not show all changes before the reads
// yet, in the time late in which it need not.
func (b *book) judge(gone time.Time, late time.Duration) (found []Difference, lags bool) {
	for _, in := range slices.Sorted(maps.Keys(b.lists)) {
		some := b.compare(in, b.at.Add(-late), b.isWhole(gone))
		lags = lags || !reflect.DeepEqual(some, b.compare(in, b.at, b.isWhole(gone)))
		found = append(found, some...)
	}
	return found, lags
}

// on returns the claims on a list in the order of their keys. An applicant can have been replaced by another.
func (b *book) on(in reads) (all []claim) {
	if in == readsLoans { // an application leads to a single loan
		for _, r := range b.lists[readsApplications] {
			for _, id := range r.ids {
				all = append(all, claim{id: id})
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(b.claims)) {
		for _, c := range b.claims[key] {
			if c.in == in {
				all = append(all, c)
			}
		}
	}
	isReplaced := false
	for i := range all {
		c := &all[i]
		c.isSure = c.isSure && !(c.once && isReplaced)
		isReplaced = isReplaced || c.once && c.isSure
	}
	return all
}

// compare compares a list with the claims on it. The list need not show a change after the time shown. Without isWhole
// the log may have forgotten a key of the owner: a record without a key is no difference then.
func (b *book) compare(in reads, shown time.Time, isWhole bool) (found []Difference) {
	note := func(kind DifferenceKind, n int, keys, records []string) {
		found = append(found, Difference{
			Kind: kind, Owner: b.kind, ID: b.id, List: in.String(), Count: n, Keys: keys, Records: records,
		})
	}
	claims, free, unnamed, open := b.on(in), slices.Clone(b.lists[in]), []string(nil), 0
	find := func(c claim) int {
		return slices.IndexFunc(free, func(r record) bool { return slices.Contains(r.ids, c.id) })
	}
	isShown := func(c claim) bool { return find(c) >= 0 }
	showsIDs := in != readsApplicants && in != readsWithdrawals || slices.ContainsFunc(claims, isShown)
	holders := map[string][]string{}
	for _, c := range claims {
		if c.isSure && c.id != "" {
			holders[c.id] = append(holders[c.id], c.key)
		}
	}
	for _, c := range claims {
		i, keys, hasName := find(c), holders[c.id], showsIDs && c.id != ""
		isFirst := len(keys) > 0 && keys[0] == c.key
		if isFirst && len(keys) > 1 {
			note(Shared, 1, keys, []string{c.id})
		}
		switch mustShow := c.isSure && !c.at.After(shown); {
		case i >= 0:
			free = slices.Delete(free, i, i+1)
		case c.isSure && len(keys) > 1 && !isFirst: // the first claims the record
		case hasName && mustShow:
			note(Missing, 1, []string{c.key}, []string{c.id})
		case hasName: // explains no other record
		case mustShow:
			unnamed = append(unnamed, c.key)
		default:
			open++
		}
	}
	switch few, many := len(unnamed), len(unnamed)+open; {
	case len(free) < few:
		note(Missing, few-len(free), slices.Compact(unnamed), nil)
	case len(free) > many && isWhole:
		var ids []string
		for _, r := range free {
			ids = append(ids, r.id)
		}
		note(Unexplained, len(free)-many, nil, ids)
	}
	return found
}
