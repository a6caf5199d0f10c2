package lendingpostgres

import (
	"cmp"
	"errors"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/lendingapi/lending-go"
)

// Tables says where the tables are. [Migrate] and all that uses the tables need the same. A nil
// pointer and zero fields mean the defaults.
type Tables struct {
	// Schema is the schema of the tables. The default is the first of the search path, which must
	// be that of the role or of the database, not one that a session has set.
	Schema string
	// Prefix stands before the name of each table; "lending_". It has at most 32 lower-case
	// letters, digits and underscores, and begins with no digit.
	Prefix string
}

// NoPrefix is the Prefix of [Tables] whose names have none.
const NoPrefix = "-"

const maxName = 63 // bytes of an identifier: PostgreSQL cuts what is longer

var prefixes = regexp.MustCompile(`^([a-z_][a-z0-9_]{0,31})?$`)

// place is where the tables are.
type place struct{ schema, prefix string }

func argumentError(field, message string) error {
	return &lending.ArgumentError{Fields: []lending.FieldError{{Field: field, Message: message, Code: lending.CodeFormat}}}
}

func (t *Tables) place() (place, error) {
	if t == nil {
		t = new(Tables)
	}
	p := place{t.Schema, cmp.Or(t.Prefix, "lending_")}
	if t.Prefix == NoPrefix {
		p.prefix = ""
	}
	var schema, prefix error
	if len(p.schema) > maxName || strings.ContainsRune(p.schema, 0) || !utf8.ValidString(p.schema) {
		schema = argumentError("Schema", "must be UTF-8 of 1 to 63 bytes")
	}
	if !prefixes.MatchString(p.prefix) {
		prefix = argumentError("Prefix", "must be at most 32 lower-case letters, digits and underscores and begin with no digit")
	}
	return p, errors.Join(schema, prefix)
}

// table returns the name of a table as it stands in a statement.
func (p place) table(name string) string {
	if p.schema == "" {
		return pgx.Identifier{p.prefix + name}.Sanitize()
	}
	return pgx.Identifier{p.schema, p.prefix + name}.Sanitize()
}

var tableName = regexp.MustCompile(`\{[a-z_]+\}`)

// sql puts the names of tables into a statement, where they stand as {name}.
func (p place) sql(statement string) string {
	return tableName.ReplaceAllStringFunc(statement, func(name string) string { return p.table(name[1 : len(name)-1]) })
}
