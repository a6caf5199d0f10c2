package signin

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/lendingapi/lending-go/internal/format"
	"github.com/lendingapi/lending-go/internal/redact"
)

// Store keeps the token of an account for many processes, and grants the lease for the work:
// lending.TokenStore has the contract.
type Store interface {
	// Load returns the token of the last Save.
	Load(ctx context.Context) (Stored, error)
	// Save keeps a token, unless the store has a token with a higher fence.
	Save(ctx context.Context, stored Stored) error
	// Acquire grants owner the lease, or extends the lease.
	Acquire(ctx context.Context, owner string, ttl time.Duration) (fence int64, err error)
	// Release ends the lease of owner.
	Release(ctx context.Context, owner string) error
}

// Stored is the content of a store.
type Stored struct {
	Fence   int64
	Data    string
	Expires time.Time
}

// Errors of a store, besides its own.
var (
	ErrLeaseHeld error = redact.Text("lending: another owner has the lease")                                                            // of Acquire
	ErrFenced    error = redact.Text("lending: a newer token is kept already")                                                          // of Save
	ErrCorrupt   error = redact.Text("lending: the stored token cannot be read; check the key of the token store, or delete the token") // of Load
)

// StoreError is a failure of the store.
type StoreError struct {
	redact.Safe

	Cause error
}

// Error shows the safe part of the Cause.
func (e *StoreError) Error() string { return "lending: the token store: " + redact.Describe(e.Cause) }

// Unwrap returns the Cause.
func (e *StoreError) Unwrap() error { return e.Cause }

func isStoreError(err error) bool {
	_, ok := errors.AsType[*StoreError](err)
	return ok
}

// storedToken is the text in the store: a token, or the memory of a failed sign-in.
type storedToken struct {
	Version format.Version  `json:"v,omitempty"` // 1 without a version
	Account string          `json:"account"`     // of the token
	Token   string          `json:"token,omitempty"`
	Issued  time.Time       `json:"issued,omitzero"`
	Expires time.Time       `json:"expires,omitzero"`
	Life    time.Duration   `json:"life,omitempty"` // for a refreshed token to inherit
	Until   time.Time       `json:"until,omitzero"` // end of the pause
	Pause   time.Duration   `json:"pause,omitempty"`
	Count   int             `json:"count,omitempty"`
	Class   Class           `json:"class,omitempty"`
	By      string          `json:"by,omitempty"`      // the rejected credentials: see Config.By
	Failure json.RawMessage `json:"failure,omitempty"` // its kind
}

// stored returns the store's token, nil if there is none. A clock that was ahead when another
// process wrote the token does not extend its life.
func (e *Engine) stored(s *storedToken, fence int64) *liveToken {
	if s.Token == "" {
		return nil
	}
	ahead := max(s.Issued.Sub(e.config.Now()), 0)
	t := e.newToken(Issue{Token: s.Token, Issued: s.Issued.Add(-ahead), Expires: s.Expires.Add(-ahead), Life: s.Life},
		fence)
	t.adopted = true
	return t
}

// inUse reports whether another account can still use its record.
func (s *storedToken) inUse(now time.Time) bool {
	until := s.Until
	if s.Token != "" {
		until = s.Expires
	}
	return s.Account != "" && (until.After(now) || s.Token != "" && until.IsZero())
}

const storeTimeout = 5 * time.Second // for each step of the store

// storeLimit is the time for a step of the store under ctx: a part of the remaining time, so
// that an attempt without the store can follow.
func storeLimit(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		if left := time.Until(deadline); left > 0 {
			return min(storeTimeout, left/6)
		}
	}
	return storeTimeout
}

// storeStep takes a step of the store, which may hang, and waits at most limit. Close waits for
// a step that continues afterwards.
func storeStep[T any](ctx context.Context, e *Engine, limit time.Duration, do func(context.Context) (T, error)) (T,
	error,
) {
	type result struct {
		value T
		err   error
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	ended := make(chan result, 1)
	e.running.Go(func() {
		defer cancel()
		value, err := do(ctx)
		ended <- result{value, err}
	})
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case r := <-ended:
		return r.value, r.err
	case <-late.C:
		var none T
		return none, context.DeadlineExceeded
	}
}

func (e *Engine) load(ctx context.Context) (s storedToken, fence int64, err error) {
	var unknown format.Unknown
	stored, err := storeStep(ctx, e, storeLimit(ctx), e.config.Store.Load)
	if err == nil && stored.Data != "" {
		s, unknown, err = e.parse(stored.Data)
	}
	if errors.Is(err, ErrCorrupt) {
		e.report("reading the stored token", err)
		err = nil // the next save overwrites the text
	}
	if err != nil {
		return s, stored.Fence, &StoreError{Cause: err}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unknown = unknown
	return s, stored.Fence, nil
}

// parse fails with [ErrCorrupt] if the text may be overwritten, with a [*format.NewerError] for a
// text of a newer release, and with [ErrOtherAccount] if another account can still use the text.
func (e *Engine) parse(text string) (s storedToken, unknown format.Unknown, err error) {
	unknown, err = format.Decode([]byte(text), &s)
	newer := s.Version.Check(1, "the stored token")
	switch {
	case newer != nil:
		return storedToken{}, format.Unknown{}, newer
	case err != nil:
		err = ErrCorrupt
	case s.Account == e.config.Account:
		return s, unknown, nil
	case s.inUse(e.config.Now()):
		return s, unknown, ErrOtherAccount
	default:
		err = ErrCorrupt
	}
	return storedToken{}, format.Unknown{}, err
}

func (e *Engine) save(ctx context.Context, fence int64, s storedToken) error {
	s.Account = e.config.Account
	e.mu.Lock()
	unknown := e.unknown
	e.mu.Unlock()
	text, err := unknown.Encode(&s)
	if err != nil {
		return err
	}
	stored := Stored{Fence: fence, Data: string(text), Expires: s.Expires}
	if s.Token == "" {
		stored.Expires = s.Until.Add(time.Hour) // until then failures count as consecutive
	}
	_, err = storeStep(context.WithoutCancel(ctx), e, storeLimit(ctx), func(ctx context.Context) (any, error) {
		return nil, e.config.Store.Save(ctx, stored)
	})
	return err
}

// replace puts s in the place of token if the store still has token. A newer token, even saved
// in between, stays because of its higher fence.
func (e *Engine) replace(ctx context.Context, token string, s storedToken) error {
	old, fence, err := e.load(ctx)
	if err == nil && old.Token == token {
		err = e.save(ctx, fence, s)
	}
	if errors.Is(err, ErrFenced) {
		err = nil
	}
	return err
}
