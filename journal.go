package lending

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/internal/redact"
)

// Journal is where commands with a key are written down before they are sent: see
// [WithKey] and the package documentation. One journal can serve many clients, and the
// journals of many processes can share a store.
type Journal struct{ hidden func() journalSettings }

// JournalOptions change how [NewJournal] makes a journal. The zero value of each field is
// the default.
type JournalOptions struct {
	// Quiet is for how long a command must have been gone, beyond the end of the call that
	// sent it, before a read that does not find it shows that it did not happen: the service,
	// or what stands before it, can execute a command late. How late is not published.
	// What is executed later than that is done twice. 5 minutes if it is 0.
	Quiet time.Duration

	// KeepAnswers is how long [Journal.Sweep] leaves the answer of a command that is done.
	// 30 days if it is 0.
	KeepAnswers time.Duration

	// MaxAnswer is the size of the largest answer that is kept, in bytes. A command with a
	// larger one is kept as done without its answer. 1 MiB if it is 0.
	MaxAnswer int

	// Namespace stands before every key in the store, for example the name of a sandbox: when
	// that is reset, another one keeps the answers of before from being taken for those of now.
	// It has letters, digits and -._ only.
	Namespace string
}

type journalSettings struct {
	JournalOptions
	store JournalStore
}

// NewJournal returns a journal that keeps its entries in store. opts may be nil. What is
// wrong with either is the error of [New], and of the methods.
func NewJournal(store JournalStore, opts *JournalOptions) *Journal {
	s := journalSettings{store: store}
	if opts != nil {
		s.JournalOptions = *opts
	}
	if s.Quiet == 0 {
		s.Quiet = 5 * time.Minute
	}
	if s.KeepAnswers == 0 {
		s.KeepAnswers = 30 * 24 * time.Hour
	}
	if s.MaxAnswer == 0 {
		s.MaxAnswer = 1 << 20
	}
	return &Journal{func() journalSettings { return s }}
}

func (j *Journal) settings() journalSettings { return j.hidden() }

func (j *Journal) check(c *checks) {
	if j == nil || j.hidden == nil {
		c.add("journal", CodeRequired, "must come from NewJournal")
		return
	}
	s := j.settings()
	c.that(s.store != nil, "store", CodeRequired, "must not be nil")
	c.that(s.Quiet > 0, "Quiet", CodeRange, "must not be negative")
	c.that(s.KeepAnswers > 0, "KeepAnswers", CodeRange, "must not be negative")
	c.that(s.MaxAnswer > 0, "MaxAnswer", CodeRange, "must not be negative")
	odd := func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-._", r))
	}
	c.that(!strings.ContainsFunc(s.Namespace, odd), "Namespace", CodeFormat, "must have letters, digits and -._ only")
}

// stored returns how key stands in the store. A namespace holds no colon.
func (s journalSettings) stored(key string) string { return s.Namespace + ":" + key }

// WithJournal gives the client the journal for commands with a key: see [WithKey].
func WithJournal(journal *Journal) Option {
	return func(s *settings) error {
		var c checks
		journal.check(&c)
		s.journal = journal
		return c.err(nil)
	}
}

// UnsettledCommand is a command with a key that is not done and may have happened.
type UnsettledCommand struct {
	Key   string
	Route string        // method and path template
	State CommandState  // [CommandSent], [CommandUnknown] or [CommandUndecided]
	Age   time.Duration // since it is in that state
	Sends int           // how often it was sent
	Reads string        // what a person may read, as [Error.SettledBy] says it
	Why   string        // why it is undecided
}

var unsettledStates = []CommandState{CommandSent, CommandUnknown, CommandUndecided}

// Unsettled returns the commands that are not settled, the oldest first, at most limit.
// Those of state [CommandSent] may be under way. Most are settled by the next call with
// their key; [CommandUndecided] needs [Journal.Resolve].
func (j *Journal) Unsettled(ctx context.Context, limit int) ([]UnsettledCommand, error) {
	var c checks
	if j.check(&c); len(c.fields) == 0 {
		c.that(limit > 0, "limit", CodeRange, "must be positive")
	}
	if err := c.err(nil); err != nil {
		return nil, err
	}
	s := j.settings()
	prefix := s.stored("")
	entries, err := s.store.List(ctx, JournalFilter{Prefix: prefix, States: unsettledStates, Limit: limit})
	commands := make([]UnsettledCommand, 0, len(entries))
	for _, entry := range entries {
		command := UnsettledCommand{Key: strings.TrimPrefix(entry.Key, prefix), State: entry.State, Age: entry.Age}
		m, corrupt := readMemo(entry.Data)
		command.Route, command.Sends, command.Reads = m.Route, m.Sends, settlementOf(m.Route).reads
		switch {
		case corrupt != nil:
			command.Why = corrupt.Error()
		case entry.State == CommandUndecided: // or it is of an earlier time
			command.Why = m.Why
		}
		commands = append(commands, command)
	}
	return commands, journalError(err)
}

// journalError is what a store failed with, for who has no call.
func journalError(err error) error {
	if err == nil {
		return nil
	}
	return hidden("lending: journal: "+redact.Describe(err), errors.Join(ErrJournal, err))
}

// Resolution is what a person, or a program in a person's place, has found out.
type Resolution struct {
	By      string  // required: who says so
	Why     string  // required: how it was found out
	Verdict Verdict // [Happened] or [NotHappened]
}

// Resolve ends the doubt about a command that is unsettled. After [Happened] calls with the
// key return its answer; after [NotHappened] the next one sends the command.
//
// It fails with [ErrInProgress] while a call may be at the command, with [ErrUnsettled]
// where NotHappened comes before the time that [JournalOptions] call Quiet is over, and with
// an [*ArgumentError] if nothing is in doubt. Who and why are kept in the entry.
func (j *Journal) Resolve(ctx context.Context, key string, r Resolution) error {
	var c checks
	j.check(&c)
	(&commandKey{name: key}).check(&c)
	c.that(r.By != "", "By", CodeRequired, "must not be empty")
	c.that(r.Why != "", "Why", CodeRequired, "must not be empty")
	v := r.Verdict.verdict()
	c.that(v.happened || v.absent, "Verdict", CodeRequired, "must be Happened or NotHappened")
	c.that(v.err == nil, "Verdict", CodeEncoding, "must hold an answer that can be written as JSON")
	if err := c.err(nil); err != nil {
		return err
	}
	s := j.settings()
	entry, err := s.store.Load(ctx, s.stored(key))
	switch {
	case err != nil:
		return journalError(err)
	case entry == nil || !isUnsettled(entry.State):
		return argumentError("key", CodeConflict, "must be that of a command that is unsettled")
	}
	m, err := readMemo(entry.Data)
	if err != nil {
		return journalError(err)
	}
	lost := m.lostFor(entry)
	switch {
	case lost < 0:
		return &KeyError{Key: key, kind: ErrInProgress, RetryAfter: -lost}
	case v.absent && lost < s.Quiet:
		return &KeyError{Key: key, kind: ErrUnsettled, Why: "it can be executed late", RetryAfter: s.Quiet - lost}
	}
	m.Why, m.ResolvedBy = r.Why, r.By
	return journalError(s.store.Save(ctx, m.settle(entry, v, s.MaxAnswer)))
}

// Sweep forgets the answers of the commands that have been done for longer than
// [JournalOptions].KeepAnswers, and returns how many it were. That the commands are done is kept for
// ever: one that is forgotten would run again. Call it now and then, a day apart for
// example, in any one of the processes. An entry that cannot be read is passed over, and
// [ErrCorruptEntry] returned in the end.
func (j *Journal) Sweep(ctx context.Context) (int, error) {
	var c checks
	if j.check(&c); len(c.fields) > 0 {
		return 0, c.err(nil)
	}
	s := j.settings()
	const batch = 100
	var corrupt error // which does not keep the others from being forgotten
	for n := 0; ; {
		entries, err := s.store.List(ctx, JournalFilter{Prefix: s.stored(""), States: []CommandState{CommandDone}, Older: max(s.KeepAnswers, s.Quiet), Limit: batch})
		if err != nil && !errors.Is(err, ErrCorruptEntry) {
			return n, journalError(err)
		}
		before := n
		for i := range entries {
			m, err := readMemo(entries[i].Data)
			if err == nil {
				err = s.store.Save(ctx, m.settle(&entries[i], verdict{happened: true}, 0))
			}
			switch {
			case err == nil:
				n++
			case errors.Is(err, ErrCorruptEntry):
				corrupt = err
			case !errors.Is(err, ErrJournalConflict):
				return n, journalError(err)
			}
		}
		if len(entries) < batch || n == before {
			return n, journalError(corrupt)
		}
	}
}

// memo is the data of an entry.
type memo struct {
	Route string `json:"route"`
	Print []byte `json:"print"` // fingerprint of the request
	Salt  string `json:"salt"`  // of the fingerprint
	Left  bool   `json:"left"`  // the request may have left: it cannot be changed any more

	Nonce  string        `json:"nonce,omitempty"` // of the last send
	Lease  time.Duration `json:"lease,omitempty"` // how long that may take
	Sends  int           `json:"sends,omitempty"`
	Before *sight        `json:"before,omitempty"` // what a read showed before the first send
	Hold   time.Duration `json:"hold,omitempty"`   // for how long the scope is kept after the end

	Status  int    `json:"status,omitempty"` // of the answer
	Media   string `json:"media,omitempty"`  // its content type
	Answer  []byte `json:"answer,omitempty"`
	Rebuilt bool   `json:"rebuilt,omitempty"` // from reads, or by a verdict: it is no answer of the service

	Why        string `json:"why,omitempty"`
	ResolvedBy string `json:"resolvedBy,omitempty"`
}

func readMemo(data []byte) (memo, error) {
	var m memo
	if json.Unmarshal(data, &m) != nil || m.Route == "" {
		return memo{}, ErrCorruptEntry
	}
	return m, nil
}

func (m *memo) bytes() []byte {
	data, _ := json.Marshal(m) //nolint:errchkjson // it holds nothing that cannot be written
	return data
}

// lostFor says for how long nobody can be at the command any more; negative if somebody may
// be, for as long.
func (m *memo) lostFor(entry *JournalEntry) time.Duration {
	if entry.State == CommandSent {
		return entry.Age - m.Lease
	}
	return entry.Age
}

// settle returns entry with what v says: done, forgotten if there is no answer, or free. Its
// scope is free then, unless the command can still be executed late.
func (m *memo) settle(entry *JournalEntry, v verdict, most int) JournalEntry {
	m.Answer, m.Status, m.Media, m.Rebuilt, m.Before = nil, 0, "", false, nil
	next := JournalEntry{Key: entry.Key, Revision: entry.Revision, State: CommandFree}
	if m.Hold > 0 {
		next.Scope = entry.Scope
	}
	if v.happened {
		next.State = CommandForgotten
	}
	if v.happened && v.answer != nil && len(v.answer) <= most {
		next.State = CommandDone
		m.Answer, m.Status, m.Media, m.Rebuilt = v.answer, 200, "application/json", true
	}
	next.Data = m.bytes()
	return next
}

func isUnsettled(s CommandState) bool {
	return s == CommandSent || s == CommandUnknown || s == CommandUndecided
}
