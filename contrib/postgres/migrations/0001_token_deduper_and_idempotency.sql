-- The token of each account of a service, and the lease for its renewal.
CREATE TABLE {token} (
	name        text        PRIMARY KEY,
	fence       bigint      NOT NULL DEFAULT 0, -- fence of the token
	data        text        NOT NULL DEFAULT '',
	owner       text,                           -- owner of the lease, null without an owner
	lease       bigint      NOT NULL DEFAULT 0, -- fence of the last lease
	lease_ends  timestamptz NOT NULL DEFAULT '-infinity',
	lease_lasts interval    NOT NULL DEFAULT '0' -- limits the lease if the clock was set back
) WITH (fillfactor = 50);

-- The keys of events that are being handled, or were handled.
CREATE TABLE {deduper} (
	name  text        NOT NULL,
	key   bytea       NOT NULL, -- SHA-256 of the key
	owner text        NOT NULL, -- owner of the claim
	done  boolean     NOT NULL,
	ends  timestamptz NOT NULL, -- end of the claim, or of the memory of a handled event
	PRIMARY KEY (name, key)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX ON {deduper} (ends);

-- Mutations with an idempotency key. Only Sweep and Forget of the log delete rows.
CREATE TABLE {idempotency} (
	name     text        NOT NULL,
	key      text        COLLATE "C" NOT NULL,
	revision bigint      NOT NULL,
	state    text        COLLATE "C" NOT NULL,
	lock     text        NOT NULL, -- '' without a lock
	data     bytea       NOT NULL,
	saved_by text        NOT NULL, -- name of the last Save, for its second try
	saved_at timestamptz NOT NULL,
	PRIMARY KEY (name, key)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE UNIQUE INDEX ON {idempotency} (name, lock) WHERE lock <> '';
CREATE INDEX ON {idempotency} (name, state, saved_at, key);

-- The keys of mutations to send, from transactions of the caller.
CREATE TABLE {outbox} (
	name     text        NOT NULL, -- name of the store
	key      text        COLLATE "C" NOT NULL,
	added_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
	PRIMARY KEY (name, key)
);
