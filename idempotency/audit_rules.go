package idempotency

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/redact"
)

// owner is a customer, an application or a loan.
type owner struct{ kind, id string }

const (
	customerOwner    = "customer"
	applicationOwner = "application"
	loanOwner        = "loan"
)

func (o owner) compare(other owner) int {
	return cmp.Or(strings.Compare(o.kind, other.kind), strings.Compare(o.id, other.id))
}

// owners returns the owners that a request names.
func (i ids) owners() (all []owner) {
	for _, kind := range [...]string{customerOwner, applicationOwner, loanOwner} {
		if id := i[kind+"Id"]; uuid.Validate(id) == nil {
			all = append(all, owner{kind, strings.ToLower(id)})
		}
	}
	return all
}

// certainty tells whether a list must show the record of a claim.
type certainty int

const (
	possible certainty = iota // the mutation may not have happened, or need not leave a record
	recent                    // the list may not show the record yet
	certain
)

// claim is a record of a key, which has made or may have made the record.
type claim struct {
	key  string
	in   reads    // the list of the record
	ids  []string // the UUIDs of the record in the response
	sure certainty
	once bool      // the record can replace an earlier record
	at   time.Time // of the last change of the key
}

// id returns the id of the record, or "" if the response does not tell the id from others.
func (c *claim) id() string {
	if len(c.ids) != 1 {
		return ""
	}
	return c.ids[0]
}

// claims returns the records of the key of an entry. isCounted is false if their number is not known.
func (d *entryData) claims(entry *store.Entry) (all []claim, isCounted bool) {
	row := rowOf(d.Request.Route)
	c := claim{key: entry.Key, in: row.reads, sure: certain, once: row.once, at: changedAt(entry)}
	switch {
	case entry.State == store.Free:
		return nil, true
	case Route(d.Request.Route) == WithdrawLineOfCredit:
		return []claim{{key: c.key, in: readsWithdrawals}}, true
	case !row.adds:
		return nil, true
	case isInDoubt(entry.State) && !d.Doubt.Happened:
		c.sure = possible
		return slices.Repeat([]claim{c}, max(1, d.Send.Adds)), true
	case len(d.Response.Body) == 0:
		return []claim{c}, row.form != objects
	}
	var records []json.RawMessage
	if json.Unmarshal(d.Response.Body, &records) != nil {
		records = []json.RawMessage{d.Response.Body}
	}
	for _, record := range records {
		if c.ids = slices.DeleteFunc(uuidsOf(record), d.Request.IDs.has); idOf(record) != "" {
			c.ids = []string{idOf(record)}
		}
		all = append(all, c)
	}
	return all, true
}

// makes returns the UUIDs in the response of a mutation that makes a customer or an application.
func (d *entryData) makes(state store.State) []string {
	row := rowOf(d.Request.Route)
	if state != store.Done && state != store.Forgotten || row.adds && !row.listsIDs || !row.ids && !row.listsIDs || row.isOne {
		return nil
	}
	return slices.DeleteFunc(uuidsOf(d.Response.Body), d.Request.IDs.has)
}

// uuidsOf returns the UUIDs of a record. A UUID of text/plain has no quotes.
func uuidsOf(record []byte) []string { return uuidsIn(`"` + string(record) + `"`) }

// idOf returns the member id of a record if it is a UUID.
func idOf(record []byte) string {
	var said struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(record, &said) != nil || uuid.Validate(said.ID) != nil {
		return ""
	}
	return strings.ToLower(said.ID)
}

// shown is a list of the service.
type shown struct {
	in      reads
	records []shownRecord
}

// shownRecord is a record of a list.
type shownRecord struct {
	id    string   // for people; "" if the record has none
	ids   []string // all UUIDs, without the id of the owner
	taken bool     // a key has made the record
}

// listNames are the lists of an audit.
var listNames = map[reads]string{
	readsApplications: "applications", readsApplicants: "applicants", readsOffer: "offers", readsWithdrawals: "withdrawals",
}

// matches are the claims without a record, and the records without a claim.
type matches struct {
	holders map[string][]string // keys by their claimed id
	named   []claim             // certain, and the list shows ids
	unnamed []claim             // certain
	late    int                 // recent claims without a record, or with a record in free
	open    int                 // possible claims
	lags    bool                // a recent record is not there
	free    []string            // the ids of the records
}

// match finds the record of each claim. Several keys that claim an id share a record.
func (l shown) match(claims []claim) (m matches) {
	m.holders = map[string][]string{}
	records := slices.Clone(l.records)
	areListed := l.in == readsApplications // published; else a single id in the list shows it
	var left []claim
	for _, c := range claims {
		if id := c.id(); id != "" && c.sure != possible {
			if m.holders[id] = append(m.holders[id], c.key); len(m.holders[id]) > 1 {
				continue
			}
		}
		if i := find(records, c.ids); i >= 0 {
			records[i].taken, areListed = true, true
			continue
		}
		left = append(left, c)
	}
	for _, record := range records {
		if !record.taken {
			m.free = append(m.free, record.id)
		}
	}
	for _, c := range left {
		hasName := areListed && c.id() != ""
		switch {
		case c.sure == possible:
			m.open++
		case c.sure == recent && hasName:
			m.lags = true
		case c.sure == recent:
			m.late++
		case hasName:
			m.named = append(m.named, c)
		default:
			m.unnamed = append(m.unnamed, c)
		}
	}
	m.lags = m.lags || m.late > 0 && len(m.free) < len(m.unnamed)+m.late
	return m
}

// judge compares a list with the claims of the keys, in the order of the keys. Without isWhole the log may
// have forgotten a key of the owner: a record without a key is no difference then. lags reports whether
// a recent record is not there yet.
func (l shown) judge(claims []claim, isWhole bool) (found []Difference, lags bool) {
	m := l.match(claims)
	note := func(kind DifferenceKind, n int, keys, records []string) {
		found = append(found, Difference{Kind: kind, List: listNames[l.in], Count: n, Keys: keys, Records: records})
	}
	for _, c := range claims {
		if keys := m.holders[c.id()]; len(keys) > 1 && keys[0] == c.key {
			note(Shared, 1, keys, c.ids)
		}
	}
	for _, c := range m.named {
		note(Missing, 1, []string{c.key}, c.ids)
	}
	switch few, many := len(m.unnamed), len(m.unnamed)+m.late+m.open; {
	case len(m.free) < few:
		note(Missing, few-len(m.free), keysOf(m.unnamed), nil)
	case len(m.free) > many && isWhole:
		note(Unexplained, len(m.free)-many, nil, m.free)
	}
	return found, m.lags
}

// find returns the index of the record with any of the ids, or -1. Several ids must lead to a single record.
func find(records []shownRecord, ids []string) int {
	for _, id := range ids {
		has := func(r shownRecord) bool { return !r.taken && slices.Contains(r.ids, id) }
		if i := slices.IndexFunc(records, has); i >= 0 && (len(ids) == 1 || !slices.ContainsFunc(records[i+1:], has)) {
			return i
		}
	}
	return -1
}

func keysOf(claims []claim) (keys []string) {
	for _, c := range claims {
		keys = append(keys, c.key)
	}
	return slices.Compact(keys)
}

// judgeOffer compares the current offer with the processings of the application. An offer with the id of no
// processing is a second offer. Everything else tells nothing.
func (l shown) judgeOffer(claims []claim) []Difference {
	tellsNothing := func(c claim) bool {
		return c.sure != certain || c.id() == "" || slices.Contains(l.records[0].ids, c.id())
	}
	if l.records[0].id == "" || len(claims) == 0 || slices.ContainsFunc(claims, tellsNothing) {
		return nil
	}
	shown := []string{l.records[0].id}
	return []Difference{{Kind: Unexplained, List: listNames[l.in], Count: 1, Keys: keysOf(claims), Records: shown}}
}

// shownLoan is a loan and its application.
type shownLoan struct{ id, application string }

// judgeLoans compares the loans of a customer with the applications. An application leads to a single loan.
func (l shown) judgeLoans(loans []shownLoan) (found []Difference) {
	seen := map[string]bool{}
	for _, loan := range loans {
		isListed := slices.ContainsFunc(l.records, func(r shownRecord) bool { return slices.Contains(r.ids, loan.application) })
		if !isListed || seen[loan.application] {
			found = append(found, Difference{Kind: Unexplained, List: "loans", Count: 1, Records: []string{loan.id}})
		}
		seen[loan.application] = true
	}
	return found
}

// book is what the log knows about an owner, and what the service shows.
type book struct {
	owner

	claims map[string][]claim // by key
	hasGap bool               // a claim without number
	parent string             // the application of a loan, if it is known
	born   time.Time          // when the owner or its parent was made; zero if unknown

	at    time.Time // of the reads
	lists []shown
	loans []shownLoan
}

// claim adds the claims of a key that names the owner.
func (b *book) claim(entry *store.Entry, d *entryData) {
	all, isCounted := d.claims(entry)
	b.claims[entry.Key], b.hasGap = all, b.hasGap || !isCounted
}

// made adds a key whose response has the id of the owner, of its parent, or of an application without a key.
func (b *book) made(id string, entry *store.Entry, d *entryData) {
	born := entry.Age
	for _, c := range d.History.changes(entry.Age) {
		born = max(born, c.Age)
	}
	at := time.Now().Add(-born)
	isMaker := id == b.id || id == b.parent
	switch all := b.claims[entry.Key]; {
	case !isMaker && !slices.ContainsFunc(all, func(c claim) bool { return slices.Contains(c.ids, id) }):
		b.claims[entry.Key] = append(all, claim{key: entry.Key, in: readsApplications, ids: []string{id}})
	case isMaker && (b.born.IsZero() || at.Before(b.born)):
		b.born = at
	}
	if b.kind == applicationOwner && strings.HasSuffix(d.Request.Route, "-and-applicant") {
		b.claims[entry.Key] = []claim{{key: entry.Key, in: readsApplicants}}
	}
}

// in returns the claims of a list in the order of their keys. The list need not show the changes of the last
// time late, nor an applicant whom another has replaced.
func (b *book) in(list reads, late time.Duration) (all []claim) {
	for _, some := range b.claims {
		for _, c := range some {
			if c.sure == certain && b.at.Sub(c.at) < late {
				c.sure = recent
			}
			if c.in == list {
				all = append(all, c)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b claim) int { return strings.Compare(a.key, b.key) })
	isPrimary := func(c claim) bool { return list == readsApplicants && c.once && c.sure != possible }
	for i := slices.IndexFunc(all, isPrimary) + 1; i > 0 && i < len(all); i++ {
		if isPrimary(all[i]) {
			all[i].sure = possible
		}
	}
	return all
}

// The reasons why an owner is [Unread], beside the errors of its reads.
var (
	errLags     = redact.Text("the reads do not show the last mutations yet; audit this owner again after MaxLateness")
	errUnsteady = redact.Text("two reads in a row differ; audit this owner again")
)

// isWhole reports whether the log knows all keys of the owner, if it has forgotten keys that changed until gone.
func (b *book) isWhole(gone time.Time) bool {
	return !b.hasGap && (gone.IsZero() || b.born.After(gone))
}

// judge compares the lists with the claims. The error tells why the lists do not show all of them yet.
func (b *book) judge(gone time.Time, late time.Duration) (found []Difference, err error) {
	for _, l := range b.lists {
		claims := b.in(l.in, late)
		if l.in == readsOffer {
			found = append(found, l.judgeOffer(claims)...)
			continue
		}
		some, lags := l.judge(claims, b.isWhole(gone))
		if lags {
			err = errLags
		}
		if found = append(found, some...); b.isWhole(gone) {
			found = append(found, l.judgeLoans(b.loans)...)
		}
	}
	for i := range found {
		found[i].Owner, found[i].ID = b.kind, b.id
	}
	return found, err
}
