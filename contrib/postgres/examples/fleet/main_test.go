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

// The program starts itself, which is this one here.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "replica" {
		main()
		return
	}
	os.Exit(m.Run())
}

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
