-- The unfinished events of inboxes: waiting, running and dead letters.
CREATE TABLE {inbox} (
	id      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name    text        NOT NULL,
	due     timestamptz,                    -- start of the next try; null for a dead letter
	claim   bigint,                         -- number of the claim, null without a claim
	until   timestamptz,                    -- end of the claim; in no index, so a claim changes no index
	failed  integer     NOT NULL DEFAULT 0, -- tries with an error
	unended integer     NOT NULL DEFAULT 0, -- unfinished tries since the last finished try
	body    bytea       NOT NULL,

	set_aside timestamptz, -- this column and the next two are for dead letters
	event     bytea,       -- name of the event
	letter    text         -- description in JSON
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX ON {inbox} (name, due, id) WHERE due IS NOT NULL;
CREATE INDEX ON {inbox} (name, set_aside, id) WHERE due IS NULL;

-- The keys of all events, until they expire.
CREATE TABLE {inbox_seen} (
	name text        NOT NULL,
	key  bytea       NOT NULL,
	at   timestamptz NOT NULL,
	PRIMARY KEY (name, key)
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX ON {inbox_seen} (name, at);
