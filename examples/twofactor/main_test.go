package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/test/golden"
)

func TestOutput(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), nil, &out, os.Stderr))
	golden.Check(t, "testdata/output.golden", out.String())
}

func TestFlags(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"-h"}, &out, &out))
	require.ErrorContains(t, run(t.Context(), []string{"-unknown"}, &out, &out), "not defined: -unknown")
}
