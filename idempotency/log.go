package idempotency

import (
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/account"
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

	// Formerly are earlier names, addresses or users of the account. The log goes on with their keys:
	// it replays recorded responses, and makes checks at the present address. A log with Formerly
	// serves a single account.
	Formerly []Account

	// Namespace is the prefix of every key in the store, for example the name of a sandbox.
	// After the reset of a sandbox, a new namespace prevents replays of old responses. A new
	// namespace protects none of the keys written before: never change it for another reason. A
	// namespace has at most 64 letters, digits and -._.
	Namespace string
}

// Account is an account to which keys belong: the Name of [lending.WithAccount], or the BaseURL and the
// Username of [lending.WithCredentials], or with another [lending.TokenSource] the BaseURL alone.
type Account struct{ Name, BaseURL, Username string }

// id returns the account as [lending.Client.Account] does, or "" for an account that is not valid.
func (a Account) id() string {
	base, err := url.Parse(a.BaseURL)
	switch {
	case a.Name != "" && a.BaseURL == "" && a.Username == "":
		return account.Named(a.Name)
	case a.Name != "" || err != nil || base.Host == "":
		return ""
	case a.Username == "":
		return account.Of(base)
	}
	return account.Of(base, a.Username)
}

type settings struct {
	Options
	store store.Store

	formerly []string                // the accounts of Formerly
	account  *atomic.Pointer[string] // the account of a log with Formerly; nil until its first call
	clients  *sync.Map               // from account to a client that has used the log
	unsent   *sync.Map               // from the key in the store to an [unsent]
	reviews  *sync.Map               // the keys whose review this process has reported
	salt     *atomic.Pointer[string] // of [settings.lockSalt]; nil until the log has read it
}

var _ lending.Idempotency = (*Log)(nil)

// NewLog returns a log that keeps its entries in the store entries. Give the log to a client
// with [lending.WithIdempotency]. opts may be nil. The error is a [*lending.ArgumentError].
func NewLog(entries store.Store, opts *Options) (*Log, error) {
	s := settings{
		store: entries, clients: new(sync.Map), unsent: new(sync.Map), reviews: new(sync.Map),
		account: new(atomic.Pointer[string]), salt: new(atomic.Pointer[string]),
	}
	if opts != nil {
		s.Options = *opts
		s.SafeToRepeat = slices.Clone(opts.SafeToRepeat)
		for _, former := range opts.Formerly {
			s.formerly = append(s.formerly, former.id())
		}
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
	c.that(!slices.Contains(s.formerly, ""), "Formerly", lending.CodeFormat, "must have a Name, or a BaseURL with a scheme and a host")
	odd := func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-._", r))
	}
	c.that(len(s.Namespace) <= 64, "Namespace", lending.CodeLength, "must have 64 characters at most")
	c.that(!strings.ContainsFunc(s.Namespace, odd), "Namespace", lending.CodeFormat, "must have letters, digits and -._ only")
	return c.err()
}

const oneAccount = "a log with Formerly serves a single account; give this account a log of its own"

// serves reports whether a client of account may use the log: a log with Formerly could not tell the
// keys of several accounts apart.
func (s *settings) serves(account string) bool {
	return len(s.formerly) == 0 || s.account.CompareAndSwap(nil, &account) || *s.account.Load() == account
}

// isOf reports whether an entry of owner belongs to account, a present one.
func (s *settings) isOf(owner, account string) bool {
	return owner == account || slices.Contains(s.formerly, owner)
}

// clientOf returns a client for the entries of owner that has used the log, or nil.
func (s *settings) clientOf(owner string) (client *lending.Client) {
	s.clients.Range(func(account, used any) bool {
		if s.isOf(owner, account.(string)) {
			client = used.(*lending.Client)
		}
		return client == nil
	})
	return client
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
