package jsonplan

import (
	"reflect"
	"strings"
	"sync"
)

// Records knows the callers' types for records. A record is of type Own, which has an
// UnmarshalJSON for a whole object, or embeds it.
type Records struct {
	Own reflect.Type

	targets sync.Map // by type: types do not change
}

// Target is a type for decoded records.
type Target struct {
	*Plan

	// Swallower is a type in the target that embeds a record, nil if there is none. The promoted
	// UnmarshalJSON of the record would fill no other field.
	Swallower reflect.Type

	keeper int
}

// Target returns the target for values of type t.
func (r *Records) Target(t reflect.Type) *Target {
	found, known := r.targets.Load(t)
	if !known {
		found, _ = r.targets.LoadOrStore(t, &Target{For(t), r.swallower(t, map[reflect.Type]bool{}), r.keeper(t)})
	}
	return found.(*Target) //nolint:forcetypeassert // nothing else is stored
}

// Keeper returns the field of the decoded v for the record itself: an exported field of type Own
// with the tag `json:"-"`. The result is invalid if there is none.
func (t *Target) Keeper(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if t.keeper < 0 || !v.IsValid() { // from null
		return reflect.Value{}
	}
	return v.Field(t.keeper)
}

func (r *Records) keeper(t reflect.Type) int {
	t = base(t)
	for i := 0; t.Kind() == reflect.Struct && i < t.NumField(); i++ {
		if f := t.Field(i); f.Type == r.Own && f.IsExported() && f.Tag.Get("json") == "-" {
			return i
		}
	}
	return -1
}

func (r *Records) swallower(t reflect.Type, seen map[reflect.Type]bool) reflect.Type {
	if seen[t] || strings.HasPrefix(t.PkgPath()+"/", r.Own.PkgPath()+"/") { // types of the library fill their fields
		return nil
	}
	seen[t] = true
	switch kind := t.Kind(); {
	case kind == reflect.Map || kind == reflect.Pointer || kind == reflect.Slice || kind == reflect.Array:
		return r.swallower(t.Elem(), seen)
	case kind != reflect.Struct || hasMethod(t) && !r.embeds(t):
		return nil
	case hasMethod(t):
		return t
	}
	for f := range t.Fields() { // the fields of an embedded struct are promoted
		if ignored := !f.IsExported() && !f.Anonymous || f.Tag.Get("json") == "-"; ignored {
			continue
		}
		if bad := r.swallower(f.Type, seen); bad != nil {
			return bad
		}
	}
	return nil
}

// embeds reports whether the struct t embeds a record, also inside an embedded struct.
func (r *Records) embeds(t reflect.Type) bool {
	for f := range t.Fields() {
		inner := base(f.Type)
		if f.Anonymous && (inner == r.Own || inner.Kind() == reflect.Struct && r.embeds(inner)) {
			return true
		}
	}
	return false
}
