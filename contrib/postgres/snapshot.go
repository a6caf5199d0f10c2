package lendingpostgres

import "context"

// At READ COMMITTED a statement sees rows that other transactions committed in the meantime, and
// ON CONFLICT applies to them. At REPEATABLE READ and SERIALIZABLE, PostgreSQL fails such a
// statement with 40001, which aborts the transaction. A statement between these two constants
// inserts only at READ COMMITTED, and returns two rows at the other levels.
const (
	atReadCommitted = `
WITH level AS MATERIALIZED (
	SELECT pg_catalog.current_setting('transaction_isolation') IN ('read committed', 'read uncommitted') AS sees
), `
	elseTwoRows = `
SELECT FROM inserted UNION ALL SELECT FROM level, (VALUES (1), (2)) AS two WHERE NOT sees`
)

const serializationFailure = "40001" // SQLSTATE

type statement struct {
	sql       string
	arguments []any
}

// insertTx inserts a row in a transaction of the caller and reports whether the row is new. If
// the row is not new, the transaction can continue, at every isolation level.
//
// The first statement ends with elseTwoRows. The statement upsert has ON CONFLICT, which fails
// with 40001 if the snapshot hides the row. The statement insert has no ON CONFLICT: it fails if
// the hidden row exists, and inserts if the row was deleted.
func insertTx(ctx context.Context, tx Tx, first, upsert, insert statement) (added bool, err error) {
	exec := func(s statement) (int64, error) {
		tag, err := tx.Exec(ctx, s.sql, s.arguments...)
		return tag.RowsAffected(), err
	}
	rows, err := exec(first)
	if err != nil || rows < 2 {
		return rows == 1, err
	}
	rows, err = inSavepoint(exec, upsert)
	if stateOf(err) == serializationFailure {
		rows, err = inSavepoint(exec, insert)
	}
	if stateOf(err) == uniqueViolation {
		return false, nil
	}
	return rows > 0, err
}

// inSavepoint rolls a failed statement back, and the transaction can continue.
func inSavepoint(exec func(statement) (int64, error), s statement) (rows int64, err error) {
	if _, err := exec(statement{sql: "SAVEPOINT lending_insert"}); err != nil {
		return 0, err
	}
	if rows, err = exec(s); err != nil {
		if _, failed := exec(statement{sql: "ROLLBACK TO SAVEPOINT lending_insert"}); failed != nil {
			return 0, err
		}
	}
	if _, failed := exec(statement{sql: "RELEASE SAVEPOINT lending_insert"}); failed != nil && err == nil {
		err = failed
	}
	return rows, err
}
