package openapi_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	_ "github.com/oapi-codegen/runtime" // of the generated client
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
