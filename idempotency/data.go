package idempotency

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/format"
)

// formatVersion is the version of the entries of keys and of locks. A release that only adds members
// keeps the version: replicas of an older release then keep the members of a key's entry, and lose
// those of a lock's entry. Keep personal data in the member response only: [Log.Sweep] of an older
// release removes no other member.
const formatVersion format.Version = 1

// entryData is the decoded [store.Entry].Data of a key.
type entryData struct {
	Format   format.Version `json:"format"`
	Request  request        `json:"request"`
	Send     send           `json:"send,omitzero"`
	Doubt    doubt          `json:"doubt,omitzero"`
	Response response       `json:"response,omitzero"`
	Verdict  decision       `json:"verdict,omitzero"`
	Hold     time.Duration  `json:"hold,omitempty"` // the time to keep the lock after the end

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
	Before    *snapshot     `json:"before,omitempty"`    // the check before the first send
	Adds      int           `json:"adds,omitempty"`      // the number of new records on success; 0 if not counted, -1 if unknown
}

// doubt is the time without a response.
type doubt struct {
	Happened bool          `json:"happened,omitempty"` // the service has confirmed the mutation, and only the response is lost
	Rejected int           `json:"rejected,omitempty"` // the number of rejected resends
	Waited   time.Duration `json:"waited,omitempty"`   // from the first send to the last save
	Idle     time.Duration `json:"idle,omitempty"`     // from the end of the last send to the last save
	Why      string        `json:"why,omitempty"`      // why a person is needed
	Told     bool          `json:"told,omitempty"`     // the call that made the review has reported it
}

// response is the recorded response. Without a status there is none.
type response struct {
	Status  int    `json:"status,omitempty"`
	Media   string `json:"media,omitempty"` // the content type
	Body    []byte `json:"body,omitempty"`
	Rebuilt bool   `json:"rebuilt,omitempty"` // from a check, a verdict or the ids, not the service's body
}

// decision is the verdict of a person.
type decision struct {
	By          string `json:"by,omitempty"`
	Why         string `json:"why,omitempty"`
	Correctable bool   `json:"correctable,omitempty"` // no call has relied on it
	Locked      bool   `json:"locked,omitempty"`      // the entry has kept its lock
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

func (d *entryData) bytes() []byte {
	d.Format = formatVersion
	text, _ := d.unknown.Encode(d) // every field can be encoded
	return text
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
	return d.Send.Before != nil && rowOf(d.Request.Route).answer != nil
}

// age returns the time since the first send of a mutation in doubt, else the time since the last
// save.
func (d *entryData) age(entry *store.Entry) time.Duration {
	if isInDoubt(entry.State) {
		return d.Doubt.Waited + entry.Age
	}
	return entry.Age
}

// addWait adds the time in doubt of from to d, before the entry is saved in the state to.
func (d *entryData) addWait(from *store.Entry, to store.State) {
	idle := d.idle(from)
	d.Doubt.Waited, d.Doubt.Idle = d.age(from), 0
	if !isInDoubt(from.State) || !isInDoubt(to) {
		d.Doubt.Waited = 0
	} else if to == store.NeedsReview {
		d.Doubt.Idle = max(0, idle)
	}
}

// noResponse is the recorded response of a mutation that happened, and whose response is lost and
// optional.
var noResponse = response{Status: http.StatusNoContent, Rebuilt: true}

// ended returns entry after a finding: done, forgotten if there is no response, or free. The
// entry gives up its lock, unless the service can still execute the mutation.
func (d *entryData) ended(entry *store.Entry, f finding) store.Entry {
	d.Response, d.Doubt = response{}, doubt{}
	next := store.Entry{Key: entry.Key, Revision: entry.Revision, State: store.Free}
	if d.Hold > 0 {
		next.Lock = entry.Lock
	}
	switch {
	case f.evidence != happened:
		d.Send.Before, d.Send.Open = nil, false
	case f.answer != nil:
		next.State = store.Done
		d.Response = response{Status: http.StatusOK, Media: mediaJSON, Body: f.answer, Rebuilt: true}
		d.endSend()
	case rowOf(d.Request.Route).needsNone(f):
		next.State, d.Response = store.Done, noResponse
		d.endSend()
	default:
		next.State = store.Forgotten
		d.endSend()
	}
	next.Data = d.bytes()
	return next
}

// endSend removes the fields that only a mutation in doubt needs. The snapshot can hold
// thousands of ids.
func (d *entryData) endSend() { d.Send = send{Number: d.Send.Number} }

// swept returns the entry of a done mutation without the response. The entry keeps the ids.
func (d *entryData) swept(entry *store.Entry) store.Entry {
	d.Response = d.Response.withoutPersonalData(d.Request.Route)
	d.endSend()
	if d.Response.Status != 0 { // a replay needs no reads
		d.Request.IDs, d.Request.CheckWith = nil, ""
	}
	next := *entry
	next.State, next.Data = store.Forgotten, d.bytes()
	return next
}

const mediaJSON = "application/json"

func isInDoubt(s store.State) bool {
	return s == store.Sent || s == store.InDoubt || s == store.NeedsReview
}
