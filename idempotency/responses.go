package idempotency

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go"
)

// form is a form of the response of a route, as the method decodes it.
type form struct {
	name string
	fits func(answer []byte) bool
}

var (
	aBoolean  = form{"a boolean", decodes[bool]}
	aUUID     = form{"a UUID", decodesID}
	anObject  = form{"an object", func(answer []byte) bool { return answer[0] == '{' }}
	objects   = form{"an array of objects", decodes[[]map[string]any]}
	withUUID  = form{"a UUID, or an object with a UUID", func(answer []byte) bool { return len(uuidsIn(string(answer))) > 0 }}
	aCustomer = form{"an object whose id is a UUID", isCustomer}
	customers = form{"an array of objects whose id is a UUID", isCustomers}
	nothing   = form{"nothing, or true", func(answer []byte) bool { return bytes.Equal(answer, []byte("true")) }}
)

func decodes[T any](answer []byte) bool {
	return json.Unmarshal(answer, new(T)) == nil && string(answer) != "null"
}

func decodesID(answer []byte) bool {
	var id uuid.UUID
	return json.Unmarshal(answer, &id) == nil && id != uuid.Nil
}

func isCustomer(answer []byte) bool {
	var customer lending.UserResponse
	return json.Unmarshal(answer, &customer) == nil && !customer.ID.IsZero()
}

func isCustomers(answer []byte) bool {
	var all []json.RawMessage
	isOther := func(one json.RawMessage) bool { return !isCustomer(one) }
	return json.Unmarshal(answer, &all) == nil && len(all) > 0 && !slices.ContainsFunc(all, isOther)
}

// withoutPersonalData keeps a boolean, a UUID, and the ids of a record if a later step needs
// only the ids.
func (r response) withoutPersonalData(route string) response {
	if isScalar(r.Body) {
		return r
	}
	if ids := onlyIDs(r.Body); ids != nil && rowOf(route).ids {
		return response{Status: r.Status, Media: mediaJSON, Body: ids, Rebuilt: true}
	}
	return response{}
}

// isScalar reports whether answer is a boolean or a UUID.
func isScalar(answer []byte) bool {
	text := bytes.TrimSpace(answer)
	if string(text) == "true" || string(text) == "false" {
		return true
	}
	_, err := uuid.ParseBytes(bytes.Trim(text, `"`)) // text/plain has no quotes
	return err == nil
}

// onlyIDs returns the UUIDs of answer under their names, or nil if answer has none.
func onlyIDs(answer []byte) []byte {
	var value any
	if json.Unmarshal(answer, &value) != nil || !prune(value) {
		return nil
	}
	text, _ := json.Marshal(value) //nolint:errchkjson // value was decoded from JSON
	return text
}

// prune removes every member except UUIDs from an object, or from the objects of a list. It
// reports whether each object still has a UUID.
func prune(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			if text, ok := member.(string); !(ok && uuid.Validate(text) == nil) && !prune(member) {
				delete(value, name)
			}
		}
		return len(value) > 0
	case []any:
		return len(value) > 0 && !slices.ContainsFunc(value, func(element any) bool { return !prune(element) })
	}
	return false
}
