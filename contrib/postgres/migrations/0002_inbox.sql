-- The events of inboxes that wait, are acted on, or were set aside.
CREATE TABLE {inbox} (
	id      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name    text        NOT NULL,
	due     timestamptz,                    -- when it may be taken; null when it was set aside
	claim   bigint,                         -- of whoever acts on it, null when nobody does
	until   timestamptz,                    -- when the claim ends: in no index, so that a claim changes none
	failed  integer     NOT NULL DEFAULT 0, -- tries that have ended with an error
	unended integer     NOT NULL DEFAULT 0, -- tries that have not ended, since the last that has
	body    bytea       NOT NULL,

	set_aside timestamptz, -- of a dead letter, as are the others
	event     bytea,       -- its name
	letter    text         -- its description in JSON
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX ON {inbox} (name, due, id) WHERE due IS NOT NULL;
CREATE INDEX ON {inbox} (name, set_aside, id) WHERE due IS NULL;

-- The keys of the events that were put, each for a while.
CREATE TABLE {inbox_seen} (
	name text        NOT NULL,
	key  bytea       NOT NULL,
	at   timestamptz NOT NULL,
	PRIMARY KEY (name, key)
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX ON {inbox_seen} (name, at);
