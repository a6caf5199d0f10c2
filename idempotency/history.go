package idempotency

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/format"
	"github.com/lendingapi/lending-go/internal/redact"
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

// note adds a change of entry to the history. A save that changes nothing for a reader adds no
// line, unless it follows a verdict: [entryData.isCorrectable] needs that line.
func (d *entryData) note(entry *store.Entry, now line) {
	all := slices.Clone(d.History)
	last := line{State: store.Free}
	if n := len(all); n > 0 {
		all[n-1].Lasted += entry.Age.Milliseconds()
		last = all[n-1]
	}
	isNews := now.State != last.State || now.State == store.Sent || now.Why != "" && now.Why != last.Why
	if d.History = all; !isNews && last.By+now.By == "" {
		return
	}
	if now.State == store.Sent && d.Send.Number > 1 {
		now.Sends = d.Send.Number
	}
	if all = append(all, now); len(all) > firstLines+lastLines {
		kept, dropped := &all[firstLines-1], all[firstLines]
		kept.Lasted += dropped.Lasted
		kept.Dropped++
		all = slices.Delete(all, firstLines, firstLines+1)
	}
	d.History = all
}

// changes returns the history of an entry, the oldest change first.
func (d *entryData) changes(entry *store.Entry) []Change {
	all := make([]Change, len(d.History))
	sends, age := 0, entry.Age
	for i, l := range d.History {
		if l.State == store.Sent {
			sends = max(l.Sends, 1)
		}
		all[i] = Change{State: l.State, Sends: sends, By: l.By, Why: l.Why, Dropped: l.Dropped}
	}
	for i, l := range slices.Backward(d.History) {
		age += time.Duration(l.Lasted) * time.Millisecond
		all[i].Age = age
	}
	return all
}

// decided returns the reason of the present review, or the present verdict. A verdict on an earlier
// send is over.
func (d *entryData) decided() line {
	for _, l := range slices.Backward(d.History) {
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

// isCorrectable reports whether the entry has a verdict, and nothing has happened since: no call has
// relied on the verdict.
func (d *entryData) isCorrectable() bool {
	return !d.Erased && len(d.History) > 0 && d.History[len(d.History)-1].By != ""
}

// failure describes the end of a send in a history.
func failure(err error) string {
	failed, ok := errors.AsType[*lending.Error](err)
	switch {
	case ok && failed.StatusCode != 0:
		return "the service responded with " + strconv.Itoa(failed.StatusCode)
	case ok:
		err = failed.Unwrap()
	}
	if err == nil {
		return ""
	}
	return redact.Describe(err)
}
