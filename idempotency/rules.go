package idempotency

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/idempotency/store"
)

// The rules of the log are functions of values: no rule reads the store or calls the service.

// maxRejected is the largest number of rejected resends. A rejection of a resend does not tell
// whether the first send succeeded, so further resends would never end the doubt.
const maxRejected = 5

type evidence int

const (
	silent   evidence = iota // no check can tell
	unclear                  // a later check can show more
	absent                   // no effect
	happened                 // the effect
)

// finding is the result of a check, with its details.
type finding struct {
	evidence evidence
	answer   []byte // the response of a mutation that happened; nil if lost
	why      string // the reason for a review
	record   []byte // the response if the record in a review is that of the mutation
	verdict  bool   // a person or the caller's check says so
	err      error  // the response cannot be encoded
}

const (
	shownByRead  = "a check shows it" // the reason of an end in a history
	nothingShows = "no published field shows it"
	notCounted   = "the count of records before the send is not known"
)

// reason tells a person why no check can tell.
func (r route) reason() string { return cmp.Or(r.note, nothingShows) }

// cannotTell returns the reason why no check can tell whether the last send happened, or "".
func (r route) cannotTell(of *send) string {
	switch {
	case r.reads == noReads:
		return r.reason()
	case !of.AfterRestore && (of.Before == nil || of.Before.Count < 0):
		return notCounted
	}
	return ""
}

// judge returns the finding on a mutation of n records, from the snapshots before and after.
func (r route) judge(before *snapshot, after snapshot, n int) finding {
	switch {
	case before == nil || before.Count < 0:
		return finding{why: notCounted}
	case after.Count < 0:
		return finding{why: "the current count of records is not known", evidence: unclear}
	case r.once && before.Count > 0:
		return finding{why: "the record existed before, and no published field identifies a new one"}
	}
	want := before.Count + n
	if r.removes {
		want = before.Count - n
	}
	f := finding{why: cmp.Or(r.note, "other fields have changed")}
	switch {
	case after.Count == want:
		return finding{evidence: happened}
	case after.Count != before.Count:
		f.why = fmt.Sprintf("there are %d records where there were %d", after.Count, before.Count)
		if after.Count < want {
			f.evidence = unclear
		}
	case before.State != "" && after.State != before.State:
		f.evidence = unclear
	default:
		f = finding{evidence: absent}
	}
	return f
}

// agrees reports whether the reads after the mutation can belong to answer: they list an id of each
// of its records, other than the ids of the request.
func (r route) agrees(after snapshot, answer []byte, of ids) bool {
	listed := slices.DeleteFunc(slices.Clone(after.IDs), of.has)
	if after.Count < 0 || r.isOne && len(listed) == 0 {
		return true
	}
	return !slices.ContainsFunc(elements(answer), func(record json.RawMessage) bool {
		return !slices.ContainsFunc(uuidsIn(string(record)), func(id string) bool { return slices.Contains(listed, id) })
	})
}

// takesVerdict returns the argument of [Log.Resolve] that is wrong in this state, and the reason; "" for none.
func (d *entryData) takesVerdict(state store.State, corrects bool) (field, why string) {
	switch isCorrectable := d.isCorrectable(); {
	case d.Erased:
		return "key", "must not be erased: there is nothing left to decide"
	case corrects && !isCorrectable:
		return "Correct", "must be false: there is no verdict to correct, or a call has used the verdict"
	case corrects, isInDoubt(state):
	case isCorrectable:
		said := map[bool]string{true: "it happened", false: "it did not happen"}[hasHappened(state)]
		return "Correct", fmt.Sprintf("must be true, which replaces the verdict of %q: %s", d.History[len(d.History)-1].By, said)
	case state != store.Forgotten:
		return "key", "must be that of a mutation in doubt"
	}
	return "", ""
}

// canContradict reports whether the check can show that the verdict of a person is wrong.
func (r route) canContradict(f finding, of *send) bool {
	if f.evidence == absent {
		return r.reads != noReads && of.Before != nil
	}
	return r.listsIDs && f.answer != nil
}

// contradicts reports whether the check shows that the verdict of a person is wrong.
func (r route) contradicts(f finding, of *send, after snapshot, own ids) bool {
	if f.evidence == absent {
		return r.judge(of.Before, after, max(1, of.Adds)).evidence == happened
	}
	return !r.agrees(after, f.answer, own)
}

// ender is what can end the doubt about a mutation.
type ender int

const (
	byPerson ender = iota
	byRead         // a check, in any process
	byCall         // only a call with the key
)

// ender returns what can end a doubt, and why a person is needed. isSafe is set if [Options].SafeToRepeat
// names the route.
func (d *entryData) ender(isSafe bool) (ender, string) {
	row := rowOf(d.Request.Route)
	if isSafe || d.Send.IsCallers || row.setsValue {
		return byCall, ""
	}
	if why := row.cannotTell(&d.Send); why != "" {
		return byPerson, why
	}
	return byRead, ""
}

// situation is the state of a doubt when a call or [Log.Check] tries to end it.
type situation int

const (
	// A call with the key tries.
	harmless  situation = iota // a second execution does no harm
	open                       // the service can still execute the mutation
	overdue                    // the service can no longer execute the mutation
	confirmed                  // the service has confirmed the mutation; a later read can show the response
	unshown                    // the same, and a later read shows no more
	// Check tries, and only a call with the key can end the doubt.
	othersOpen
	othersOverdue
	// Check tries, or a call with another key that needs the lock.
	anyOpen
	anyOverdue
	anyUnshown
)

// action ends a doubt, or leaves it for a later try.
type action int

const (
	thenWait   action = iota // make the check again later
	thenRecord               // record that the mutation happened
	thenResend               // send the mutation, now or with the next call
	thenReview               // leave the decision to a person
	thenLose                 // the mutation happened, and its response is lost
	thenLeave                // only a call with the key can go on

	thenEndDoubt // end the doubt about the mutation that has the lock
	thenTake     // take the lock
)

// actions is the action by situation and evidence.
var actions = [...][4]action{
	//             silent, unclear, absent, happened
	harmless:      {thenResend, thenResend, thenResend, thenRecord},
	open:          {thenReview, thenWait, thenWait, thenRecord},
	overdue:       {thenReview, thenReview, thenResend, thenRecord},
	confirmed:     {thenLose, thenWait, thenWait, thenRecord},
	unshown:       {thenLose, thenLose, thenLose, thenRecord},
	othersOpen:    {thenLeave, thenLeave, thenLeave, thenRecord},
	othersOverdue: {thenLeave, thenLeave, thenResend, thenRecord},
	anyOpen:       {thenWait, thenWait, thenWait, thenRecord},
	anyOverdue:    {thenReview, thenReview, thenResend, thenRecord},
	anyUnshown:    {thenReview, thenReview, thenReview, thenRecord},
}

// ownCall is a call with the key of a mutation in doubt.
type ownCall struct {
	late        time.Duration // the time in which an execution or a read can still be late
	isHarmless  bool          // a second execution does no harm
	isChanged   bool          // the request differs from the recorded one: see [AcceptRecorded]
	needsAnswer bool          // a second execution is better than no response
}

// actionOn returns the action of a call with the key.
func (d *entryData) actionOn(f finding, c ownCall) action {
	s := open
	switch isConfirmed := d.Doubt.Happened; {
	case c.isHarmless && c.needsAnswer && f.evidence == happened && f.answer == nil:
		return thenResend
	case c.needsAnswer && d.isUnreadYet(f, c.late):
		return thenWait
	case c.isHarmless:
		s = harmless
	case isConfirmed && c.late > 0:
		s = confirmed
	case isConfirmed:
		s = unshown
	case c.late <= 0:
		s = overdue
	case c.isChanged && f.evidence == silent: // the recorded request is over later
		return thenWait
	}
	return actions[s][f.evidence]
}

// isUnreadYet reports whether a read shows the mutation, and a later read can show its response.
func (d *entryData) isUnreadYet(f finding, late time.Duration) bool {
	return late > 0 && f.evidence == happened && f.answer == nil && !f.verdict && d.canRebuild()
}

// othersActionOn returns the action of [Log.Check], or of a call with another key, which needs the lock.
func (d *entryData) othersActionOn(f finding, late time.Duration, needsLock, isSafe bool) action {
	if d.isUnreadYet(f, late) {
		return thenWait
	}
	who, _ := d.ender(isSafe)
	s := anyOverdue
	switch isConfirmed := d.Doubt.Happened; {
	case !needsLock && (isConfirmed || who == byCall && late > 0):
		s = othersOpen
	case !needsLock && who == byCall:
		s = othersOverdue
	case late > 0:
		s = anyOpen
	case isConfirmed:
		s = anyUnshown
	}
	return actions[s][f.evidence]
}

// listOf names the list to which a mutation adds one record, or returns "".
func listOf(row route, of ids) string {
	for _, name := range []string{"loanId", "applicationId", "customerId"} {
		if row.adds && of[name] != "" {
			return strconv.FormatBool(row.isOne) + of[name]
		}
	}
	return ""
}

// made returns the ids of the customers, applications or the offer that the mutation has made.
func (d *entryData) made(state store.State) []string {
	row := rowOf(d.Request.Route)
	if !hasHappened(state) || !row.listsIDs && (row.adds || !row.ids) {
		return nil
	}
	return slices.DeleteFunc(uuidsIn(`"`+string(d.Response.Body)+`"`), d.Request.IDs.has) // text/plain has no quotes
}

// needsNone reports whether a mutation that happened is a success without its response.
func (r route) needsNone(f finding) bool { return r.optional || r.unused && f.verdict }

// canRebuild reports whether a check can find the response of the mutation.
func (d *entryData) canRebuild() bool {
	return (d.Send.Before != nil || d.Send.AfterRestore) && rowOf(d.Request.Route).rebuilds
}

// noResponse is the recorded response of a mutation that happened, and whose response is lost and
// optional.
var noResponse = response{Status: http.StatusNoContent, Rebuilt: true}

// end ends the mutation after a finding: done, forgotten if there is no response, or free. The name by
// is that of the person who says so.
func (d *entryData) end(f finding, by string) line {
	d.Response, d.Doubt, d.Claimed = response{}, doubt{}, ""
	if f.evidence == happened && f.why == shownByRead && d.newSince() == "" {
		d.Claimed = d.Restore
	}
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

// effect returns the records after a mutation with this response: the minimum count (-1 if no
// check has counted before) and the UUIDs in the response.
func (d *entryData) effect(answer []byte) snapshot {
	s := snapshot{Count: -1, IDs: uuidsIn(string(answer))}
	if before := d.Send.Before; before != nil && before.Count >= 0 && d.Send.Adds >= 0 {
		s.Count = before.Count + d.Send.Adds
	}
	return s
}

// keeps returns lock if a mutation in the state needs its lock, else "". A key in review keeps the lock
// while a read can still show the response. A finished key keeps the lock while a late execution is possible.
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

// reserved is the time for which a mutation keeps its lock between the check and the send.
const reserved = 10 * time.Second

// release returns what a call does that needs the lock of the mutation: end the doubt first, wait, or take
// the lock. why is the reason for the wait.
func (d *entryData) release(entry *store.Entry) (then action, wait time.Duration, why string) {
	switch {
	case isInDoubt(entry.State) && (!d.Doubt.Happened || d.Send.Open || d.canRebuild()):
		// The service can still execute the mutation, or a read can show its lost response: nobody could
		// tell its records from those of another mutation.
		return thenEndDoubt, 0, ""
	case entry.Age < d.Hold:
		return thenWait, d.Hold - entry.Age, "the service can still execute the first of two sends, or reads do not show the effect yet"
	case entry.State == store.Free && !d.isCorrectable() && entry.Age < reserved:
		return thenWait, min(reserved-entry.Age, time.Second), "the other mutation is about to be sent"
	}
	return thenTake, 0, ""
}

// withoutPersonalData keeps a boolean, a UUID, and the ids of a record if a later step needs
// only the ids.
func (r response) withoutPersonalData(route string) response {
	if isScalar(r.Body) {
		return r
	}
	if ids := onlyIDs(r.Body); ids != nil && rowOf(route).ids {
		return response{Status: r.Status, Media: mediaJSON, Body: ids, Rebuilt: true}
	}
	return response{}
}

// swept returns the entry of a done mutation without the response. The entry keeps the ids of the response, and
// those of the request if a read only counts the records: [Log.Audit] compares the numbers.
func (d *entryData) swept(entry *store.Entry) store.Entry {
	d.Response = d.Response.withoutPersonalData(d.Request.Route)
	if d.Response.Status != 0 { // a replay needs no reads
		if d.Request.CheckWith = ""; !rowOf(d.Request.Route).isCounted() {
			d.Request.IDs = nil
		}
	}
	d.note(entry, line{State: store.Forgotten})
	return d.next(entry, store.Forgotten, entry.Lock)
}

// reviewed returns the reason of a review. It can be the reason of an earlier review.
func (d *entryData) reviewed(why string) string {
	const restored = "the store was restored from a copy, and does not know whether the mutation was sent: "
	if d.Send.AfterRestore && !strings.HasPrefix(why, restored) {
		why = restored + why
	}
	return why
}

// names keeps the response of the record that a review names.
func (d *entryData) names(f finding) {
	if f.record != nil {
		d.Doubt.Found = f.record
	}
}

// pause is the minimum time between the end of the last send and a resend.
func (d *entryData) pause(most time.Duration) time.Duration {
	if d.Send.Number < 2 {
		return 0
	}
	return min(time.Second<<min(d.Send.Number-2, 20), most)
}

// recheck returns the wait before the next check: as long as the wait so far, at most most.
func recheck(idle, most time.Duration) time.Duration {
	return max(min(idle, most), time.Second)
}
