package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/test/golden"
)

func TestOutput(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), nil, &out, &out))
	golden.Check(t, "testdata/output.golden", out.String())
}

func TestFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mine.pdf")
	require.NoError(t, os.WriteFile(path, make([]byte, 1000), 0o600))
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{path}, &out, &out))
	assert.Contains(t, out.String(), "accepted.")
	assert.ErrorIs(t, run(t.Context(), []string{path + "x"}, &out, &out), os.ErrNotExist)
}

func TestBar(t *testing.T) {
	var out bytes.Buffer
	show := bar(&out, "f")
	show(50, 100)
	show(50, 100)
	show(100, 100)
	assert.Equal(t, "\rf: [####################                    ]  50 %\rf: "+
		"[########################################] 100 %\n", out.String())
	out.Reset()
	bar(&out, "f")(2048, 0)
	assert.Equal(t, "\rf: 2 KiB", out.String())
	file, err := os.Create(filepath.Join(t.TempDir(), "f"))
	require.NoError(t, err)
	defer file.Close()
	assert.False(t, isTerminal(file))
}
