package idempotency

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/format"
)

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
	if n, _ := fmt.Sscanf(string(text), `"%s %d"`, &l.State, &l.Lasted); n == 2 {
		return nil
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
