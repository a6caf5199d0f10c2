package guarantees_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
)

// oneCell is a database with one cell. Whatever is executed sets it, and whatever is
// asked gets it.
type oneCell struct{ value driver.Value }

func (c *oneCell) Connect(context.Context) (driver.Conn, error) { return c, nil }
func (c *oneCell) Driver() driver.Driver                        { return nil }
func (c *oneCell) Prepare(string) (driver.Stmt, error)          { return nil, errors.ErrUnsupported }

func (c *oneCell) Begin() (driver.Tx, error) { return nil, errors.ErrUnsupported }
func (c *oneCell) Close() error              { return nil }

func (c *oneCell) ExecContext(_ context.Context, _ string, args []driver.NamedValue) (driver.Result, error) {
	c.value = args[0].Value
	return driver.RowsAffected(1), nil
}

func (c *oneCell) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	return &oneRow{value: c.value}, nil
}

type oneRow struct {
	value driver.Value
	read  bool
}

func (r *oneRow) Columns() []string { return []string{"loan"} }
func (r *oneRow) Close() error      { return nil }

func (r *oneRow) Next(into []driver.Value) error {
	if r.read {
		return io.EOF
	}
	into[0], r.read = r.value, true
	return nil
}

func TestIDsInADatabase(t *testing.T) {
	cell := &oneCell{}
	db := sql.OpenDB(cell)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	load := func() (id lending.LoanID, err error) {
		id = lending.LoanID(uuid.New()) // what stood there before
		err = db.QueryRowContext(t.Context(), "SELECT loan").Scan(&id)
		return id, err
	}

	const text = "3fa85f64-5717-4562-b3fc-2c963f66afa6"
	id := lending.LoanID(uuid.MustParse(text))
	for _, argument := range []any{id, &id} {
		t.Run(fmt.Sprintf("%T", argument), func(t *testing.T) {
			_, err := db.ExecContext(t.Context(), "INSERT", argument)
			require.NoError(t, err)
			assert.Equal(t, text, cell.value)
			got, err := load()
			require.NoError(t, err)
			assert.Equal(t, id, got)
		})
	}
	for _, none := range []any{lending.LoanID{}, (*lending.LoanID)(nil)} {
		t.Run(fmt.Sprintf("%T", none), func(t *testing.T) {
			_, err := db.ExecContext(t.Context(), "INSERT", none)
			require.NoError(t, err)
			assert.Nil(t, cell.value, "NULL")
			got, err := load()
			require.NoError(t, err)
			assert.True(t, got.IsZero())
		})
	}
	for _, stored := range []driver.Value{text, []byte(text), "3FA85F64-5717-4562-B3FC-2C963F66AFA6", id[:]} {
		t.Run(fmt.Sprint(stored), func(t *testing.T) {
			cell.value = stored
			got, err := load()
			require.NoError(t, err)
			assert.Equal(t, id, got)
		})
	}
	for _, stored := range []driver.Value{
		"", "hush", "{" + text + "}", []byte("hush"), []byte{}, id[:15], int64(4711), 3.5, true, "urn:uuid:" + text,
	} {
		t.Run(fmt.Sprint(stored), func(t *testing.T) {
			cell.value = stored
			_, err := load()
			var refused *lending.ArgumentError
			require.ErrorAs(t, err, &refused, "%v")
			assert.Contains(t, err.Error(), "lending: id must be a UUID")
			for _, hidden := range []string{"hush", "3fa8", "4711"} {
				assert.NotContains(t, err.Error(), hidden)
			}
		})
	}
	var several sql.Null[lending.LoanID]
	cell.value = nil
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT loan").Scan(&several))
	assert.False(t, several.Valid)
}
