-- Who removed events of inboxes, and why. No row is deleted.
CREATE TABLE {inbox_removed} (
	id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name    text   NOT NULL,
	removed text   NOT NULL -- in JSON
);
CREATE INDEX ON {inbox_removed} (name, id);
