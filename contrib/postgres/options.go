package lendingpostgres

import (
	"errors"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/lendingapi/lending-go"
)

// Option says where the tables are: the same for [Migrate] and for all that uses them.
type Option func(*place)

// WithSchema puts the tables into a schema. Without it they are in the first of the search
// path, which must be that of the role or of the database, not one that a session has set.
func WithSchema(name string) Option {
	return func(p *place) {
		if name == "" || len(name) > maxName || strings.ContainsRune(name, 0) || !utf8.ValidString(name) {
			p.refuse("schema", "must be UTF-8 of 1 to 63 bytes")
		}
		p.schema = name
	}
}

// WithPrefix puts a prefix before the name of each table, "lending_" without it. It has at
// most 32 lower-case letters, digits and underscores, and begins with no digit.
func WithPrefix(prefix string) Option {
	return func(p *place) {
		if !prefixes.MatchString(prefix) {
			p.refuse("prefix", "must be at most 32 lower-case letters, digits and underscores and begin with no digit")
		}
		p.prefix = prefix
	}
}

// WithNamespace is the Namespace of a log whose intents
// are noted: see [IdempotencyStore.In]. Nothing else looks at it.
func WithNamespace(namespace string) Option { return func(p *place) { p.namespace = namespace } }

const maxName = 63 // bytes of an identifier: PostgreSQL cuts what is longer

var prefixes = regexp.MustCompile(`^([a-z_][a-z0-9_]{0,31})?$`)

// place is where the tables are.
type place struct {
	schema, prefix string
	namespace      string
	err            error // of a name that cannot be one
}

func (p *place) refuse(field, message string) {
	p.err = errors.Join(p.err, argumentError(field, message))
}

func argumentError(field, message string) error {
	return &lending.ArgumentError{Fields: []lending.FieldError{{Field: field, Message: message, Code: lending.CodeFormat}}}
}

func placed(opts []Option) place {
	p := place{prefix: "lending_"}
	for _, opt := range opts {
		opt(&p)
	}
	return p
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
