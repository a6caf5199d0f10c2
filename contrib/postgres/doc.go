// Package lendingpostgres keeps in PostgreSQL what the replicas of one service share: the token they
// call with, the webhooks they have accepted, which of these they have acted on, and their
// mutations with a key.
//
// It is a module of its own, so that nobody else gets its dependencies. Use PostgreSQL 13 or
// later, and a pool of pgx. [Migrate] makes the tables, all at once, or [Migrations] gives
// their statements to a tool of yours.
//
// # Rights
//
// Migrate needs a role that may create in the schema. The replicas need one that owns nothing
// and may, beside USAGE of the schema:
//
//	GRANT SELECT ON lending_migration TO replica;
//	GRANT SELECT, INSERT, UPDATE ON lending_token TO replica;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON lending_idempotency TO replica;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON lending_deduper, lending_inbox, lending_inbox_seen TO replica;
//	GRANT SELECT, INSERT, DELETE ON lending_outbox TO replica;
//
// # Poolers
//
// Nothing depends on a session: no setting, no LISTEN that must be heard, no advisory lock that
// outlasts its transaction, no temporary table. A pooler such as PgBouncer may give each
// transaction another connection. One that does not know of prepared statements, as PgBouncer
// before 1.21, needs a pool that has none: default_query_exec_mode=exec in its connection
// string, or pgx.QueryExecModeExec in its configuration.
//
// # Failures
//
// A statement that the server refuses for a reason of the moment, a serialization failure or
// a deadlock for example, or whose connection breaks, is done again, four times within a
// second at most. A connection that can only read is closed: with the addresses of all servers
// and target_session_attrs=read-write in the connection string the next one leads to the
// server that takes writes. Where the connection broke after the server had got the statement,
// nobody knows whether it is committed: what is done again knows its own work by an owner, a
// fence or the name of a Save, and says that it was done. When all tries have failed the error
// is that of the last: it is not known what became of the operation.
//
// # What PostgreSQL must keep
//
// The settings fsync, full_page_writes and synchronous_commit must be on, as they are by
// default, also for the role and the database. With synchronous_commit off a crash of the
// server loses the last commits, and a command can be sent twice. A failover to a standby that
// does not replicate synchronously can lose them under every setting: name one in
// synchronous_standby_names where a command must not be done twice then.
//
// # Room
//
// A command leaves one or two old versions of its row, a claim one, and what is done with a
// token one each, beside which its page has room. Autovacuum removes them and must not be
// switched off; the tables have it begin when a twentieth of their rows is old. A transaction
// that is left open keeps it from removing anything, in the whole database: bound them with
// idle_in_transaction_session_timeout. Rows of a log are never deleted: a command takes
// about 140 bytes and 230 in the indexes for ever, and its answer until
// Sweep of the log forgets it.
package lendingpostgres
