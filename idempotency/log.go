package idempotency

import (
	"cmp"
	"context"
	"net/url"
	"regexp"
	"slices"
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
type Log struct{ hidden opaque.Value[*settings] }

// Options are the options of [NewLog]. The zero value of each field selects the default.
type Options struct {
	// MaxLateness is the longest time between the end of a call and a late execution of the
	// mutation by the service. After MaxLateness the log believes a check that does not find the
	// mutation. The default is 5 minutes.
	MaxLateness time.Duration

	// KeepAnswers is the age at which [Log.Sweep] removes a response. The default is 30 days.
	KeepAnswers time.Duration

	// MaxAnswer is the size of the largest recorded response in bytes. Of a larger response the
	// log keeps at most the ids. The default is 1 MiB.
	MaxAnswer int

	// SafeToRepeat names the mutations whose second execution does no harm, for every key. Without
	// SafeToRepeat a lost response to one of them needs a person. docs/dev/checks.md has the advice.
	SafeToRepeat []Route

	// IsConfirmed reports whether a record of [lending.LoansService.Withdrawals] is a confirmed withdrawal. Set
	// IsConfirmed if the service lists a withdrawal from its start: otherwise a start that is executed late looks like
	// the confirmation. The checks and the audit then read the whole list, and count these records only. nil counts all.
	// IsConfirmed must not wait: it has no context, and delays the end of the call.
	IsConfirmed func(lending.AdvanceProjection) bool

	// Formerly are earlier names, addresses or users of the account, and with replicas the next one too,
	// before the first replica uses it. The log goes on with their keys: it replays recorded responses,
	// and makes checks at the current address. A log with Formerly serves a single account. The first use of
	// a key of a former account makes all accounts of the list the same. A later account can use
	// their keys only if it lists all of them: see [ErrOtherAccount].
	Formerly []Account

	// Namespace is the prefix of every key in the store, at most 64 letters, digits and -._. After the
	// reset of a sandbox, a new namespace prevents replays of old responses. It protects none of the
	// keys written before: do not change it otherwise.
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
	store    store.Store
	operator *operator
	audits   *operator // of the entry with the last audit
	effects  *effects
	index    *index

	formerly []string               // the accounts of Formerly
	account  atomic.Pointer[string] // the account of a log with Formerly; nil until its first call
	clients  sync.Map               // from account to a client that has used the log
	unsent   sync.Map               // from the key in the store to an [unsent]
}

func newSettings(entries store.Store, o Options) *settings {
	now := &operator{entries: entries, key: o.Namespace + "!standing", inUse: make(chan struct{}, 1)}
	effects := &effects{entries: entries, namespace: o.Namespace, maxLateness: o.MaxLateness}
	return &settings{
		Options: o, store: entries, operator: now,
		audits:  &operator{entries: entries, key: o.Namespace + "!audit"},
		effects: effects,
		index: &index{
			entries: entries, operator: now, effects: effects, prefix: o.Namespace + ":", inUse: make(chan struct{}, 1),
		},
	}
}

var _ lending.Idempotency = (*Log)(nil)

// NewLog returns a log that keeps its entries in the store entries. Give the log to a client
// with [lending.WithIdempotency]. opts may be nil. The error is a [*lending.ArgumentError].
func NewLog(entries store.Store, opts *Options) (*Log, error) {
	o := *cmp.Or(opts, new(Options))
	o.SafeToRepeat = slices.Clone(o.SafeToRepeat)
	o.MaxLateness = cmp.Or(o.MaxLateness, 5*time.Minute)
	o.KeepAnswers = cmp.Or(o.KeepAnswers, 30*24*time.Hour)
	o.MaxAnswer = cmp.Or(o.MaxAnswer, 1<<20)
	s := newSettings(bounded{entries}, o)
	for _, former := range s.Formerly {
		s.formerly = append(s.formerly, former.id())
	}
	var c arguments
	c.that(entries != nil, "store", lending.CodeRequired, "must not be nil")
	c.that(s.MaxLateness > 0, "MaxLateness", lending.CodeRange, "must not be negative")
	c.that(s.KeepAnswers > 0, "KeepAnswers", lending.CodeRange, "must not be negative")
	c.that(s.MaxAnswer > 0, "MaxAnswer", lending.CodeRange, "must not be negative")
	for _, route := range s.SafeToRepeat {
		c.that(slices.Contains(repeatable[:], route), "SafeToRepeat", lending.CodeConflict, "must have constants of the type Route only")
	}
	c.that(!slices.Contains(s.formerly, ""), "Formerly", lending.CodeFormat, "must have a Name, or a BaseURL with a scheme and a host")
	c.that(namespace.MatchString(s.Namespace), "Namespace", lending.CodeFormat, "must have at most 64 letters, digits and -._")
	if err := c.err(); err != nil {
		return nil, err
	}
	return &Log{opaque.Hide(s)}, nil
}

// settings returns the settings. The store of the zero Log fails.
func (l *Log) settings() *settings {
	if l == nil || l.hidden == nil {
		return newSettings(noStore{}, Options{})
	}
	return l.hidden()
}

// noStore is the store of the zero [Log]. Each function of a log reads before it writes.
type noStore struct{ store.Store }

func (noStore) Load(context.Context, string) (*store.Entry, error) { return nil, errNotNew }

func (noStore) List(context.Context, store.Filter) ([]store.Entry, error) { return nil, errNotNew }

var errNotNew = argumentError("log", lending.CodeRequired, "must come from NewLog")

// bounded ends the calls of a store after storeLimit: a server that has stopped can be silent for a quarter of an hour, and
// the callers of a log need no deadline. A list takes longer, the more keys the namespace has.
type bounded struct{ store.Store }

const (
	storeLimit = 10 * time.Second
	listLimit  = time.Minute // also of a Replace
)

func (b bounded) Load(ctx context.Context, key string) (*store.Entry, error) {
	ctx, stop := context.WithTimeout(ctx, storeLimit)
	defer stop()
	return b.Store.Load(ctx, key)
}

func (b bounded) Save(ctx context.Context, entry store.Entry) error {
	ctx, stop := context.WithTimeout(ctx, storeLimit)
	defer stop()
	return b.Store.Save(ctx, entry)
}

func (b bounded) Replace(ctx context.Context, entries []store.Entry) (int, error) {
	ctx, stop := context.WithTimeout(ctx, listLimit)
	defer stop()
	return b.Store.Replace(ctx, entries)
}

func (b bounded) List(ctx context.Context, filter store.Filter) ([]store.Entry, error) {
	ctx, stop := context.WithTimeout(ctx, listLimit)
	defer stop()
	return b.Store.List(ctx, filter)
}

// namespace is the form of a namespace. The character after it keeps the keys of a store apart: a colon for
// the keys of callers, # for locks, and ! for the salt and the instructions.
var namespace = regexp.MustCompile(`^[a-zA-Z0-9._-]{0,64}$`)

const (
	oneAccount = "a log with Formerly serves a single account; give this account a log of its own"
	twoHeirs   = "Options.Formerly lists an account whose keys belong to an account that is not listed: " +
		"list all accounts if they are the same, else remove those of the other account"
)

// serves reports whether a client of account may use the log: a log with Formerly could not tell the
// keys of several accounts apart.
func (s *settings) serves(account string) bool {
	return len(s.formerly) == 0 || s.account.CompareAndSwap(nil, &account) || *s.account.Load() == account
}

// isOf reports whether an entry of owner belongs to account, a current one.
func (s *settings) isOf(owner, account string) bool {
	return owner == account || slices.Contains(s.formerly, owner)
}

// owns is isOf, and false for the keys of another group of accounts. The first question for a key of a former account
// makes a group of account and Formerly.
func (s *settings) owns(ctx context.Context, account, owner string) (owns bool, err error) {
	if owner == account || !s.isOf(owner, account) {
		return owner == account, nil
	}
	now, err := s.operator.recent(ctx)
	if err != nil || now.isOne(owner, account) {
		return err == nil, err
	}
	if now.united(account, s.formerly) == nil {
		return false, nil
	}
	err = s.operator.change(ctx, func(i *instructions) {
		heirs := i.united(account, s.formerly)
		if owns = heirs != nil; owns {
			i.Heirs = heirs
		}
	})
	return owns && err == nil, err
}

// clientOf returns a client for the entries of owner that has used the log, or nil.
func (s *settings) clientOf(ctx context.Context, owner string) (client *lending.Client, err error) {
	s.clients.Range(func(account, used any) bool {
		var owns bool
		if owns, err = s.owns(ctx, account.(string), owner); owns {
			client = used.(*lending.Client)
		}
		return client == nil && err == nil
	})
	return client, storeError(err)
}

// stored returns the key of a caller in the store.
func (s *settings) stored(key string) string { return s.Namespace + ":" + key }

// read returns the entry of a key in the store, and its data. A missing entry is free, with revision 0.
func (s *settings) read(ctx context.Context, key string) (entry store.Entry, d entryData, err error) {
	saved, err := s.store.Load(ctx, key)
	switch {
	case err != nil:
		return entry, d, err
	case saved == nil:
		return store.Entry{Key: key, State: store.Free}, d, nil
	}
	if d, err = readData(saved.Data); err == nil {
		entry = *saved
	}
	return entry, d, err
}

// repeats reports whether [Options].SafeToRepeat names the route.
func (s *settings) repeats(route string) bool { return slices.Contains(s.SafeToRepeat, Route(route)) }

// arguments collects the failures of the arguments of a function.
type arguments []lending.FieldError

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
