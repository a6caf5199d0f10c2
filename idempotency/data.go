package idempotency

import (
	"encoding/json"
	"time"

	"github.com/lendingapi/lending-go/idempotency/store"
)

// entryData is the content of [store.Entry].Data.
type entryData struct {
	Route       string `json:"route"`
	IDs         ids    `json:"ids,omitempty"` // the ids in the request
	CheckWith   string `json:"checkWith,omitempty"`
	Account     string `json:"account"`       // see [lending.MutationCall.Account]
	Fingerprint []byte `json:"fingerprint"`   // the hash of the request
	Salt        string `json:"salt"`          // the salt of Fingerprint and Who
	Who         []byte `json:"who,omitempty"` // two bytes of the hash of the e-mail address: too short to recover the address
	Left        bool   `json:"left"`          // the request may have left, and cannot be changed any more

	Nonce  string        `json:"nonce,omitempty"` // identifies the last send
	Lease  time.Duration `json:"lease,omitempty"` // the time limit of the last send
	Sends  int           `json:"sends,omitempty"`
	Own    bool          `json:"own,omitempty"`    // the caller can end the doubt with SafeToRepeat or WithCheck
	Before *snapshot     `json:"before,omitempty"` // the check before the first send
	Adds   int           `json:"adds,omitempty"`   // the number of new records on success; 0 if not counted, -1 if unknown
	Hold   time.Duration `json:"hold,omitempty"`   // the time to keep the lock after the end
	Open   bool          `json:"open,omitempty"`   // the last send has no response: a late execution is possible

	Refused int           `json:"refused,omitempty"` // the number of rejected resends
	Waited  time.Duration `json:"waited,omitempty"`  // from the first send to the last save
	Idle    time.Duration `json:"idle,omitempty"`    // from the end of the last send to the last save

	Happened bool `json:"happened,omitempty"` // in doubt: the mutation succeeded, and only the response is lost

	Status  int    `json:"status,omitempty"` // the status of the response
	Media   string `json:"media,omitempty"`  // the content type of the response
	Answer  []byte `json:"answer,omitempty"`
	Rebuilt bool   `json:"rebuilt,omitempty"` // Answer is from a check, a verdict or the ids, not the service's body

	Why        string `json:"why,omitempty"`
	ResolvedBy string `json:"resolvedBy,omitempty"`

	Leftovers []leftover `json:"leftovers,omitempty"` // of the mutations of a lock, in the entry of the lock

	Verdict *freshVerdict `json:"verdict,omitempty"` // the verdict of a person, until a call relies on it
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
	text, _ := json.Marshal(d) //nolint:errchkjson // every field can be encoded
	return text
}

// idle returns the time since the end of the last send. A negative value is the remaining time
// of the send.
func (d *entryData) idle(entry *store.Entry) time.Duration {
	if entry.State == store.Sent {
		return entry.Age - d.Lease
	}
	return d.Idle + entry.Age
}

// isShown reports whether a check can find the response of the mutation.
func (d *entryData) isShown() bool { return d.Before != nil && rowOf(d.Route).answer != nil }

// age returns the time since the first send of a mutation in doubt, else the time since the last
// save.
func (d *entryData) age(entry *store.Entry) time.Duration {
	if isInDoubt(entry.State) {
		return d.Waited + entry.Age
	}
	return entry.Age
}

// wait adds the time in doubt of from to d, before the entry is saved in the state to.
func (d *entryData) wait(from *store.Entry, to store.State) {
	idle := d.idle(from)
	d.Waited, d.Idle = d.age(from), 0
	if !isInDoubt(from.State) || !isInDoubt(to) {
		d.Waited = 0
	} else if to == store.NeedsReview {
		d.Idle = max(0, idle)
	}
}

// ended returns entry after verdict v: done, forgotten if there is no response, or free. The
// entry gives up its lock, unless the service can still execute the mutation.
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

// drop removes the fields that only a mutation in doubt needs. The snapshot can hold thousands
// of ids.
func (d *entryData) drop() { d.Before, d.Nonce, d.Lease, d.Adds = nil, "", 0, 0 }

// swept returns the entry of a done mutation without the response. The entry keeps the ids.
func (d *entryData) swept(entry *store.Entry) store.Entry {
	d.forget()
	d.drop()
	if d.Status != 0 { // a replay needs no reads
		d.IDs, d.CheckWith = nil, ""
	}
	next := *entry
	next.State, next.Data = store.Forgotten, d.bytes()
	return next
}

// forget removes the personal data from the response. It keeps a boolean, a UUID, and the ids of
// a record if a later step needs only the ids.
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
