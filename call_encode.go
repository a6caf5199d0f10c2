package lending

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go/internal/jsonsplit"
)

// encode writes what a request carries as the service reads it: of a request record
// the fields by their json tags, secrets revealed, the members of Extra, and what else
// the service sent if it is a record that was received. Request records and secrets
// are found in maps and slices too.
//
// encoding/json cannot do it, because there a [Secret] writes "[redacted]" and Extra
// nothing.
//
// What a caller hands over cannot end the process: what holds itself, what is nested
// without end and what panics in a method of its own is an [*ArgumentError]. What stands
// in several places is written as often, as encoding/json does, up to 64 MiB.
func encode(value any) ([]byte, error) { return new(encoder).encode(value) }

// encodeWithoutSecrets is encode, but with "[redacted]" for each secret.
func encodeWithoutSecrets(value any) ([]byte, error) { return (&encoder{redacts: true}).encode(value) }

func (e *encoder) encode(value any) (body []byte, err error) {
	defer func() {
		if recover() != nil { // the value of the panic may quote anything
			body, err = nil, e.refuse(CodeEncoding, "cannot be written as JSON: a method of its type panicked")
		}
	}()
	e.Grow(512)
	err = e.value(reflect.ValueOf(value))
	return e.Bytes(), err
}

// maxNesting is how deep a value may be nested: as deep as encoding/json reads.
const maxNesting = 10_000

// encoder writes one body.
type encoder struct {
	bytes.Buffer
	redacts bool

	path []step     // from the body to what is being written
	open []identity // the pointers, maps and slices on the way
}

// step leads to a member, or without a name to an element.
type step struct {
	name  string
	index int
}

// identity tells pointers, maps and slices apart.
type identity struct {
	at     uintptr
	length int
	of     reflect.Type
}

func identityOf(v reflect.Value) identity {
	id := identity{at: v.Pointer(), of: v.Type()}
	if v.Kind() == reflect.Slice {
		id.length = v.Len()
	}
	return id
}

// refuse returns the error of what is being written.
func (e *encoder) refuse(code, message string) error {
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
	return &ArgumentError{Fields: []FieldError{{field.String(), message, code}}}
}

// refuseWhole names where what is too deep or too large begins, which tells enough.
func (e *encoder) refuseWhole(message string) error {
	outer := encoder{path: e.path[:min(len(e.path), 4)]}
	return outer.refuse(CodeEncoding, message)
}

// at writes v, which stands one step further.
func (e *encoder) at(s step, v reflect.Value) error {
	switch {
	case len(e.path) == maxNesting:
		return e.refuseWhole("is nested too deep")
	case e.Len() > maxAnswer: // what stands in many places may never end
		return e.refuseWhole("is larger than 64 MiB as JSON")
	}
	e.path = append(e.path, s)
	err := e.value(v)
	e.path = e.path[:len(e.path)-1]
	return err
}

// enter writes v, a pointer, map or slice, unless v is being written already.
func (e *encoder) enter(v reflect.Value, write func(*encoder, reflect.Value) error) error {
	id := identityOf(v)
	switch {
	case slices.Contains(e.open, id):
		return e.refuse(CodeEncoding, "holds itself")
	case len(e.open) == maxNesting:
		return e.refuseWhole("is nested too deep")
	}
	e.open = append(e.open, id)
	err := write(e, v)
	e.open = e.open[:len(e.open)-1]
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
	switch x := v.Interface().(type) {
	case Secret:
		if e.redacts {
			return e.string(x.String())
		}
		return e.string(x.Reveal())
	case string:
		return e.string(x)
	case interface {
		IsZero() bool
		UUID() uuid.UUID
	}:
		if (pointer || v.Kind() != reflect.Pointer) && x.IsZero() {
			return e.refuse(CodeRequired, "must not be the zero UUID")
		}
	}
	switch {
	case isRequestRecord(v.Type()):
		return e.object(v)
	case pointer && isRequestRecord(v.Type().Elem()):
		return e.enter(v, (*encoder).pointer)
	}
	switch v.Interface().(type) {
	case json.Marshaler, encoding.TextMarshaler:
		return e.json(v.Interface())
	}
	switch {
	case pointer:
		return e.enter(v, (*encoder).pointer)
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8 && !v.IsNil():
		return e.enter(v, (*encoder).array)
	case v.Kind() == reflect.Map && v.Type().Key().Kind() == reflect.String && !v.IsNil():
		return e.enter(v, (*encoder).members)
	}
	return e.json(v.Interface())
}

func (e *encoder) pointer(v reflect.Value) error { return e.value(v.Elem()) }

// isRequestRecord reports whether t is a record of this package that is sent: it has
// room for Extra.
func isRequestRecord(t reflect.Type) bool {
	if t.Kind() != reflect.Struct || t.PkgPath() != recordType.PkgPath() {
		return false
	}
	extra, ok := t.FieldByName("Extra")
	return ok && extra.Tag.Get("json") == "-"
}

func (e *encoder) members(v reflect.Value) error {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	e.WriteByte('{')
	for _, key := range keys {
		if !utf8.ValidString(key.String()) {
			return e.refuse(CodeEncoding, notUTF8)
		}
		e.name(key.String())
		if err := e.at(step{name: key.String()}, v.MapIndex(key)); err != nil {
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
	var received json.RawMessage
	if isRecord(v.Type()) {
		received = v.Field(0).Interface().(Record).Raw()
	}
	e.WriteByte('{')
	for i := range v.NumField() {
		name, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		names = append(names, name)
		if strings.Contains(options, "omit") && isAbsent(v.Field(i), received) {
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
	for name, value := range jsonsplit.Members(received) {
		if indexFold(names, string(name)) < 0 {
			e.name(string(name))
			e.Write(received[value.From:value.To])
		}
	}
	e.WriteByte('}')
	return nil
}

// isAbsent reports whether a field with the option omitzero or omitempty is left out.
// In a record that was received false is a value: it may have been true.
func isAbsent(v reflect.Value, received json.RawMessage) bool {
	return v.IsZero() && (received == nil || v.Kind() != reflect.Bool) || v.Kind() == reflect.Map && v.Len() == 0
}

// extra writes the members of Extra into the open object and adds their names to taken.
// A name that is taken in any case is refused: the service reads both as one field.
func (e *encoder) extra(extra reflect.Value, taken []string) ([]string, error) {
	begin := e.Len()
	if err := e.at(step{name: "Extra"}, extra); err != nil {
		return nil, err
	}
	text := bytes.Clone(e.Bytes()[begin:])
	e.Truncate(begin)
	e.path = append(e.path, step{name: "Extra"})
	if text[0] != '{' && string(text) != "null" { // null is a nil map
		return nil, e.refuse(CodeEncoding, "must marshal to a JSON object")
	}
	for name, value := range jsonsplit.Members(text) {
		if i := indexFold(taken, string(name)); i >= 0 {
			e.path = append(e.path, step{name: taken[i]})
			return nil, e.refuse(CodeConflict, "stands in a field of its own")
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
	_ = e.string(name) // whoever calls has looked at it
	e.WriteByte(':')
}

// string leaves to encoding/json only the strings that need more than quotes.
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

// json leaves v to encoding/json, unless that would change it without saying so.
func (e *encoder) json(v any) error {
	if flaw := flawOf(reflect.ValueOf(v)); flaw != "" {
		return e.refuse(CodeEncoding, flaw)
	}
	text, err := json.Marshal(v) // finds what holds itself
	if err != nil {
		return e.refuse(CodeEncoding, "cannot be written as JSON")
	}
	e.Write(text)
	return nil
}

const notUTF8 = "must be valid UTF-8"

// flawOf says what in v encoding/json would change: a Secret, of which it writes
// "[redacted]", a request record, of which it leaves out Extra, and bytes that are not
// UTF-8. And it says what is nested so deep that encoding/json could use up the stack.
//
// It looks at everything once, and keeps no stack: v may hold itself.
func flawOf(v reflect.Value) string {
	type part struct {
		reflect.Value
		depth int
	}
	var seen map[identity]bool
	for parts := []part{{v, 0}}; len(parts) > 0; {
		p := parts[len(parts)-1]
		parts = parts[:len(parts)-1]
		if !p.IsValid() {
			continue
		}
		switch flaw := flawAt(p.Value); {
		case flaw != "":
			return flaw
		case p.depth > maxNesting:
			return "is nested too deep"
		case marshals(p.Value):
			p.depth = math.MinInt // what it holds need not be what it writes
		}
		if kind := p.Kind(); (kind == reflect.Pointer || kind == reflect.Map || kind == reflect.Slice) && !p.IsNil() {
			id := identityOf(p.Value)
			if seen[id] {
				continue
			}
			if seen == nil {
				seen = map[identity]bool{}
			}
			seen[id] = true
		}
		for inner := range partsOf(p.Value) {
			parts = append(parts, part{inner, p.depth + 1})
		}
	}
	return ""
}

// flawAt is the flaw of v itself, not of its parts.
func flawAt(v reflect.Value) string {
	switch {
	case v.Type() == reflect.TypeFor[Secret]():
		return "holds a Secret in a struct, which would be sent as " + redacted + ": reveal it, or use a map"
	case isRequestRecord(v.Type()):
		return "holds a request record in a struct, which would lose its Extra: use a map"
	case v.Kind() == reflect.String && !utf8.ValidString(v.String()):
		return notUTF8
	}
	return ""
}

// marshals reports whether v has a method that encoding/json leaves the writing to.
func marshals(v reflect.Value) bool {
	t := v.Type()
	if v.CanAddr() {
		t = reflect.PointerTo(t)
	}
	return t.Implements(reflect.TypeFor[json.Marshaler]()) || t.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}

// partsOf yields what encoding/json may write of v.
func partsOf(v reflect.Value) iter.Seq[reflect.Value] {
	return func(yield func(reflect.Value) bool) {
		switch kind := v.Kind(); {
		case kind == reflect.Pointer || kind == reflect.Interface:
			yield(v.Elem())
		case kind == reflect.Struct:
			for i := range v.NumField() {
				field := v.Type().Field(i) // embedded, its own fields may be exported
				if (field.IsExported() || field.Anonymous) && field.Tag.Get("json") != "-" && !yield(v.Field(i)) {
					return
				}
			}
		case kind == reflect.Map:
			for entry := v.MapRange(); entry.Next(); {
				if !yield(entry.Key()) || !yield(entry.Value()) {
					return
				}
			}
		case (kind == reflect.Slice || kind == reflect.Array) && v.Type().Elem().Kind() > reflect.Complex128: // no numbers
			for i := range v.Len() {
				if !yield(v.Index(i)) {
					return
				}
			}
		}
	}
}
