-- A token and the lease under which it is renewed: one row for each account of a service.
CREATE TABLE {token} (
	name        text        PRIMARY KEY,
	fence       bigint      NOT NULL DEFAULT 0, -- of the token
	data        text        NOT NULL DEFAULT '',
	owner       text,                           -- of the lease, null when nobody has it
	lease       bigint      NOT NULL DEFAULT 0, -- fence of the last lease
	lease_ends  timestamptz NOT NULL DEFAULT '-infinity',
	lease_lasts interval    NOT NULL DEFAULT '0' -- and no longer from now, whatever the clock said
) WITH (fillfactor = 50);

-- The keys of events that are acted on, or have been.
CREATE TABLE {deduper} (
	name  text        NOT NULL,
	key   bytea       NOT NULL, -- SHA-256 of it
	owner text        NOT NULL, -- of the claim
	done  boolean     NOT NULL,
	ends  timestamptz NOT NULL, -- of the claim, or of what is remembered
	PRIMARY KEY (name, key)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX ON {deduper} (ends);

-- Mutations with an idempotency key. Sweep and Forget of the log say what is deleted.
CREATE TABLE {idempotency} (
	name     text        NOT NULL,
	key      text        COLLATE "C" NOT NULL,
	revision bigint      NOT NULL,
	state    text        COLLATE "C" NOT NULL,
	lock     text        NOT NULL, -- '' for none
	data     bytea       NOT NULL,
	saved_by text        NOT NULL, -- names the Save, so that it knows itself
	saved_at timestamptz NOT NULL,
	PRIMARY KEY (name, key)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE UNIQUE INDEX ON {idempotency} (name, lock) WHERE lock <> '';
CREATE INDEX ON {idempotency} (name, state, saved_at, key);

-- The keys of mutations that are to be sent, written down in transactions of the caller's.
CREATE TABLE {outbox} (
	name     text        NOT NULL, -- of the store
	key      text        COLLATE "C" NOT NULL,
	added_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
	PRIMARY KEY (name, key)
);
