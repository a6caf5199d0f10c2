package idempotency

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/opaque"
)

// Log writes mutations down before they are sent, so that a mutation with an idempotency
// key happens once: see the package documentation. Several clients can share a log, and the
// logs of several processes can share a store.
type Log struct{ hidden opaque.Value[settings] }

// Options change how [NewLog] makes a log. The zero value of each field is the default.
type Options struct {
	// MaxLateness is how long after the end of a call the service may still execute its
	// mutation. A check that does not find the mutation counts when this time is over. A
	// mutation that is executed later than that happens twice. How late the service can be
	// is not published. 5 minutes if it is 0.
	MaxLateness time.Duration

	// KeepAnswers is how long [Log.Sweep] leaves the answer of a mutation that is done.
	// 30 days if it is 0.
	KeepAnswers time.Duration

	// MaxAnswer is the size of the largest answer that is kept, in bytes. A mutation with a
	// larger one is kept as done, without its answer. 1 MiB if it is 0.
	MaxAnswer int

	// Namespace stands before every key in the store, for example the name of a sandbox.
	// With another namespace a sandbox that was reset does not replay the answers from before.
	// It has letters, digits and -._ only, 64 of them at most.
	Namespace string
}

type settings struct {
	Options
	store store.Store

	clients *sync.Map               // by account, one that has used the log
	salt    *atomic.Pointer[string] // of the keys of locks, once the store has said it
}

var _ lending.Idempotency = (*Log)(nil)

// NewLog returns a log that keeps its entries in entries: give it to a client with
// [lending.WithIdempotency]. opts may be nil. The error is a [*lending.ArgumentError].
func NewLog(entries store.Store, opts *Options) (*Log, error) {
	s := settings{store: entries, clients: new(sync.Map), salt: new(atomic.Pointer[string])}
	if opts != nil {
		s.Options = *opts
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

// settings returns those of a log that NewLog made.
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
	odd := func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-._", r))
	}
	c.that(len(s.Namespace) <= 64, "Namespace", lending.CodeLength, "must have 64 characters at most")
	c.that(!strings.ContainsFunc(s.Namespace, odd), "Namespace", lending.CodeFormat, "must have letters, digits and -._ only")
	return c.err()
}

// stored returns how key stands in the store. A namespace holds no colon.
func (s *settings) stored(key string) string { return s.Namespace + ":" + key }

// arguments collects what is wrong with the arguments of a function.
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
