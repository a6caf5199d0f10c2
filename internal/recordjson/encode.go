package recordjson

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go/internal/jsonsplit"
)

// Error names the part of a value without JSON.
type Error struct {
	Path    string
	Kind    Kind
	Message string
}

// Kind is the kind of an [Error].
type Kind int

// The kinds of errors.
const (
	Unfit    Kind = iota // no JSON exists
	Missing              // zero but required
	Conflict             // given in two places
)

// Error names the path to the value.
func (e *Error) Error() string { return e.Path + ": " + e.Message }

// Value returns the JSON of v for the service, with secrets revealed and the members of Extra,
// also of records in maps and slices. encoding/json would write a placeholder for a secret and
// nothing for Extra.
//
// No value can end the process: endless nesting and a panic of a method are an [Error].
// A value in several places is written several times, as in encoding/json, up to MaxSize.
func (t *Types) Value(v any) ([]byte, error) { return t.encode(v, revealed) }

// WithoutSecrets returns the JSON of v with "[redacted]" for each secret.
func (t *Types) WithoutSecrets(v any) ([]byte, error) { return t.encode(v, redacted) }

// Compared returns the JSON of v for a fingerprint. Secrets are revealed in Extra alone, because two payees can differ in
// nothing but a secret account number; passwords and codes differ from try to try, and are "[redacted]" there too.
func (t *Types) Compared(v any) ([]byte, error) { return t.encode(v, compared) }

// Fields returns the JSON of the record v from its fields, even if v has a method for
// encoding/json.
func (t *Types) Fields(v any) ([]byte, error) {
	e := encoder{Types: t}
	err := e.object(reflect.ValueOf(v))
	return e.Bytes(), err
}

// secrets says how secrets are written.
type secrets int

const (
	revealed secrets = iota
	redacted
	compared
)

func (t *Types) encode(value any, how secrets) (body []byte, err error) {
	e := encoder{Types: t, secrets: how}
	defer func() {
		if recover() != nil { // the value of the panic may quote anything
			body, err = nil, e.refuse(Unfit, "cannot be written as JSON: a method of its type panicked")
		}
	}()
	e.Grow(512)
	err = e.value(reflect.ValueOf(value))
	return e.Bytes(), err
}

// maxNesting is the limit on nesting, as in encoding/json.
const maxNesting = 10_000

const tooDeep = "is nested too deep, or holds itself"

type encoder struct {
	bytes.Buffer
	*Types
	secrets

	path     []step // from the body to the current value
	pointers int    // on the way to the current value
}

// step leads to a member, or without a name to an element.
type step struct {
	name  string
	index int
}

func (e *encoder) refuse(kind Kind, message string) error {
	var field strings.Builder
	for _, s := range e.path {
		switch {
		case s.name == "":
			fmt.Fprintf(&field, "[%d]", s.index)
		case field.Len() > 0:
			field.WriteString("." + s.name)
		default:
			field.WriteString(s.name)
		}
	}
	return &Error{field.String(), kind, message}
}

// refuseWhole returns an error for the outermost member around a value too deep or too large.
func (e *encoder) refuseWhole(message string) error {
	outer := encoder{path: e.path[:min(len(e.path), 4)]}
	return outer.refuse(Unfit, message)
}

// at writes v, a step further.
func (e *encoder) at(s step, v reflect.Value) error {
	switch {
	case len(e.path) == maxNesting:
		return e.refuseWhole(tooDeep)
	case e.Len() > e.MaxSize: // values in many places may never end
		return e.refuseWhole(fmt.Sprintf("is larger than %d MiB as JSON", e.MaxSize>>20))
	}
	e.path = append(e.path, s)
	err := e.value(v)
	e.path = e.path[:len(e.path)-1]
	return err
}

func (e *encoder) value(v reflect.Value) error {
	if v.IsValid() && v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if !v.IsValid() {
		e.WriteString("null")
		return nil
	}
	pointer := v.Kind() == reflect.Pointer && !v.IsNil()
	if v.Type() == e.Secret {
		return e.secret(v)
	}
	switch x := v.Interface().(type) {
	case string:
		return e.string(x)
	case interface {
		IsZero() bool
		UUID() uuid.UUID
	}:
		if (pointer || v.Kind() != reflect.Pointer) && x.IsZero() {
			return e.refuse(Missing, "must not be the zero UUID")
		}
	}
	switch {
	case e.isRequest(v.Type()):
		return e.object(v)
	case pointer && e.isRequest(v.Type().Elem()):
		return e.pointer(v)
	}
	switch v.Interface().(type) {
	case json.Marshaler, encoding.TextMarshaler:
		return e.json(v.Interface())
	}
	switch {
	case pointer:
		return e.pointer(v)
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8 && !v.IsNil():
		return e.array(v)
	case v.Kind() == reflect.Map && v.Type().Key().Kind() == reflect.String && !v.IsNil():
		return e.members(v)
	}
	return e.json(v.Interface())
}

func (e *encoder) secret(v reflect.Value) error {
	x := v.Interface().(interface{ Reveal() string }) //nolint:forcetypeassert // see Types
	inExtra := slices.Contains(e.path, step{name: "Extra"})
	if e.secrets == revealed || e.secrets == compared && inExtra && !e.isOneTime() {
		return e.string(x.Reveal())
	}
	return e.string("[redacted]") // an empty one too: it makes no other request
}

// isOneTime reports whether the member of the current value is a password or a code by its name.
func (e *encoder) isOneTime() bool {
	for _, s := range slices.Backward(e.path) {
		if name := fold(s.name); name != "" {
			endsIn := func(word string) bool { return strings.HasSuffix(name, word) }
			return slices.ContainsFunc([]string{"password", "code", "otp", "pin", "token"}, endsIn)
		}
	}
	return false
}

func (e *encoder) pointer(v reflect.Value) error {
	if e.pointers == maxNesting {
		return e.refuseWhole(tooDeep)
	}
	e.pointers++
	err := e.value(v.Elem())
	e.pointers--
	return err
}

func (t *Types) isRequest(of reflect.Type) bool {
	if of.Kind() != reflect.Struct || of.PkgPath() != t.Record.PkgPath() {
		return false
	}
	extra, ok := of.FieldByName("Extra")
	return ok && extra.Tag.Get("json") == "-"
}

func (e *encoder) members(v reflect.Value) error {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	e.WriteByte('{')
	seen := make(map[string]bool, len(keys))
	for _, key := range keys {
		name := key.String()
		if !utf8.ValidString(name) {
			return e.refuse(Unfit, notUTF8)
		}
		if err := e.once(seen, name); err != nil {
			return err
		}
		e.name(name)
		if err := e.at(step{name: name}, v.MapIndex(key)); err != nil {
			return err
		}
	}
	e.WriteByte('}')
	return nil
}

func (e *encoder) array(v reflect.Value) error {
	e.WriteByte('[')
	for i := range v.Len() {
		if i > 0 {
			e.WriteByte(',')
		}
		if err := e.at(step{index: i}, v.Index(i)); err != nil {
			return err
		}
	}
	e.WriteByte(']')
	return nil
}

func (e *encoder) object(v reflect.Value) error {
	names := make([]string, 0, v.NumField())
	received := e.received(v)
	e.WriteByte('{')
	for i := range v.NumField() {
		name, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		names = append(names, name)
		if strings.Contains(options, "omit") && isOmitted(v.Field(i), received) {
			continue
		}
		e.name(name)
		if err := e.at(step{name: name}, v.Field(i)); err != nil {
			return err
		}
	}
	if extra := v.FieldByName("Extra"); extra.IsValid() && !extra.IsNil() {
		var err error
		if names, err = e.extra(extra, names); err != nil {
			return err
		}
	}
	if err := e.unrepeated(received); err != nil {
		return err
	}
	for name, value := range jsonsplit.Members(received) {
		if indexFold(names, string(name)) < 0 {
			e.name(string(name))
			e.Write(received[value.From:value.To])
		}
	}
	e.WriteByte('}')
	return nil
}

// received returns the JSON of a received record, nil for other records.
func (e *encoder) received(v reflect.Value) json.RawMessage {
	if !e.IsRecord(v.Type()) {
		return nil
	}
	return v.Field(0).Interface().(interface{ Raw() json.RawMessage }).Raw() //nolint:forcetypeassert // see Types
}

// isOmitted reports whether a field with the option omitzero or omitempty is left out. In a
// received record false is a value: it may have been true.
func isOmitted(v reflect.Value, received json.RawMessage) bool {
	return v.IsZero() && (received == nil || v.Kind() != reflect.Bool) || v.Kind() == reflect.Map && v.Len() == 0
}

// extra writes the members of Extra into the open object and adds their names to taken. A name
// taken in any case is an error: for the service both are the same field.
func (e *encoder) extra(extra reflect.Value, taken []string) ([]string, error) {
	begin := e.Len()
	if err := e.at(step{name: "Extra"}, extra); err != nil {
		return nil, err
	}
	text := bytes.Clone(e.Bytes()[begin:])
	e.Truncate(begin)
	e.path = append(e.path, step{name: "Extra"})
	if text[0] != '{' && string(text) != "null" { // null is a nil map
		return nil, e.refuse(Unfit, "must marshal to a JSON object")
	}
	for name, value := range jsonsplit.Members(text) {
		if i := indexFold(taken, string(name)); i >= 0 {
			e.path = append(e.path, step{name: taken[i]})
			return nil, e.refuse(Conflict, "stands in a field of its own")
		}
		taken = append(taken, string(name))
		e.name(string(name))
		e.Write(text[value.From:value.To])
	}
	e.path = e.path[:len(e.path)-1]
	return taken, nil
}

func indexFold(names []string, name string) int {
	return slices.IndexFunc(names, func(other string) bool { return strings.EqualFold(other, name) })
}

func (e *encoder) name(name string) {
	if last := e.Bytes()[e.Len()-1]; last != '{' {
		e.WriteByte(',')
	}
	_ = e.string(name) // the caller has checked the name
	e.WriteByte(':')
}

// string leaves strings with escapes to encoding/json.
func (e *encoder) string(s string) error {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return e.json(s)
		}
	}
	e.WriteByte('"')
	e.WriteString(s)
	e.WriteByte('"')
	return nil
}

// json leaves v to encoding/json, unless encoding/json would change v silently.
func (e *encoder) json(v any) error {
	if flaw := e.flawOf(reflect.ValueOf(v)); flaw != "" {
		return e.refuse(Unfit, flaw)
	}
	text, err := json.Marshal(v) // detects cycles
	if err != nil {
		return e.refuse(Unfit, "cannot be written as JSON")
	}
	e.Write(text)
	return e.unrepeated(text)
}

// maxRead is the nesting up to which ASP.NET reads a body.
const maxRead = 64

// unrepeated returns an error for a name that occurs twice in an object of text. ASP.NET takes the last of them.
func (e *encoder) unrepeated(text []byte) error {
	if len(e.path) > maxRead {
		return nil
	}
	i, seen := 0, map[string]bool(nil)
	for name, at := range jsonsplit.Members(text) {
		if seen == nil {
			seen = map[string]bool{}
		}
		if err := e.once(seen, string(name)); err != nil {
			return err
		}
		e.path = append(e.path, step{name: string(name)})
		if err := e.unrepeated(text[at.From:at.To]); err != nil {
			return err
		}
		e.path = e.path[:len(e.path)-1]
	}
	for at := range jsonsplit.Elements(text) {
		e.path = append(e.path, step{index: i})
		if err := e.unrepeated(text[at.From:at.To]); err != nil {
			return err
		}
		e.path = e.path[:len(e.path)-1]
		i++
	}
	return nil
}

// once adds name to the names of an object, or returns an error. For the service names that differ in case alone are the same.
func (e *encoder) once(seen map[string]bool, name string) error {
	if folded := fold(name); !seen[folded] {
		seen[folded] = true
		return nil
	}
	e.path = append(e.path, step{name: name})
	return e.refuse(Conflict, "occurs twice, perhaps with another case")
}

// fold returns the same text for texts that strings.EqualFold takes for equal.
func fold(name string) string { return strings.ToLower(strings.ToUpper(name)) }
