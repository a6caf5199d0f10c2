package idempotency

import (
	"encoding/json"
	"time"

	"github.com/lendingapi/lending-go/idempotency/store"
)

// entryData is the data of an entry.
type entryData struct {
	Route       string `json:"route"`
	IDs         ids    `json:"ids,omitempty"` // of the records that the request names
	CheckWith   string `json:"checkWith,omitempty"`
	Account     string `json:"account"`       // of the service, as [lending.MutationCall.Account]
	Fingerprint []byte `json:"fingerprint"`   // of the request
	Salt        string `json:"salt"`          // of the fingerprint
	Who         []byte `json:"who,omitempty"` // tells another e-mail address in the request, and is too short to find it by
	Left        bool   `json:"left"`          // the request may have left: it cannot be changed any more

	Nonce  string        `json:"nonce,omitempty"` // of the last send
	Lease  time.Duration `json:"lease,omitempty"` // how long that may take
	Sends  int           `json:"sends,omitempty"`
	Own    bool          `json:"own,omitempty"`    // its caller can end the doubt, with SafeToRepeat or WithCheck
	Before *snapshot     `json:"before,omitempty"` // what a check showed before the first send
	Adds   int           `json:"adds,omitempty"`   // how many records are more if it happens; 0 if nothing counts them, -1 if nobody can say
	Hold   time.Duration `json:"hold,omitempty"`   // how long the lock is kept after the end
	Open   bool          `json:"open,omitempty"`   // no answer has come to the last send: it can be executed late

	Refused int           `json:"refused,omitempty"` // how often the service has refused to have it again
	Waited  time.Duration `json:"waited,omitempty"`  // since it was sent first, until the entry was saved
	Idle    time.Duration `json:"idle,omitempty"`    // since it can no longer be in flight, until then

	Happened bool `json:"happened,omitempty"` // while its answer is in doubt: a success has come for it

	Status  int    `json:"status,omitempty"` // of the answer
	Media   string `json:"media,omitempty"`  // its content type
	Answer  []byte `json:"answer,omitempty"`
	Rebuilt bool   `json:"rebuilt,omitempty"` // from checks, by a verdict, or of the ids alone: it is no answer of the service

	Why        string `json:"why,omitempty"`
	ResolvedBy string `json:"resolvedBy,omitempty"`

	Leftovers []leftover `json:"leftovers,omitempty"` // of the mutations of a lock, in an entry of its own

	Verdict *freshVerdict `json:"verdict,omitempty"` // of a person, as long as no call relies on it
}

type freshVerdict struct {
	Locked bool `json:"locked,omitempty"` // the entry has kept its lock
}

func readData(text []byte) (entryData, error) {
	var d entryData
	if json.Unmarshal(text, &d) != nil || d.Route == "" {
		return entryData{}, store.ErrCorrupt
	}
	return d, nil
}

func (d *entryData) bytes() []byte {
	text, _ := json.Marshal(d) //nolint:errchkjson // it holds nothing that cannot be written
	return text
}

// idle returns the time since the mutation can no longer be in flight; negative if it still
// can, for as long.
func (d *entryData) idle(entry *store.Entry) time.Duration {
	if entry.State == store.Sent {
		return entry.Age - d.Lease
	}
	return d.Idle + entry.Age
}

// age returns the time since the mutation was sent first, or since it is done.
func (d *entryData) age(entry *store.Entry) time.Duration {
	if isInDoubt(entry.State) {
		return d.Waited + entry.Age
	}
	return entry.Age
}

// wait counts the time that from was in doubt, before it is saved in another state.
func (d *entryData) wait(from *store.Entry, to store.State) {
	idle := d.idle(from)
	d.Waited, d.Idle = d.age(from), 0
	if !isInDoubt(from.State) || !isInDoubt(to) {
		d.Waited = 0
	} else if to == store.NeedsReview {
		d.Idle = max(0, idle)
	}
}

// ended returns entry with what v says: done, forgotten if there is no answer, or free. Its
// lock is free then, unless the mutation can still be executed late.
func (d *entryData) ended(entry *store.Entry, v verdict, maxAnswer int) store.Entry {
	d.Answer, d.Status, d.Media, d.Rebuilt, d.Before = nil, 0, "", false, nil
	d.Happened, d.Open, d.Refused, d.Waited, d.Idle = false, false, 0, 0, 0
	next := store.Entry{Key: entry.Key, Revision: entry.Revision, State: store.Free}
	if d.Hold > 0 {
		next.Lock = entry.Lock
	}
	if v.happened {
		d.drop()
		next.State = store.Forgotten
	}
	if v.happened && v.answer != nil && len(v.answer) <= maxAnswer {
		next.State = store.Done
		d.Answer, d.Status, d.Media, d.Rebuilt = v.answer, 200, mediaJSON, true
	}
	next.Data = d.bytes()
	return next
}

// drop drops what only a mutation needs that is not done: above all the snapshot, which can hold
// thousands of ids.
func (d *entryData) drop() { d.Before, d.Nonce, d.Lease, d.Adds = nil, "", 0, 0 }

// swept returns the entry of a mutation that is done without its answer, of which it keeps the ids.
func (d *entryData) swept(entry *store.Entry) store.Entry {
	d.forget()
	d.drop()
	if d.Status != 0 { // nothing is read or sent again
		d.IDs, d.CheckWith = nil, ""
	}
	next := *entry
	next.State, next.Data = store.Forgotten, d.bytes()
	return next
}

// forget drops the answer but for what says nothing of a person: a boolean, a UUID, and of a
// record the ids, if those are all that a later step needs of it.
func (d *entryData) forget() {
	switch {
	case isScalar(d.Answer):
		return
	case rowOf(d.Route).ids:
		d.Answer = onlyIDs(d.Answer)
	default:
		d.Answer = nil
	}
	if d.Media, d.Rebuilt = mediaJSON, true; d.Answer == nil {
		d.Status, d.Media, d.Rebuilt = 0, "", false
	}
}

const mediaJSON = "application/json"

func isInDoubt(s store.State) bool {
	return s == store.Sent || s == store.InDoubt || s == store.NeedsReview
}
