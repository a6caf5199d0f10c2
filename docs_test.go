package lending_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The first code block of the README is a part of the quickstart, which is run.
func TestReadmeShowsTheQuickstart(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(readme), "```go\n")
	require.True(t, found)
	block, _, found := strings.Cut(rest, "```")
	require.True(t, found)
	assert.Less(t, bytes.Index(readme, []byte(block)), bytes.Index(readme, []byte("```sh")), "the Go block comes first")

	var source strings.Builder
	files, err := filepath.Glob("examples/quickstart/*.go")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		source.Write(text)
	}
	for paragraph := range strings.SplitSeq(strings.TrimSpace(block), "\n\n") {
		if !strings.Contains(unindented(source.String()), unindented(paragraph)) {
			t.Errorf("not in the quickstart:\n%s", paragraph)
		}
	}

	for _, command := range []string{"go run ./examples/quickstart", "go test ./..."} {
		assert.Contains(t, string(readme), command)
	}
}

func unindented(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		line, _, directive := strings.Cut(strings.TrimLeft(line, " \t"), " //nolint")
		b.WriteString(line)
		if directive {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// The table in the package documentation names every route of the ledger.
func TestPackageDocumentationListsEveryRoute(t *testing.T) {
	source, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(source), "# Services and routes")
	require.True(t, found)
	rows := 0
	for name, r := range ledger(t) {
		service, method, _ := strings.Cut(name, ".")
		_, path, _ := strings.Cut(strings.TrimPrefix(r.path, "/api/"), "/")
		assert.Contains(t, table, "["+service+"Service."+method+"]: "+r.method+" "+path)
		rows++
	}
	assert.Equal(t, rows, strings.Count(table, "]: "))
}

// Every other code block, and those of the package documentation, are parts of tests.
func TestCodeBlocksAreCompiled(t *testing.T) {
	var source strings.Builder
	for _, pattern := range []string{"examples/quickstart/*.go", "example_*_test.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			source.Write(text)
		}
	}
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	var blocks []string
	for i, part := range strings.Split(string(readme), "```go\n") {
		block, _, _ := strings.Cut(part, "```")
		if i > 0 {
			blocks = append(blocks, strings.Split(strings.TrimSpace(block), "\n\n")...)
		}
	}
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	var block strings.Builder
	for line := range strings.Lines(string(doc)) {
		if code, ok := strings.CutPrefix(line, "//\t"); ok {
			block.WriteString(code)
		} else if block.Len() > 0 {
			blocks = append(blocks, block.String())
			block.Reset()
		}
	}
	assert.Greater(t, len(blocks), 8)
	for _, block := range blocks {
		if !strings.Contains(unindented(source.String()), unindented(block)) {
			t.Errorf("compiled nowhere:\n%s", block)
		}
	}
}
