// Package book has the state of the service for tests: its records, accounts, tokens and codes. Book is the only door: a
// function that Do calls has the state for itself.
package book

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/lendingapi/lending-go/lendingtest/internal/clock"
	"github.com/lendingapi/lending-go/lendingtest/internal/recent"
	"github.com/lendingapi/lending-go/lendingtest/record"
)

// Config has the settings of a state.
type Config struct {
	Clock         *clock.Clock
	Seed          uint32
	Accounts      []record.Account
	TokenLifetime time.Duration
	ReadLag       func(kind string) time.Duration // nil for no lag
	// Post posts an event to a subscriber.
	Post func(sub *record.Subscription, event, id string, data map[string]any)
}

// OfferLifetime is the lifetime of offers in this model.
const OfferLifetime = 30 * 24 * time.Hour

// Token is the meaning of a bearer token.
type Token struct {
	Token, Username string
	Expires         time.Time
}

// OneTimeCode is a sent code.
type OneTimeCode struct {
	Value   string
	Expires time.Time
	Tries   int // remaining tries
}

// Pending is a withdrawal that waits for its one-time password. A loan has at most a single
// pending withdrawal; starting another replaces it.
type Pending struct {
	Invoice bool   // only invoice withdrawals can be confirmed
	ID      string // of its record, if the list has the withdrawal from its start
	Amount  record.Cents
	Code    OneTimeCode
}

// Book is the state of a service.
type Book struct {
	mu    sync.Mutex
	state State
}

// State is the state while a function of [Book.Do] has it.
type State struct {
	Config
	*Tables
	Decision  record.Decision
	Accounts  map[string]*record.Account
	TwoFactor map[string]*OneTimeCode
	Pending   map[string]*Pending // withdrawals that wait for their code, by loan
	Sent      recent.Log[record.Sent]

	Tokens    map[string]*Token
	sweepAt   int // number of tokens for the next sweep
	sequences map[int]int
	codes     int
	lag       lag
	book      *Book
}

// New returns a state, which Reset makes ready.
func New(cfg Config) *Book { return &Book{state: State{Config: cfg}} }

// Reset deletes everything but the accounts of the settings.
func (b *Book) Reset() {
	b.Do(func(s *State) {
		*s = State{
			Config: s.Config, Tables: newTables(), Accounts: map[string]*record.Account{}, TwoFactor: map[string]*OneTimeCode{},
			Pending: map[string]*Pending{}, Tokens: map[string]*Token{}, sequences: map[int]int{},
			lag: lag{by: s.ReadLag, shown: newTables(), waiting: map[string][]write{}}, book: b,
		}
		for _, a := range s.Config.Accounts {
			s.Accounts[a.Username] = &a
		}
	})
}

// Do calls f with the state, which nobody else uses meanwhile.
func (b *Book) Do(f func(*State)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(&b.state)
}

// Now returns the service's time.
func (s *State) Now() time.Time { return s.Clock.Now() }

// Stamp returns the service's time for a record.
func (s *State) Stamp() record.Timestamp { return record.Timestamp{Time: s.Now()} }

// Shown returns the tables for reads. They lag behind the state as long as the settings say.
func (s *State) Shown() *Tables {
	if s.lag.by == nil {
		return s.Tables
	}
	s.lag.catchUp(s.Now())
	return s.lag.shown
}

// Written delays the new state of rows for reads.
func (s *State) Written(ids []string) {
	for _, id := range ids {
		s.lag.written(s.Tables, id, s.Now())
	}
}

// The kinds of identifiers: the second group of an identifier, so that a reader of a log sees when
// identifiers are mixed up.
const (
	Customer     = iota + 1 // of a customer
	Application             // of an application
	Offer                   // of an offer
	Loan                    // of a loan
	Applicant               // of an applicant
	Contract                // of a contract
	Requirement             // of a requirement
	Document                // of a document
	Transaction             // of a transaction
	Withdrawal              // of a withdrawal
	Message                 // of a message
	Subscription            // of a subscription
	Account                 // of an account
	Sent                    // of a sent message
	Correlation             // of a problem
)

// NewID returns the next identifier of a kind, a valid UUID. Runs with the same calls get the same
// identifiers.
func (s *State) NewID(kind int) string {
	s.sequences[kind]++
	return FormatID(s.Seed, kind, s.sequences[kind])
}

// FormatID returns the identifier with this number.
func FormatID(seed uint32, kind, n int) string {
	return fmt.Sprintf("%08x-%04x-4000-8000-%012x", seed, kind, n)
}

// Trace returns the next identifier of a problem and its trace in the form of W3C.
func (s *State) Trace() (correlation, trace string) {
	correlation = s.NewID(Correlation)
	n := s.sequences[Correlation]
	return correlation, fmt.Sprintf("00-%032x-%016x-00", uint64(s.Seed)<<32+uint64(n), n) //nolint:gosec // n is positive
}

// digest derives repeatable values, which look random: tokens, codes and secrets.
func (s *State) digest(purpose string) [sha256.Size]byte {
	s.codes++
	return sha256.Sum256(fmt.Appendf(nil, "%s %d %d", purpose, s.Seed, s.codes))
}

// NewSecret returns a secret for a subscription.
func (s *State) NewSecret() string {
	secret := s.digest("secret")
	return "whs_" + hex.EncodeToString(secret[:16])
}

// NewCode returns six digits that expire after five minutes or five tries.
func (s *State) NewCode(purpose string) OneTimeCode {
	d := s.digest(purpose)
	n := binary.BigEndian.Uint32(d[:]) % 1_000_000
	return OneTimeCode{Value: fmt.Sprintf("%06d", n), Expires: s.Now().Add(5 * time.Minute), Tries: 5}
}

// Accepts counts a try. After the last try even the right code is rejected.
func (s *State) Accepts(c *OneTimeCode, code string) bool {
	if c == nil || c.Tries == 0 || !s.Now().Before(c.Expires) {
		return false
	}
	c.Tries--
	return code == c.Value
}

// Send records a sent message.
func (s *State) Send(m record.Sent) record.Sent {
	m.ID, m.Time = s.NewID(Sent), s.Now()
	s.Sent.Add(m, 0)
	return m
}

// Issue makes a token.
func (s *State) Issue(username string) *Token {
	if len(s.Tokens) >= max(s.sweepAt, recent.Rows) { // keeps valid tokens
		maps.DeleteFunc(s.Tokens, func(_ string, t *Token) bool { return !s.Now().Before(t.Expires) })
		s.sweepAt = 2 * len(s.Tokens)
	}
	d := s.digest("token")
	t := &Token{Token: base64.RawURLEncoding.EncodeToString(d[:]), Username: username, Expires: s.Now().Add(s.TokenLifetime)}
	s.Tokens[t.Token] = t
	return t
}
