package storetest

import (
	"bytes"
	"reflect"
	"time"

	"github.com/lendingapi/lending-go/webhook"
)

func (b inbox) survives() {
	for n := 1; n <= 3; n++ {
		b.put(n)
	}
	b.is(b.taken())
	deadLettered := b.taken()
	b.deadLetter(deadLettered)
	running := b.taken()
	before := b.inbox
	if b.inbox = b.open(); same(before, b.inbox) {
		b.Log("not tested: the inbox ends with its process, the same was opened again")
		return
	}
	again := b.taken()
	if again.Event.Key() != running.Event.Key() || !bytes.Equal(again.Event.Body(), running.Event.Body()) {
		b.Fatalf("Take in the next process: got %q, want %q, which was being acted on", again.Event.Body(), running.Event.Body())
	}
	if again.Tries != 2 {
		b.Fatalf("Take in the next process: got Tries %d, want 2, with the try that the end of its process cut short", again.Tries)
	}
	for n := 1; n <= 3; n++ {
		b.seen(n, "in the next process")
	}
	b.counts(webhook.InboxCounts{Running: 1, DeadLetters: 1}, "in the next process")
	b.retry(again, 0)
	b.put(4)
	b.inbox = b.open()
	b.counts(webhook.InboxCounts{Waiting: 2, DeadLetters: 1}, "in a third process, of what was put and of what will be tried again")
	for range 2 {
		b.is(b.taken())
	}
	b.counts(webhook.InboxCounts{DeadLetters: 1}, "in a third process, after Done")
}

// same reports whether open returned the same inbox again.
func same(one, other webhook.Inbox) bool {
	return reflect.TypeOf(one) == reflect.TypeOf(other) && reflect.TypeOf(one).Comparable() && one == other
}

// overtaken takes an event whose claim expires, and takes the event again as another process.
func (b inbox) overtaken() (first, second *webhook.InboxEntry, ok bool) {
	b.Helper()
	b.put(1)
	first = b.take(1, 1)
	if first.Until.IsZero() {
		b.Log("not tested: the claims of this inbox do not end")
		return nil, nil, false
	}
	if left := time.Until(first.Until); left > patience/2 {
		b.Fatalf("the claim lasts for %v; open the inbox with one of %v, as place is told", left, short)
	}
	second = b.take(1, 2)
	if after := time.Since(first.Until); after < short/20 {
		b.Fatalf("Take: got an event %v after the end of the claim that somebody has, in Until; want %v at least", after, short/20)
	}
	return first, second, true
}

func (b inbox) late() {
	first, second, ok := b.overtaken()
	if !ok {
		return
	}
	b.retry(first, 0)
	b.deadLetter(first)
	b.counts(webhook.InboxCounts{Running: 1}, "after Retry and DeadLetter by the owner of a claim that had ended, of what another has")
	b.deadLetter(second)
	for range 2 {
		b.counts(webhook.InboxCounts{DeadLetters: 1}, "after DeadLetter by the owner of the claim, and after a late Done")
		b.is(first)
		b.is(second)
	}
}

func (b inbox) lateDone() {
	first, second, ok := b.overtaken()
	if !ok {
		return
	}
	b.is(first)
	b.retry(second, 0)
	b.none("it is done, by the owner of a claim that had ended")
	b.counts(webhook.InboxCounts{}, "after Done by the owner of a claim that had ended")
}
