package idempotency

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestActionOnDoubt holds the rules of the table of actions, cell by cell.
func TestActionOnDoubt(t *testing.T) {
	own := []situation{harmless, open, overdue, confirmed, unshown}
	others := []situation{othersOpen, othersOverdue, anyOpen, anyOverdue, anyUnshown}
	assert.Len(t, actions, len(own)+len(others))
	for s := range situation(len(actions)) {
		for e := range evidence(len(actions[s])) {
			got := actions[s][e]
			isOverdue := s == overdue || s == othersOverdue || s == anyOverdue
			assert.Equal(t, s == harmless && e != happened || isOverdue && e == absent, got == thenResend,
				"a resend needs a harmless mutation, or an absence after MaxLateness: %d, %d", s, e)
			assert.Equal(t, e == happened, got == thenRecord,
				"a mutation is recorded as done if a check shows its effect, and only then: %d, %d", s, e)
			assert.False(t, got == thenWait && s != open && s != confirmed && s != anyOpen,
				"a doubt ends when MaxLateness is over: %d, %d", s, e)
			assert.Equal(t, got == thenLose, got != thenWait && got != thenRecord && (s == confirmed || s == unshown),
				"nobody is asked whether a confirmed mutation happened: %d, %d", s, e)
			assert.False(t, s == open && got == thenReview && e != silent,
				"a person is asked when no read can show more: %d, %d", s, e)
			assert.False(t, s == anyOpen && got == thenReview,
				"another call does not end a doubt by a review before MaxLateness is over: %d", e)
			assert.Equal(t, got == thenLeave, (s == othersOpen || s == othersOverdue) && got != thenRecord && got != thenResend,
				"Check leaves a doubt that only a call with the key can end: %d, %d", s, e)
		}
	}
}

// TestActionByCaller holds which row of the table of actions a caller gets.
func TestActionByCaller(t *testing.T) {
	const early, over = time.Minute, time.Duration(0)
	lost, gone, none := finding{evidence: happened}, finding{evidence: absent}, finding{}
	counted := entryData{
		Request: request{Route: "POST /api/Application/create-application"}, Send: send{Before: &snapshot{}},
	}
	confirmed, callers := counted, counted
	confirmed.Doubt.Happened, callers.Send.IsCallers = true, true
	repeatable, changed := ownCall{isHarmless: true, needsAnswer: true}, ownCall{late: early, isChanged: true}
	for _, test := range []struct {
		name string
		got  action
		want action
	}{
		{"a harmless call resends to get the response", counted.actionOn(lost, repeatable), thenResend},
		{"a harmless call records if it needs no response", counted.actionOn(lost, ownCall{isHarmless: true}), thenRecord},
		{"a changed request waits for the recorded request", counted.actionOn(none, changed), thenWait},
		{"a changed request needs a review later", counted.actionOn(none, ownCall{isChanged: true}), thenReview},
		{"a call never resends a confirmed mutation", confirmed.actionOn(gone, ownCall{late: over}), thenLose},
		{"Check waits", counted.othersActionOn(gone, early, false, false), thenWait},
		{"Check frees an absent mutation", counted.othersActionOn(gone, over, false, false), thenResend},
		{"Check leaves a confirmed mutation to its call", confirmed.othersActionOn(gone, over, false, false), thenLeave},
		{"Check leaves a mutation of the caller to its call", callers.othersActionOn(none, over, false, false), thenLeave},
		{"Check leaves a mutation that is safe to repeat", counted.othersActionOn(none, over, false, true), thenLeave},
		{"another call never frees a confirmed mutation", confirmed.othersActionOn(gone, over, true, false), thenReview},
		{"another call takes the lock of a call with a check", callers.othersActionOn(none, over, true, false), thenReview},
		{"another call waits for a late execution", callers.othersActionOn(none, early, true, true), thenWait},
	} {
		t.Run(test.name, func(t *testing.T) { assert.Equal(t, test.want, test.got) })
	}
}
