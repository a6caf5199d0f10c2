package idempotency

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/opaque"
)

// Log records mutations before they are sent, so that a mutation with an idempotency key happens
// once: see the package documentation. Several clients can share a log, and the logs of several
// processes can share a store.
type Log struct{ hidden opaque.Value[settings] }

// Options are the options of [NewLog]. The zero value of each field selects the default.
type Options struct {
	// MaxLateness is the longest time between the end of a call and a late execution of the
	// mutation by the service. After MaxLateness the log believes a check that does not find the
	// mutation. An even later execution makes the mutation happen twice. The service publishes
	// no limit. The default is 5 minutes.
	MaxLateness time.Duration

	// KeepAnswers is the age at which [Log.Sweep] removes a response. The default is 30 days.
	KeepAnswers time.Duration

	// MaxAnswer is the size of the largest recorded response in bytes. Of a larger response the
	// log keeps at most the ids. The default is 1 MiB.
	MaxAnswer int

	// SafeToRepeat names the mutations whose second execution does no harm, for every key, as the
	// function [SafeToRepeat] does for one key. The service publishes no read that shows these
	// mutations: without SafeToRepeat a lost response needs a person. docs/checks.md has the advice.
	SafeToRepeat []Route

	// Namespace is the prefix of every key in the store, for example the name of a sandbox.
	// After the reset of a sandbox, a new namespace prevents replays of old responses. A
	// namespace has at most 64 letters, digits and -._.
	Namespace string
}

type settings struct {
	Options
	store store.Store

	clients *sync.Map               // from account to a client that has used the log
	unsent  *sync.Map               // from the key in the store to an [unsent]
	reviews *sync.Map               // the keys whose review this process has reported
	salt    *atomic.Pointer[string] // of [settings.lockSalt]; nil until the log has read it
}

var _ lending.Idempotency = (*Log)(nil)

// NewLog returns a log that keeps its entries in the store entries. Give the log to a client
// with [lending.WithIdempotency]. opts may be nil. The error is a [*lending.ArgumentError].
func NewLog(entries store.Store, opts *Options) (*Log, error) {
	s := settings{store: entries, clients: new(sync.Map), unsent: new(sync.Map), reviews: new(sync.Map), salt: new(atomic.Pointer[string])}
	if opts != nil {
		s.Options = *opts
		s.SafeToRepeat = slices.Clone(opts.SafeToRepeat)
	}
	if s.MaxLateness == 0 {
		s.MaxLateness = 5 * time.Minute
	}
	if s.KeepAnswers == 0 {
		s.KeepAnswers = 30 * 24 * time.Hour
	}
	if s.MaxAnswer == 0 {
		s.MaxAnswer = 1 << 20
	}
	if err := s.validate(); err != nil {
		return nil, err
	}
	return &Log{opaque.Hide(s)}, nil
}

// settings returns the settings, or an error for the zero Log.
func (l *Log) settings() (settings, error) {
	if l == nil || l.hidden == nil {
		return settings{}, argumentError("log", lending.CodeRequired, "must come from NewLog")
	}
	return l.hidden(), nil
}

func (s *settings) validate() error {
	var c arguments
	c.that(s.store != nil, "store", lending.CodeRequired, "must not be nil")
	c.that(s.MaxLateness > 0, "MaxLateness", lending.CodeRange, "must not be negative")
	c.that(s.KeepAnswers > 0, "KeepAnswers", lending.CodeRange, "must not be negative")
	c.that(s.MaxAnswer > 0, "MaxAnswer", lending.CodeRange, "must not be negative")
	for _, route := range s.SafeToRepeat {
		c.that(slices.Contains(repeatable[:], route), "SafeToRepeat", lending.CodeConflict, "must have constants of the type Route only")
	}
	odd := func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-._", r))
	}
	c.that(len(s.Namespace) <= 64, "Namespace", lending.CodeLength, "must have 64 characters at most")
	c.that(!strings.ContainsFunc(s.Namespace, odd), "Namespace", lending.CodeFormat, "must have letters, digits and -._ only")
	return c.err()
}

// stored returns the key in the store. The colon is unambiguous: a namespace has none.
func (s *settings) stored(key string) string { return s.Namespace + ":" + key }

// arguments collects the failures of the arguments of a function.
type arguments []lending.FieldError

// that adds a failure unless ok.
func (a *arguments) that(ok bool, field, code, message string) {
	if !ok {
		*a = append(*a, lending.FieldError{Field: field, Message: message, Code: code})
	}
}

func (a arguments) err() error {
	if len(a) == 0 {
		return nil
	}
	return &lending.ArgumentError{Fields: a}
}

func argumentError(field, code, message string) error {
	return &lending.ArgumentError{Fields: []lending.FieldError{{Field: field, Message: message, Code: code}}}
}
