package idempotency

import (
	"maps"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/format"
)

// formatVersion is the version of the entries of keys and of locks. A release that only adds members
// keeps the version, and replicas of an older release keep the members. Keep personal data in the member
// response only: [Log.Sweep] of an older release removes no other member.
const formatVersion format.Version = 1

// entryData is the decoded [store.Entry].Data of a key.
type entryData struct {
	Format   format.Version `json:"format"`
	Request  request        `json:"request"`
	Send     send           `json:"send,omitzero"`
	Doubt    doubt          `json:"doubt,omitzero"`
	Response response       `json:"response,omitzero"`
	History  history        `json:"history,omitempty"`
	Hold     time.Duration  `json:"hold,omitempty"`   // the time to keep the lock after the end
	Erased   bool           `json:"erased,omitempty"` // see [Log.Erase]

	unknown  format.Unknown
	isOfCopy bool // the entry is older than [Log.Restored]
}

type request struct {
	Frozen      bool   `json:"frozen,omitempty"` // the mutation may have been sent: no other request can use the key
	Route       string `json:"route"`
	Account     string `json:"account"`       // see [lending.MutationCall.Account]
	IDs         ids    `json:"ids,omitempty"` // the ids in the request
	CheckWith   string `json:"checkWith,omitempty"`
	Fingerprint []byte `json:"fingerprint"`   // the hash of the request
	Salt        string `json:"salt"`          // the salt of Fingerprint and Who
	Who         []byte `json:"who,omitempty"` // see [target.who]
}

// send is the last send of the mutation.
type send struct {
	Number       int           `json:"number,omitempty"`
	Nonce        string        `json:"nonce,omitempty"`
	Lease        time.Duration `json:"lease,omitempty"`     // the time limit
	Open         bool          `json:"open,omitempty"`      // without a response: a late execution is possible
	IsCallers    bool          `json:"isCallers,omitempty"` // SafeToRepeat or WithCheck ends the doubt
	AfterRestore bool          `json:"presumed,omitempty"`  // the log knows no send: see [Log.Restored]
	Before       *snapshot     `json:"before,omitempty"`    // the check before the first send
	Adds         int           `json:"adds,omitempty"`      // the number of new records on success; 0 if not counted, -1 if unknown
}

// doubt is the time without a response.
type doubt struct {
	Happened bool          `json:"happened,omitempty"` // the service has confirmed the mutation, and only the response is lost
	Rejected int           `json:"rejected,omitempty"` // the number of rejected resends
	Refused  time.Duration `json:"refused,omitempty"`  // since the first of the last refusals of a gateway; 0 without one
	Idle     time.Duration `json:"idle,omitempty"`     // from the end of the last send to the last save
	Found    []byte        `json:"found,omitempty"`    // the response if the record in the review is that of the mutation
}

// response is the recorded response. Without a status there is none.
type response struct {
	Status  int    `json:"status,omitempty"`
	Media   string `json:"media,omitempty"` // the content type
	Body    []byte `json:"body,omitempty"`
	Rebuilt bool   `json:"rebuilt,omitempty"` // from a check, a verdict or the ids, not the service's body
}

// ids are the ids in a request by name, for example "loanId".
type ids map[string]string

// kept returns the UUIDs. An entry does not keep the id of a bank account, which can be the
// account number.
func (i ids) kept() ids {
	kept := maps.Clone(i)
	maps.DeleteFunc(kept, func(_, id string) bool { return uuid.Validate(id) != nil })
	return kept
}

func (i ids) has(id string) bool {
	for _, own := range i {
		if strings.EqualFold(own, id) {
			return true
		}
	}
	return false
}

// snapshot is the result of a check.
type snapshot struct {
	Count int      `json:"count"`           // the number of records; -1 if unknown
	IDs   []string `json:"ids,omitempty"`   // all UUIDs in the records
	State string   `json:"state,omitempty"` // a hash of other fields
}

func readData(text []byte) (d entryData, err error) {
	d.unknown, err = decode(text, &d, &d.Format)
	if err == nil && d.Request.Route == "" {
		err = store.ErrCorrupt
	}
	if err != nil {
		d = entryData{}
	}
	return d, err
}

// decode decodes the data of an entry into value, which has the version. The error of an entry of a newer release
// names the release, also if other members have new types.
func decode(text []byte, value any, version *format.Version) (format.Unknown, error) {
	unknown, err := format.Decode(text, value)
	if *version > formatVersion {
		return unknown, version.Check(formatVersion, "the entry")
	}
	if err != nil {
		err = store.ErrCorrupt
	}
	return unknown, err
}

// idle returns the time since the end of the last send. A negative value is the remaining time
// of the send.
func (d *entryData) idle(entry *store.Entry) time.Duration {
	if entry.State == store.Sent {
		return entry.Age - d.Send.Lease
	}
	return d.Doubt.Idle + entry.Age
}

// change notes a change of from, before the entry is saved in the state of the change.
func (d *entryData) change(from *store.Entry, now line) {
	idle := d.idle(from)
	if d.Doubt.Refused > 0 {
		d.Doubt.Refused += from.Age
	}
	switch {
	case isInDoubt(from.State) && now.State == store.NeedsReview:
		d.Doubt.Idle = max(0, idle)
	case !isInDoubt(from.State) && now.State == store.InDoubt: // see [Log.Restored]
	default:
		d.Doubt.Idle = 0
	}
	d.note(from, now)
}

// note adds a change of entry to the history.
func (d *entryData) note(entry *store.Entry, now line) {
	d.History = d.History.note(entry.Age, d.Send.Number, now)
}

// next returns the next revision of entry with the data. It removes what only a mutation in doubt needs:
// the snapshot can hold thousands of ids.
func (d *entryData) next(entry *store.Entry, state store.State, lock string) store.Entry {
	if hasHappened(state) {
		d.Send = send{Number: d.Send.Number, AfterRestore: d.Send.AfterRestore}
	}
	d.Format = formatVersion
	text, _ := d.unknown.Encode(d) // every field can be encoded
	return store.Entry{Key: entry.Key, Revision: entry.Revision, State: state, Lock: lock, Data: text}
}

// isCorrectable reports whether the entry has a verdict that no call has used: the verdict is the last
// change.
func (d *entryData) isCorrectable() bool {
	n := len(d.History)
	return !d.Erased && n > 0 && d.History[n-1].By != ""
}
