package idempotency

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// form is a form of the response of a route, as the method decodes it, in words for a person.
type form string

const (
	aBoolean  form = "a boolean"
	aUUID     form = "a UUID"
	anObject  form = "an object"
	objects   form = "an array of objects"
	withUUID  form = "a UUID, or an object with a UUID"
	aCustomer form = "an object whose id is a UUID"
	customers form = "an array of objects whose id is a UUID"
	nothing   form = "nothing, or true"
)

var fits = map[form]func(answer []byte) bool{
	aBoolean:  decodes[bool],
	aUUID:     decodesID,
	anObject:  func(answer []byte) bool { return answer[0] == '{' },
	objects:   decodes[[]map[string]any],
	withUUID:  func(answer []byte) bool { return len(uuidsIn(string(answer))) > 0 },
	aCustomer: isCustomer,
	customers: isCustomers,
	nothing:   func(answer []byte) bool { return string(answer) == "true" },
}

func decodes[T any](answer []byte) bool {
	return json.Unmarshal(answer, new(T)) == nil && string(answer) != "null"
}

func decodesID(answer []byte) bool {
	var id uuid.UUID
	return json.Unmarshal(answer, &id) == nil && id != uuid.Nil
}

func isCustomer(answer []byte) bool {
	var customer struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(answer, &customer) != nil || len(customer.ID) != len(uuid.Nil.String()) {
		return false
	}
	id, err := uuid.Parse(customer.ID)
	return err == nil && id != uuid.Nil
}

func isCustomers(answer []byte) bool {
	var all []json.RawMessage
	isOther := func(one json.RawMessage) bool { return !isCustomer(one) }
	return json.Unmarshal(answer, &all) == nil && len(all) > 0 && !slices.ContainsFunc(all, isOther)
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

// elements returns the records of answer: the elements of an array, or answer itself.
func elements(answer []byte) (records []json.RawMessage) {
	if json.Unmarshal(answer, &records) != nil {
		return []json.RawMessage{answer}
	}
	return records
}

const mediaJSON = "application/json"

var quotedUUID = regexp.MustCompile(`"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"`)

// uuidsIn returns the JSON strings of text that are UUIDs.
func uuidsIn(text string) (ids []string) {
	for _, quoted := range quotedUUID.FindAllString(text, -1) {
		ids = append(ids, strings.ToLower(strings.Trim(quoted, `"`)))
	}
	return ids
}
