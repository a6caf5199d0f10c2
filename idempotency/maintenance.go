package idempotency

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/safely"
)

const (
	// checkAgain is the wait between two calls of [Log.Check] if nothing is in doubt.
	checkAgain = time.Minute
	// checkLimit bounds the reads of a check, and checksAtOnce the checks that Check makes at a
	// time: a read that hangs delays no other mutation for long.
	checkLimit   = 10 * time.Second
	checksAtOnce = 8
)

// Check makes the checks of all mutations in doubt with client, and returns the wait before the
// next call of Check. Call Check in a loop of its own, in any number of replicas. Check sends no
// mutation.
//
// If no read tells whether a mutation happened, the mutation needs a review when MaxLateness is
// over, and its lock is free. After an error of a read, Check goes on with the next mutation; an
// error of the list ends Check. A check ends after 10 seconds.
//
// Twice a minute Check saves the instructions of [Log.Standing] again: a running log that reads an earlier revision
// sends nothing until [Log.Restored].
//
// Check skips
//   - mutations of another service or account than that of client;
//   - mutations with [SafeToRepeat] or [WithCheck];
//   - mutations that only set a value;
//   - checks by an e-mail address, which no entry keeps: the next call with the key makes them.
func (l *Log) Check(ctx context.Context, client *lending.Client) (next time.Duration, err error) {
	s := l.settings()
	if client == nil {
		return 0, argumentError("client", lending.CodeRequired, "must not be nil")
	}
	if !s.serves(client.Account()) {
		return 0, argumentError("client", lending.CodeConflict, "must be of the account of the log: "+oneAccount)
	}
	next = checkAgain
	var mu sync.Mutex // guards next and failed
	var failed []error
	var checks sync.WaitGroup
	free := make(chan struct{}, checksAtOnce)
	now, err := s.operator.recent(ctx)
	if err != nil {
		return next, storeError(err)
	}
	if now.revision == 0 || now.age > markAfter {
		s.operator.mark(ctx, now.revision)
	}
	inDoubt := store.Filter{Prefix: s.stored(""), States: []store.State{store.Sent, store.InDoubt}, Limit: 100}
	for entry, err := range store.All(ctx, s.store, inDoubt) {
		if err != nil {
			checks.Wait()
			return next, errors.Join(append(failed, storeError(err))...)
		}
		free <- struct{}{}
		checks.Go(func() {
			defer func() { <-free }()
			var wait time.Duration
			err := safely.Call[lending.PanicError](func() (err error) { // of IsConfirmed, or of an observer of the client
				wait, err = s.checkEntry(ctx, client, &entry)
				return err
			})
			mu.Lock()
			defer mu.Unlock()
			if err != nil && !errors.Is(err, store.ErrConflict) {
				failed = append(failed, err)
			}
			if wait > 0 {
				next = min(next, max(wait, time.Second))
			}
		})
	}
	checks.Wait()
	return next, errors.Join(failed...)
}

// checkEntry ends the doubt about an entry if a read can. It returns the wait before the next
// check, or 0 if Check cannot end the doubt.
func (s *settings) checkEntry(ctx context.Context, client *lending.Client, entry *store.Entry) (time.Duration, error) {
	d, err := s.open(ctx, entry)
	if err != nil { // Keys lists an unreadable entry as in doubt
		return 0, nil
	}
	if owns, err := s.owns(ctx, client.Account(), d.Request.Account); !owns {
		return 0, storeError(err)
	}
	ctx, stop := context.WithTimeout(ctx, checkLimit)
	defer stop()
	wait, err := s.endOther(ctx, client, entry, &d, false)
	if errors.Is(err, errNeedsRequest) {
		return 0, nil
	}
	return wait, err
}

// Sweep removes the responses of mutations that were done longer than KeepAnswers ago, and
// returns their number. Call Sweep about once a day, in any of the processes.
//
// The entries stay with their history, because a mutation without an entry would be sent again: see
// [Log.Forget]. Sweep also deletes expired entries of locks. It skips an unreadable entry and returns
// [store.ErrCorrupt] at the end.
func (l *Log) Sweep(ctx context.Context) (int, error) {
	s := l.settings()
	done := store.Filter{Prefix: s.stored(""), States: []store.State{store.Done}, Older: max(s.KeepAnswers, s.MaxLateness)}
	swept, err := s.replace(ctx, done, func(entry *store.Entry) (store.Entry, error) {
		data, err := readData(entry.Data)
		return data.swept(entry), storeError(err)
	})
	return swept, cmp.Or(err, s.sweepLocks(ctx))
}

// sweepLocks deletes the expired entries of locks. Only the mutation that has the lock reads or writes
// the remembered entry of the lock. So no mutation overwrites a newer entry after this deletion.
func (s *settings) sweepLocks(ctx context.Context) error {
	remembered := store.Filter{Prefix: s.Namespace + "#", States: []store.State{store.Free}, Older: s.MaxLateness}
	_, err := s.replace(ctx, remembered, func(entry *store.Entry) (store.Entry, error) {
		return store.Entry{Key: entry.Key, Revision: entry.Revision}, nil
	})
	return err
}

// replace replaces all entries that filter selects, and returns their number. It skips an entry
// for which next returns an error.
func (s *settings) replace(ctx context.Context, filter store.Filter, next func(*store.Entry) (store.Entry, error)) (n int, failed error) {
	filter.Limit = pageLimit
	for {
		page, err := s.store.List(ctx, filter)
		if err != nil || len(page) == 0 {
			return n, cmp.Or(storeError(err), failed)
		}
		filter.After = page[len(page)-1].Position
		entries := page[:0]
		for _, entry := range page {
			replacement, err := next(&entry)
			if failed = cmp.Or(failed, err); err == nil {
				entries = append(entries, replacement)
			}
		}
		replaced, err := s.store.Replace(ctx, entries)
		if n += replaced; err != nil {
			return n, storeError(err)
		}
	}
}

// Forget deletes the entries of a finished order, and returns their number. keys is the common
// prefix of the keys with a separator at the end, for example "order-42/". Without a separator,
// keys is one key: "order-4" does not match order-42.
//
// A later call with a deleted key sends the mutation again. So call Forget days after the end of the
// order, and never in the function that makes its mutations: a loop in another replica can still start
// that function, from a list of open orders that it read before. No other function deletes the entry of
// a mutation.
//
// Forget deletes nothing while a mutation of the order is in flight, in doubt or needs a review, or
// until MaxLateness after the last change of a key. The error is then an [*Error] with the key, and with RetryAfter if the wait
// is known. Forget leaves unreadable entries and returns [store.ErrCorrupt].
func (l *Log) Forget(ctx context.Context, keys string) (int, error) {
	s := l.settings()
	if keys == "" {
		return 0, argumentError("keys", lending.CodeRequired, "must not be empty")
	}
	if last, _ := utf8.DecodeLastRuneInString(keys); unicode.IsLetter(last) || unicode.IsDigit(last) {
		return s.forgetOne(ctx, s.stored(keys))
	}
	of := store.Filter{Prefix: s.stored(keys), States: allStates, Limit: pageLimit}
	var last *store.Entry
	for entry, err := range store.All(ctx, s.store, of) {
		if err != nil {
			return 0, storeError(err)
		}
		if _, err := s.deletion(&entry); err != nil && !errors.Is(err, store.ErrCorrupt) {
			return 0, err
		}
		last = &entry // the oldest save comes first
	}
	if last == nil {
		return 0, nil
	}
	if err := s.forgets(ctx, last); err != nil {
		return 0, err
	}
	return s.replace(ctx, of, s.deletion)
}

// forgets records that the log no longer knows all mutations ([Log.Restored]), and that a change of the age of the entry
// is among them, or up to an hour younger ([Log.Audit]), before the entry goes.
func (s *settings) forgets(ctx context.Context, entry *store.Entry) error {
	now, err := s.operator.recent(ctx)
	if err != nil || now.Forgot && now.Gone+time.Since(now.at) <= entry.Age {
		return storeError(err)
	}
	return storeError(s.operator.change(ctx, func(i *instructions) {
		if younger := max(0, entry.Age-time.Hour); !i.Forgot || younger < i.Gone {
			i.Gone = younger
		}
		i.Forgot = true
	}))
}

func changedAt(entry *store.Entry) time.Time { return time.Now().Add(-entry.Age) }

func (s *settings) forgetOne(ctx context.Context, key string) (int, error) {
	entry, err := s.store.Load(ctx, key)
	if err != nil || entry == nil {
		return 0, storeError(err)
	}
	deleted, err := s.deletion(entry)
	if err == nil {
		err = s.forgets(ctx, entry)
	}
	if err != nil {
		return 0, err
	}
	n, err := s.store.Replace(ctx, []store.Entry{deleted})
	return n, storeError(err)
}

// deletion returns the entry that deletes a finished entry in [store.Store.Replace].
func (s *settings) deletion(entry *store.Entry) (store.Entry, error) {
	data, corrupt := readData(entry.Data)
	if err := s.unfinished(entry, &data); err != nil {
		return store.Entry{}, err
	}
	return store.Entry{Key: entry.Key, Revision: entry.Revision}, storeError(corrupt)
}

// unfinished returns the reason if the entry of a mutation must stay.
func (s *settings) unfinished(entry *store.Entry, data *entryData) error {
	e := Error{Key: strings.TrimPrefix(entry.Key, s.stored("")), kind: ErrInDoubt}
	switch idle := data.idle(entry); {
	case entry.State == store.Sent && idle < 0:
		e.kind, e.RetryAfter = ErrInProgress, -idle
	case entry.State == store.NeedsReview:
		e.kind = ErrNeedsReview
	case isInDoubt(entry.State):
		switch who, why := data.ender(s.repeats(data.Request.Route)); {
		case data.Request.Route == "": // unreadable
		case who == byRead:
			e.Why = "Log.Check or the next call with the key ends the doubt"
		case who == byCall:
			e.Why = "the next call with the key ends the doubt"
		default:
			e.kind, e.Why = ErrNeedsReview, why
		}
	case entry.Age < max(s.MaxLateness, data.Hold):
		e.kind, e.RetryAfter = errJustChanged, max(s.MaxLateness, data.Hold)-entry.Age
	default:
		return nil
	}
	return &e
}
