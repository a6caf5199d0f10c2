// Package lendingpostgres keeps the shared state of a program's replicas in PostgreSQL: their
// token, accepted webhooks, mutations with an idempotency key, and the locks of orders.
//
// Use PostgreSQL 13 or later, and a pool of pgx. [Migrate] creates all tables. [Migrations]
// returns the same statements for a migration tool of your own.
//
// # Rights
//
// Migrate needs a role that may create tables in the schema. The replicas need a role with USAGE
// of the schema and these rights:
//
//	GRANT SELECT ON lending_migration TO replica;
//	GRANT SELECT, INSERT, UPDATE ON lending_token TO replica;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON lending_idempotency TO replica;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON lending_inbox, lending_inbox_seen TO replica;
//	GRANT SELECT, INSERT ON lending_inbox_removed TO replica;
//
// # Poolers
//
// A pooler such as PgBouncer may give each transaction another session. The package depends on
// no session: no setting, advisory lock or temporary table outlives its transaction. The transaction
// of an [OrderLock] lasts as long as the step of its order. A pooler without
// support for prepared statements, such as PgBouncer before 1.21, needs a pool without them:
// default_query_exec_mode=exec in the connection string, or pgx.QueryExecModeExec in the configuration.
//
// # Failures
//
// The stores retry a statement if the connection breaks, or if PostgreSQL reports a temporary
// failure such as a deadlock or a serialization failure. They make at most four tries, with less
// than a second of waits. If all tries fail, the error is the error of the last try, and the
// operation may or may not have happened.
//
// If the connection breaks after the server received a statement, the statement may be
// committed. The next try recognizes its own work by an owner, a fence or the name of a Save,
// and then reports success.
//
// The stores close a connection that can only read. For a failover, put the addresses of all
// servers and target_session_attrs=read-write into the connection string. The next connection
// then goes to the server that accepts writes.
//
// # Server settings
//
// The settings fsync, full_page_writes and synchronous_commit must be on, also for the role and
// the database. That is the default. With synchronous_commit off, a crash of the server loses
// the last commits, and a mutation can be sent twice. A failover to an asynchronous standby can
// lose commits under every setting. Name the standby in synchronous_standby_names if a mutation
// must not happen twice after a failover.
//
// # Disk space
//
// Do not switch autovacuum off. A mutation leaves one or two dead versions of its row; a claim
// or a change of a token leaves one. The storage parameters of the tables start autovacuum when
// a twentieth of the rows is dead. A transaction that stays open, anywhere in the database,
// prevents the removal of dead rows: limit such transactions with
// idle_in_transaction_session_timeout.
//
// The store itself deletes no row of a log. A mutation takes about 140 bytes, and 230 in the
// indexes, for ever. Sweep of the log forgets its response.
package lendingpostgres
