package lendingtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/lendingapi/lending-go/lendingtest/internal/plain"
)

// Patch changes the fields of each object in a response, like a new version of the service. Use
// a Patch to test whether a client notices missing or changed fields.
type Patch struct {
	Add    map[string]any    `json:"add,omitempty"`    // in the outermost object, or in each object of a list
	Drop   []string          `json:"drop,omitempty"`   // names of fields
	Rename map[string]string `json:"rename,omitempty"` // old name to new name
	// Retype maps a name to the new type of its value: "string", "number", "boolean", "object",
	// "list" or "null".
	Retype map[string]string `json:"retype,omitempty"`
}

var retyped = []string{"string", "number", "boolean", "object", "list", "null"}

// check rejects a type that no value can become.
func (p *Patch) check() error {
	if p == nil {
		return nil
	}
	for name, to := range p.Retype {
		if !slices.Contains(retyped, to) {
			return fmt.Errorf("patch: %s cannot become %q, but one of %q", name, to, retyped)
		}
	}
	return nil
}

// apply changes the body of a response.
func (p *Patch) apply(body []byte) []byte {
	if p == nil || len(body) == 0 {
		return body
	}
	return plain.JSON(p.patched(plain.Decode(body), true))
}

func (p *Patch) patched(v any, outermost bool) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = p.patched(v[i], outermost)
		}
	case map[string]any:
		return p.object(v, outermost)
	}
	return v
}

func (p *Patch) object(own map[string]any, outermost bool) map[string]any {
	fields := map[string]any{}
	for name, value := range own {
		if slices.Contains(p.Drop, name) {
			continue
		}
		value = p.patched(value, false)
		if to := p.Retype[name]; to != "" {
			value = retype(value, to)
		}
		if other, ok := p.Rename[name]; ok {
			name = other
		}
		fields[name] = value
	}
	if outermost {
		maps.Copy(fields, p.Add)
	}
	return fields
}

// retype converts a value and keeps as much of its data as possible.
func retype(v any, to string) any {
	switch to {
	case "string":
		if text, ok := v.(string); ok {
			return text
		}
		return string(plain.JSON(v))
	case "number":
		text, _ := v.(string)
		if _, err := strconv.ParseFloat(text, 64); err == nil && json.Valid([]byte(text)) {
			return json.Number(text)
		}
		return 1
	case "boolean":
		return true
	case "object":
		return map[string]any{"value": v}
	case "list":
		return []any{v}
	}
	return nil
}
