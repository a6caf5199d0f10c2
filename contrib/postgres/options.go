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

// Tables sets the schema and the names of the tables. Use the same value for [Migrate] and for
// all stores. A nil pointer and zero fields mean the defaults.
type Tables struct {
	// Schema is the schema of the tables. The default is the first schema of the search path.
	// Set the search path for the role or the database, not for a session.
	Schema string
	// Prefix begins the name of each table; "lending_". A prefix has at most 32 lower-case
	// letters, digits and underscores, and does not begin with a digit.
	Prefix string
}

// NoPrefix is the Prefix of [Tables] for names without a prefix.
const NoPrefix = "-"

const maxName = 63 // bytes; PostgreSQL cuts longer identifiers

var prefixes = regexp.MustCompile(`^([a-z_][a-z0-9_]{0,31})?$`)

// place is the schema and the prefix of the tables.
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

// table returns the quoted name of a table.
func (p place) table(name string) string {
	if p.schema == "" {
		return pgx.Identifier{p.prefix + name}.Sanitize()
	}
	return pgx.Identifier{p.schema, p.prefix + name}.Sanitize()
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
