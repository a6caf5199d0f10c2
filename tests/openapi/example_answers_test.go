package openapi_test

import (
	"maps"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEveryResponseHasAnExample makes the responses of a mock server from the description, and
// compares them with it: Prism refuses its own responses otherwise.
func TestEveryResponseHasAnExample(t *testing.T) {
	_, operations := load(t)
	answers := 0
	for id, op := range operations {
		for status, response := range op.Responses.Map() {
			content := response.Value.Content.Get("application/json")
			if content == nil {
				continue
			}
			example := sample(t, id+" "+status, content.Schema.Value)
			require.NoError(t,
				content.Schema.Value.VisitJSON(example, openapi3.VisitAsResponse(), openapi3.EnableFormatValidation()), "%s %s", id,
				status)
			answers++
		}
	}
	assert.Greater(t, answers, 2*len(operations), "two refusals each, and the successes")
}

// sample is the example of a schema, or the examples of its parts: {} for a record without
// published fields.
func sample(t *testing.T, at string, schema *openapi3.Schema) any {
	t.Helper()
	switch {
	case schema.Example != nil:
		return schema.Example
	case schema.Type.Is("array"):
		return []any{sample(t, at+"[]", schema.Items.Value)}
	case len(schema.AllOf) > 0 || schema.Type.Is("object"):
		members := map[string]any{}
		for _, part := range schema.AllOf {
			maps.Copy(members, sample(t, at, part.Value).(map[string]any))
		}
		for name, property := range schema.Properties {
			members[name] = sample(t, at+"."+name, property.Value)
		}
		return members
	}
	t.Errorf("%s has no example", at)
	return nil
}
