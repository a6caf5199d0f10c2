package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
)

// Made is a record of the service that the probe has created.
type Made struct {
	What string    `json:"what"`
	ID   string    `json:"id"`
	At   time.Time `json:"at"`
}

// state is the file of a run: its records, its steps and the entries of its idempotency log. The
// log saves the file before each mutation is sent, so a killed run goes on with the same keys.
type state struct {
	Version int       `json:"version"`
	Service string    `json:"service"` // the address
	Run     string    `json:"run"`     // part of each key, and of the names that the probe makes
	Started time.Time `json:"started"`
	Ended   bool      `json:"ended"`
	Made    []Made    `json:"made"` // by all runs
	// Begun has the steps that a run has begun, and Done those that have ended.
	Begun map[string]bool `json:"begun"`
	Done  map[string]bool `json:"done"`

	Customer    lending.CustomerID    `json:"customer,omitzero"`
	Application lending.ApplicationID `json:"application,omitzero"`
	Offer       lending.OfferID       `json:"offer,omitzero"`
	Email       string                `json:"email,omitempty"`
	// Withdrawal waits for its one-time password.
	Withdrawal *lending.InvoiceWithdrawal `json:"withdrawal,omitempty"`

	Lag time.Duration `json:"lag,omitempty"` // the longest so far

	Learned *Service               `json:"learned"`
	Entries map[string]store.Entry `json:"entries"` // by key

	mu   sync.Mutex
	path string // "" keeps nothing
}

// openState reads the file of an unfinished run, or begins a run.
func openState(path, service string, now time.Time) (*state, error) {
	s := &state{path: path}
	text, err := os.ReadFile(path) //nolint:gosec // the caller's file
	switch {
	case path == "" || errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		err := json.Unmarshal(text, s)
		switch {
		case s.Version > version:
			return nil, fmt.Errorf("lending/probe: %s has version %d, and this program reads version %d; update the program",
				path, s.Version, version)
		case err != nil || s.Version < 1:
			return nil, fmt.Errorf("lending/probe: %s is not the file of a run; name another file", path)
		case s.Service != service:
			return nil, fmt.Errorf("lending/probe: %s belongs to another service; name another file, and keep this one: "+
				"it lists what was created there", path)
		case !s.Ended && s.Learned != nil:
			return s, nil
		}
	}
	*s = state{
		Version: version, Service: service, Run: uuid.NewString()[:8], Started: now.UTC().Truncate(time.Second), Made: s.Made,
		Begun: map[string]bool{}, Done: map[string]bool{}, Learned: newService(), Entries: map[string]store.Entry{}, path: path,
	}
	err = s.change(func() {}) // so that a run with a file that nobody can write ends before it begins
	return s, err
}

// change changes the state and saves it.
func (s *state) change(f func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	if s.path == "" {
		return nil
	}
	text, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	return writeFile(s.path, text)
}

// entries is the store of the idempotency log of a run: a store in memory whose entries are also
// in the file of the run. After a restart the ages begin at zero, so the log waits longer.
type entries struct {
	store.Store
	run *state
}

func openEntries(ctx context.Context, run *state) (store.Store, error) {
	memory := store.NewMemory()
	for _, entry := range run.Entries {
		entry.Revision = 0
		if err := memory.Save(ctx, entry); err != nil {
			return nil, err
		}
	}
	return &entries{memory, run}, nil
}

func (e *entries) Save(ctx context.Context, entry store.Entry) error {
	if err := e.Store.Save(ctx, entry); err != nil {
		return err
	}
	return e.keep(ctx, entry.Key)
}

func (e *entries) Replace(ctx context.Context, all []store.Entry) (int, error) {
	n, err := e.Store.Replace(ctx, all)
	for _, entry := range all {
		err = errors.Join(err, e.keep(ctx, entry.Key))
	}
	return n, err
}

// keep writes the present entry of a key to the file.
func (e *entries) keep(ctx context.Context, key string) error {
	now, err := e.Load(ctx, key)
	if err != nil {
		return err
	}
	return e.run.change(func() {
		delete(e.run.Entries, key)
		if now != nil {
			e.run.Entries[key] = *now
		}
	})
}
