package lendingpostgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go"
)

// TokenStore is a [lending.TokenStore] in a table row, for the replicas of a program. All
// replicas use the same token. A lease lets a single replica at a time sign in or refresh the
// token.
//
// While PostgreSQL cannot be reached, the replicas use the token they have.
type TokenStore struct {
	database
	name string
}

var _ lending.TokenStore = (*TokenStore)(nil)

// NewTokenStore returns the store with a name. Use another name for each account and each
// service. The token is stored in plain text: wrap the store in [lending.NewEncryptedTokenStore]
// to encrypt it.
func NewTokenStore(pool *pgxpool.Pool, name string, tables *Tables) (*TokenStore, error) {
	d, err := open(pool, tables)
	if err != nil {
		return nil, err
	}
	return &TokenStore{d, name}, nil
}

// Load implements [lending.TokenStore].
func (s *TokenStore) Load(ctx context.Context) (token lending.StoredToken, err error) {
	var data string
	err = s.queryRow(ctx, []any{&token.Fence, &data}, "SELECT fence, data FROM {token} WHERE name = $1", s.name)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return lending.StoredToken{}, nil
	case err != nil:
		return lending.StoredToken{}, err
	}
	token.Data = lending.NewSecret(data)
	return token, nil
}

const saveToken = `
INSERT INTO {token} AS kept (name, fence, data) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET fence = excluded.fence, data = excluded.data WHERE kept.fence <= excluded.fence`

// Save implements [lending.TokenStore].
func (s *TokenStore) Save(ctx context.Context, token lending.StoredToken) error {
	rows, err := s.exec(ctx, saveToken, s.name, token.Fence, token.Data.Reveal())
	if err == nil && rows == 0 {
		return lending.ErrFenced
	}
	return err
}

// The statement takes the time from the server's clock, once for all columns and after the row
// is locked, so neither the clocks of the replicas nor the wait for the lock matter. Fences
// start at the time in microseconds, so they rise even if the row is lost. A lease ends at most
// lease_lasts from now, even if the clock was ahead when the lease was given.
const acquireLease = `
INSERT INTO {token} AS kept (name, owner, lease, lease_ends, lease_lasts)
SELECT $1::text, $2::text, ` + microseconds + `, now + $3::interval, $3::interval FROM (SELECT pg_catalog.clock_timestamp() AS now) clock
ON CONFLICT (name) DO UPDATE SET (owner, lease, lease_ends, lease_lasts) = (
	SELECT CASE WHEN held THEN kept.owner ELSE $2::text END,
		CASE WHEN held OR kept.owner = $2::text THEN kept.lease ELSE greatest(kept.lease + 1, kept.fence + 1, ` + microseconds + `) END,
		CASE WHEN held THEN least(kept.lease_ends, now + kept.lease_lasts) ELSE now + $3::interval END,
		CASE WHEN held THEN kept.lease_lasts ELSE $3::interval END
	FROM (SELECT pg_catalog.clock_timestamp() AS now) clock, LATERAL (SELECT kept.owner <> $2::text AND kept.lease_ends > now AS held) lease)
WHERE kept.owner IS NULL OR kept.owner = $2::text
	OR kept.lease_ends NOT BETWEEN pg_catalog.clock_timestamp() AND pg_catalog.clock_timestamp() + kept.lease_lasts
RETURNING owner = $2::text, lease`

// microseconds since 1970. PostgreSQL 13 computes extract in floating point. These two parts are
// whole numbers that floating point represents exactly. Like each operator in this package, % gets
// the types for which pg_catalog has an operator: otherwise PostgreSQL would call that of any role
// that may create operators in the search path.
const microseconds = `(extract(epoch FROM pg_catalog.date_trunc('second', now))::bigint * 1000000 + extract(microseconds FROM now)::bigint % 1000000::bigint)`

// Acquire implements [lending.TokenStore].
func (s *TokenStore) Acquire(ctx context.Context, owner string, ttl time.Duration) (fence int64, err error) {
	var ours bool
	err = s.queryRow(ctx, []any{&ours, &fence}, acquireLease, s.name, owner, ttl)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && !ours {
		return 0, lending.ErrLeaseHeld
	}
	return fence, err
}

// Release implements [lending.TokenStore].
func (s *TokenStore) Release(ctx context.Context, owner string) error {
	_, err := s.exec(ctx, "UPDATE {token} SET owner = NULL WHERE name = $1 AND owner = $2", s.name, owner)
	return err
}
