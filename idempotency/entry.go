package idempotency

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
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
	Hold     time.Duration  `json:"hold,omitempty"`    // the time to keep the lock after the end
	Erased   bool           `json:"erased,omitempty"`  // see [Log.Erase]
	Restore  string         `json:"restore,omitempty"` // the [Log.Restored] before the last save
	IsNew    bool           `json:"new,omitempty"`     // the first save was after Restore
	Claimed  string         `json:"claimed,omitempty"` // the Restore after which a read has shown a record of a time before

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

// newSince returns the [Log.Restored] before the first send, or "" if there may have been an earlier send.
func (d *entryData) newSince() string {
	if !d.IsNew || d.Send.AfterRestore {
		return ""
	}
	return d.Restore
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

// Change is a line in the history of a key: see [KeyStatus]. It holds no value of a record, except
// for the words of a person or of [NeedsReview].
type Change struct {
	State   store.State   // the state after the change
	Age     time.Duration // the time since the change, by the clock of the store
	Sends   int           // the number of sends so far
	By      string        // the person; empty if a call, [Log.Check] or [Log.Sweep] made the change
	Why     string        // the reason; empty for a send, or for a response of the service
	Dropped int           // the number of later changes that the history has not kept
}

// A history keeps its first and its last lines.
const (
	firstLines = 4
	lastLines  = 12
)

// line is a stored [Change]. Most lines have a state and a time only, and are stored as "done 812".
type line struct {
	State   store.State `json:"state"`
	Lasted  int64       `json:"ms,omitempty"`    // until the next line, or until the last save
	Sends   int         `json:"sends,omitempty"` // with sent, and from the second send on
	By      string      `json:"by,omitempty"`
	Why     string      `json:"why,omitempty"`
	Dropped int         `json:"dropped,omitempty"`

	unknown format.Unknown
}

type plainLine line

func (l line) MarshalJSON() ([]byte, error) {
	text, err := l.unknown.Encode((*plainLine)(&l))
	short, _ := json.Marshal(plainLine{State: l.State, Lasted: l.Lasted}) //nolint:errchkjson // every field can be encoded
	if bytes.Equal(text, short) {
		return fmt.Appendf(nil, `"%s %d"`, l.State, l.Lasted), nil
	}
	return text, err
}

func (l *line) UnmarshalJSON(text []byte) (err error) {
	if state, lasted, isShort := strings.Cut(strings.Trim(string(text), `"`), " "); isShort && text[0] == '"' {
		l.State = store.State(state)
		l.Lasted, err = strconv.ParseInt(lasted, 10, 64)
		return err
	}
	l.unknown, err = format.Decode(text, (*plainLine)(l))
	return err
}

// history is what happened to a key, the oldest change first.
type history []line

// note returns the history with a change of an entry that was saved age ago. A save that changes nothing
// for a reader adds no line, unless it follows a verdict: [entryData.isCorrectable] needs that line.
func (h history) note(age time.Duration, sends int, now line) history {
	all := slices.Clone(h)
	last := line{State: store.Free}
	if n := len(all); n > 0 {
		all[n-1].Lasted += age.Milliseconds()
		last = all[n-1]
	}
	isNew := now.State != last.State || now.State == store.Sent || now.Why != "" && now.Why != last.Why
	if !isNew && last.By+now.By == "" {
		return all
	}
	if now.State == store.Sent && sends > 1 {
		now.Sends = sends
	}
	if all = append(all, now); len(all) > firstLines+lastLines {
		kept, dropped := &all[firstLines-1], all[firstLines]
		kept.Lasted += dropped.Lasted
		kept.Dropped++
		all = slices.Delete(all, firstLines, firstLines+1)
	}
	return all
}

// changes returns the history of an entry that was saved age ago.
func (h history) changes(age time.Duration) []Change {
	all := make([]Change, len(h))
	sends := 0
	for i, l := range h {
		if l.State == store.Sent {
			sends = max(l.Sends, 1)
		}
		all[i] = Change{State: l.State, Sends: sends, By: l.By, Why: l.Why, Dropped: l.Dropped}
	}
	for i, l := range slices.Backward(h) {
		age += time.Duration(l.Lasted) * time.Millisecond
		all[i].Age = age
	}
	return all
}

// decided returns the reason of the current review, or the current verdict. A verdict on an earlier
// send is over.
func (h history) decided() line {
	for _, l := range slices.Backward(h) {
		isReview := l.State == store.NeedsReview
		if l.By != "" || isReview && l.Why != "" {
			return l
		}
		if isInDoubt(l.State) && !isReview {
			break
		}
	}
	return line{}
}

// InDoubtStates returns [store.Sent], [store.InDoubt] and [store.NeedsReview]: the mutation may
// have happened.
func InDoubtStates() []store.State {
	return []store.State{store.Sent, store.InDoubt, store.NeedsReview}
}

var allStates = append(InDoubtStates(), store.Free, store.Done, store.Forgotten)

func isInDoubt(s store.State) bool {
	return s == store.Sent || s == store.InDoubt || s == store.NeedsReview
}

func hasHappened(s store.State) bool { return s == store.Done || s == store.Forgotten }
