package lendingpostgres

import "context"

// At READ COMMITTED a statement sees a row that another transaction has committed meanwhile, and
// ON CONFLICT applies to the row. At REPEATABLE READ and SERIALIZABLE PostgreSQL refuses the
// statement (40001) instead, which aborts the transaction. A statement between these two
// inserts at READ COMMITTED only, and returns two rows at the other levels.
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

// insertTx inserts a row in a transaction of the caller's and reports whether the row is new. If
// not, the transaction can go on, whatever its isolation level.
//
// first ends with elseTwoRows. upsert has ON CONFLICT, which fails with 40001 on a row that the
// snapshot hides. insert has not: it fails on such a row, and inserts if that was deleted.
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

// inSavepoint undoes a statement that fails, and leaves the transaction as it was.
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
