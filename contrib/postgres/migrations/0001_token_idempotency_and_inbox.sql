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

-- The unfinished events of inboxes: waiting, running and dead letters.
CREATE TABLE {inbox} (
	id      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name    text        NOT NULL,
	due     timestamptz,                    -- start of the next try; null for a dead letter
	claim   bigint,                         -- number of the claim, null without a claim
	until   timestamptz,                    -- end of the claim; in no index, so a claim changes no index
	tries   integer     NOT NULL DEFAULT 0, -- number of claims
	body    bytea       NOT NULL,

	set_aside timestamptz, -- this column and the next two are for dead letters
	event     bytea,       -- name of the event
	letter    text         -- description in JSON
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX ON {inbox} (name, due, id) WHERE due IS NOT NULL;
CREATE INDEX ON {inbox} (name, set_aside, id) WHERE due IS NULL;

-- The keys of all events, until they expire. An index of times would cost each Put more than a read
-- of all keys, which finds the expired keys.
CREATE TABLE {inbox_seen} (
	name text        NOT NULL,
	key  bytea       NOT NULL,
	at   timestamptz NOT NULL,
	PRIMARY KEY (name, key)
) WITH (autovacuum_vacuum_scale_factor = 0.02);
