package lendingpostgres

import (
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/lendingapi/lending-go"
)

// Tables sets the schema of the tables. Use the same value for [Migrate] and for all stores. A nil
// pointer and zero fields mean the defaults.
type Tables struct {
	// Schema is the schema of the tables. The default is the first schema of the search path.
	// Set the search path for the role or the database, not for a session.
	Schema string
}

const maxName = 63 // bytes; PostgreSQL cuts longer identifiers

// place is the valid schema of the tables, or "".
type place struct{ schema string }

func (t *Tables) place() (place, error) {
	if t == nil {
		return place{}, nil
	}
	if len(t.Schema) > maxName || strings.ContainsRune(t.Schema, 0) || !utf8.ValidString(t.Schema) {
		return place{}, &lending.ArgumentError{Fields: []lending.FieldError{
			{Field: "Schema", Message: "must be UTF-8 of 1 to 63 bytes", Code: lending.CodeFormat},
		}}
	}
	return place{t.Schema}, nil
}

func (p place) table(name string) string {
	name = "lending_" + name
	if p.schema == "" {
		return pgx.Identifier{name}.Sanitize()
	}
	return pgx.Identifier{p.schema, name}.Sanitize()
}

// sql replaces {name} in a statement with the name of the table.
func (p place) sql(statement string) string {
	var text strings.Builder
	for {
		before, after, found := strings.Cut(statement, "{")
		text.WriteString(before)
		if !found {
			return text.String()
		}
		name, rest, _ := strings.Cut(after, "}")
		text.WriteString(p.table(name))
		statement = rest
	}
}
