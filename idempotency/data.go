package idempotency

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/lendingapi/lending-go"
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
	History  []line         `json:"history,omitempty"`
	Hold     time.Duration  `json:"hold,omitempty"`   // the time to keep the lock after the end
	Erased   bool           `json:"erased,omitempty"` // see [Log.Erase]

	unknown format.Unknown
}

// request identifies the mutation.
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
	Number    int           `json:"number,omitempty"`
	Nonce     string        `json:"nonce,omitempty"`
	Lease     time.Duration `json:"lease,omitempty"`     // the time limit
	Open      bool          `json:"open,omitempty"`      // without a response: a late execution is possible
	IsCallers bool          `json:"isCallers,omitempty"` // SafeToRepeat or WithCheck ends the doubt
	Presumed  bool          `json:"presumed,omitempty"`  // the log knows no send: see [Log.Restored]
	Before    *snapshot     `json:"before,omitempty"`    // the check before the first send
	Adds      int           `json:"adds,omitempty"`      // the number of new records on success; 0 if not counted, -1 if unknown
}

// doubt is the time without a response.
type doubt struct {
	Happened bool          `json:"happened,omitempty"` // the service has confirmed the mutation, and only the response is lost
	Rejected int           `json:"rejected,omitempty"` // the number of rejected resends
	Idle     time.Duration `json:"idle,omitempty"`     // from the end of the last send to the last save
	Told     bool          `json:"told,omitempty"`     // a call has reported the review
}

// response is the recorded response. Without a status there is none.
type response struct {
	Status  int    `json:"status,omitempty"`
	Media   string `json:"media,omitempty"` // the content type
	Body    []byte `json:"body,omitempty"`
	Rebuilt bool   `json:"rebuilt,omitempty"` // from a check, a verdict or the ids, not the service's body
}

// read returns the entry of a key in the store, and its data. A missing entry is free, with revision 0.
func (s *settings) read(ctx context.Context, key string) (entry store.Entry, d entryData, err error) {
	saved, err := s.store.Load(ctx, key)
	if err == nil && saved == nil {
		return store.Entry{Key: key, State: store.Free}, d, nil
	}
	if err == nil {
		d, err = readData(saved.Data)
	}
	if err != nil {
		return entry, d, err
	}
	return *saved, d, nil
}

func readData(text []byte) (d entryData, err error) {
	d.unknown, err = decode(text, &d)
	if err == nil && d.Request.Route == "" {
		err = store.ErrCorrupt
	}
	if err != nil {
		d = entryData{}
	}
	return d, err
}

// decode decodes the data of an entry into value. The error of an entry of a newer release names
// the release.
func decode(text []byte, value any) (format.Unknown, error) {
	var of struct {
		Format format.Version `json:"format"`
	}
	unknown, err := format.Decode(text, value)
	if json.Unmarshal(text, &of) == nil && of.Format > formatVersion {
		return unknown, of.Format.Check(formatVersion, "the entry")
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

// canRebuild reports whether a check can find the response of the mutation.
func (d *entryData) canRebuild() bool {
	return (d.Send.Before != nil || d.Send.Presumed) && rowOf(d.Request.Route).answer != nil
}

// change notes a change of from, before the entry is saved in the state of the change.
func (d *entryData) change(from *store.Entry, now line) {
	idle := d.idle(from)
	switch {
	case isInDoubt(from.State) && now.State == store.NeedsReview:
		d.Doubt.Idle = max(0, idle)
	case !isInDoubt(from.State) && now.State == store.InDoubt: // presumed: see [Log.Restored]
	default:
		d.Doubt.Idle = 0
	}
	d.note(from, now)
}

// outcome tells whether a mutation in the state happened, as far as its entry knows.
func (d *entryData) outcome(state store.State) lending.Outcome {
	switch {
	case d.Doubt.Happened || state == store.Done || state == store.Forgotten:
		return lending.OutcomeDone
	case state == store.Free:
		return lending.OutcomeNotSent
	}
	return lending.OutcomeUnknown // perhaps the entry cannot be read
}

// noResponse is the recorded response of a mutation that happened, and whose response is lost and
// optional.
var noResponse = response{Status: http.StatusNoContent, Rebuilt: true}

// end ends the mutation after a finding: done, forgotten if there is no response, or free. The name by
// is that of the person who says so.
func (d *entryData) end(f finding, by string) line {
	d.Response, d.Doubt = response{}, doubt{}
	now := line{State: store.Forgotten, By: by, Why: f.why}
	switch {
	case f.evidence != happened:
		now.State = store.Free
		d.Send.Before, d.Send.Open = nil, false
	case f.answer != nil:
		now.State = store.Done
		d.Response = response{Status: http.StatusOK, Media: mediaJSON, Body: f.answer, Rebuilt: true}
	case rowOf(d.Request.Route).needsNone(f):
		now.State, d.Response = store.Done, noResponse
	}
	return now
}

// next returns the next revision of entry with the data. It removes what only a mutation in doubt needs:
// the snapshot can hold thousands of ids.
func (d *entryData) next(entry *store.Entry, state store.State, lock string) store.Entry {
	if state == store.Done || state == store.Forgotten {
		d.Send = send{Number: d.Send.Number, Presumed: d.Send.Presumed}
	}
	d.Format = formatVersion
	text, _ := d.unknown.Encode(d) // every field can be encoded
	return store.Entry{Key: entry.Key, Revision: entry.Revision, State: state, Lock: lock, Data: text}
}

// keeps returns lock if a mutation in the state needs its lock, else "". A review needs the lock until the
// response is lost for good. After its end, a mutation keeps the lock while a late execution is possible.
// A mutation that sets a value keeps the lock for the time after [Log.Sweep], when a call may set the value
// again to get the response: the lock shows that no other mutation has set a newer value.
func (d *entryData) keeps(lock string, state store.State) string {
	isLost := state == store.NeedsReview && d.Doubt.Happened && !d.canRebuild()
	marksValue := state == store.Done && rowOf(d.Request.Route).setsValue && !isScalar(d.Response.Body)
	if d.Hold > 0 || marksValue || isInDoubt(state) && !isLost {
		return lock
	}
	return ""
}

// swept returns the entry of a done mutation without the response. The entry keeps the ids.
func (d *entryData) swept(entry *store.Entry) store.Entry {
	d.Response = d.Response.withoutPersonalData(d.Request.Route)
	if d.Response.Status != 0 { // a replay needs no reads
		d.Request.IDs, d.Request.CheckWith = nil, ""
	}
	d.note(entry, line{State: store.Forgotten})
	return d.next(entry, store.Forgotten, entry.Lock)
}

const mediaJSON = "application/json"

func isInDoubt(s store.State) bool {
	return s == store.Sent || s == store.InDoubt || s == store.NeedsReview
}
