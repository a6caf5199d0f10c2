package idempotency

import (
	"bytes"
	"encoding/json"

	"github.com/google/uuid"
)

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
		for _, element := range value {
			if !prune(element) {
				return false
			}
		}
		return len(value) > 0
	}
	return false
}
