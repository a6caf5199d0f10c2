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

// onlyIDs returns answer without all that is no UUID; nil if there is none.
func onlyIDs(answer []byte) []byte {
	var value any
	if json.Unmarshal(answer, &value) != nil || !prune(value) {
		return nil
	}
	text, _ := json.Marshal(value) //nolint:errchkjson // it was JSON before
	return text
}

// prune drops what is no UUID from an object, or from the objects of a list, and reports whether
// each still has one.
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
