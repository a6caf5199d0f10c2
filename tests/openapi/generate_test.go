package openapi_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	_ "github.com/oapi-codegen/runtime" // of the generated client
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const document = "../../lendingtest/openapi.yaml"

// Generators of other projects make a client of the description, and their code compiles.
func TestGeneratedClientsCompile(t *testing.T) {
	run := func(t *testing.T, program string, arguments ...string) {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), program, arguments...).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	t.Run("Go", func(t *testing.T) {
		client := filepath.Join(t.TempDir(), "client.go")
		run(t, "go", "tool", "oapi-codegen", "-generate", "types,client", "-package", "client", "-o", client, document)
		run(t, "go", "vet", client)
	})
	t.Run("TypeScript", func(t *testing.T) {
		programs := os.Getenv("LENDING_TEST_TYPESCRIPT")
		if programs == "" {
			t.Skip("make openapi-peer names the programs in LENDING_TEST_TYPESCRIPT")
		}
		types := filepath.Join(t.TempDir(), "types.ts")
		run(t, filepath.Join(programs, "openapi-typescript"), document, "-o", types)
		run(t, filepath.Join(programs, "tsc"), "--noEmit", "--strict", types)
	})
}

// TestDescriptionIsTakenByNSwag holds what NSwag 14.8, a generator of .NET, needs: callbacks in place, statuses
// by number, and no readOnly property in required.
func TestDescriptionIsTakenByNSwag(t *testing.T) {
	doc, all := load(t)
	for id, op := range all {
		for status := range op.Responses.Map() {
			assert.Regexp(t, `^(\d{3}|default)$`, status, id)
		}
		for name, callback := range op.Callbacks {
			assert.Empty(t, callback.Ref, "%s: %s", id, name)
		}
	}
	for name, schema := range doc.Components.Schemas {
		for field, property := range schema.Value.Properties {
			assert.False(t, property.Value.ReadOnly && slices.Contains(schema.Value.Required, field), "%s.%s", name, field)
		}
	}
}
