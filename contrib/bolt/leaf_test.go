package lendingbolt_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The idempotency store depends only on the contract, and compiles without the client.
func TestIdempotencyStoreCompilesNoClient(t *testing.T) {
	const module = "github.com/lendingapi/lending-go"
	listed, err := exec.CommandContext(t.Context(), "go", "list", "-deps",
		"idempotency.go", "idempotency_list.go", "file.go").Output()
	require.NoError(t, err)
	require.Contains(t, string(listed), module+"/idempotency/store\n")
	for _, client := range []string{module, module + "/idempotency", module + "/webhook"} {
		require.NotContains(t, strings.Split(string(listed), "\n"), client)
	}
	vet := exec.CommandContext(t.Context(), "go", "vet", "idempotency.go", "idempotency_list.go", "file.go")
	require.NoError(t, vet.Run(), "they compile by themselves")
}
