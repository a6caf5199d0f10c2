package main

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/lendingapi/lending-go/internal/test/pgtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOutput(t *testing.T) {
	var out bytes.Buffer
	err := run(t.Context(), &out)
	if errors.Is(err, pgtest.ErrMissing) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	require.NoError(t, err)
	want, err := os.ReadFile("testdata/output.golden")
	require.NoError(t, err)
	assert.Equal(t, string(want), out.String())
}
