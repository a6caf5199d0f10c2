package main

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/test/golden"
)

func TestOutput(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), nil, &out, io.Discard))
	golden.Check(t, "testdata/output.golden", out.String())
}

func TestListenNeedsASecret(t *testing.T) {
	t.Setenv("LENDING_WEBHOOK_SECRET", "")
	require.ErrorContains(t, run(t.Context(), []string{"-listen", "127.0.0.1:0"}, io.Discard, io.Discard),
		"LENDING_WEBHOOK_SECRET")
}
