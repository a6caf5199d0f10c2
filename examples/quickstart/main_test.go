package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/test/golden"
)

func TestOutput(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out))
	golden.Check(t, "testdata/output.golden", out.String())
}
