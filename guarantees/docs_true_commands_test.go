package guarantees_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/test/catalog"
)

var (
	shellBlocks = regexp.MustCompile("(?s)\n```sh\n(.*?)\n```")
	shellSpans  = regexp.MustCompile("`((?:go|make) [^`]+)`")
	assignments = regexp.MustCompile(`^(?:[A-Z_]+=(?:'[^']*'|\S*)(?: +|$))+`)
	changesDir  = regexp.MustCompile(`(?:-C|^cd) (\S+)`)
	chosenTests = regexp.MustCompile(` -run[ =](?:'([^']+)'|(\S+))`)
	testNames   = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)
)

// Each command in a Markdown file runs in a clone: the program needs no installation of its own, the make target, the
// folder and the tests exist, and go doc gets a folder where the package belongs to another module.
func TestCommandsInDocumentsExist(t *testing.T) {
	if _, err := fs.Stat(repository, "Makefile"); err != nil {
		t.Skip("only the library is here, without the files that the documents speak of: ", err)
	}
	makefile, err := fs.ReadFile(repository, "Makefile")
	require.NoError(t, err)
	found := 0
	eachFile(t, func(file, text string) {
		if filepath.Ext(file) != ".md" {
			return
		}
		var commands []string
		for _, block := range shellBlocks.FindAllStringSubmatch(text, -1) {
			commands = append(commands, strings.Split(strings.ReplaceAll(block[1], "\\\n", " "), "\n")...)
		}
		for _, span := range shellSpans.FindAllStringSubmatch(text, -1) {
			commands = append(commands, span[1])
		}
		for _, line := range commands {
			dir := "."
			for command := range strings.SplitSeq(line, " && ") {
				found++
				if to := changesDir.FindStringSubmatch(command); to != nil {
					dir = path.Join(dir, to[1])
				}
				if problem := commandProblem(string(makefile), dir, command); problem != "" {
					t.Errorf("%s: %s: %s", file, line, problem)
				}
			}
		}
	})
	assert.Greater(t, found, 30)
}

// commandProblem returns the problem of a command in a folder of the repository, or "".
func commandProblem(makefile, dir, command string) string {
	command, _, _ = strings.Cut(strings.TrimSpace(command), " # ")
	words := strings.Fields(assignments.ReplaceAllString(command, ""))
	if len(words) == 0 || strings.HasPrefix(words[0], "#") {
		return ""
	}
	installed := []string{"apt-get", "cd", "curl", "docker", "export", "git", "go", "make", "mkdir", "python3"}
	switch program := words[0]; {
	case strings.HasPrefix(program, "./sandbox-") && strings.Contains(makefile, "\nrelease:"): // which makes it
	case !slices.Contains(installed, program):
		return program + " has to be installed"
	case program == "make":
		for _, word := range words[1:] {
			if !strings.Contains(word, "=") && !strings.Contains(makefile, "\n"+word+":") {
				return "there is no target " + word
			}
		}
	case program == "go" && slices.Contains(words, "doc") && strings.Contains(command, "/lending-go/contrib/"):
		return "go doc finds a package of another module by its folder alone"
	case program == "go" && slices.Contains(words, "test"):
		return testProblem(dir, command, words)
	}
	return ""
}

// testProblem says which folder or test of a go test command does not exist, or "".
func testProblem(dir, command string, words []string) string {
	var source strings.Builder
	for _, word := range words {
		if word != "." && !strings.HasPrefix(word, "./") {
			continue
		}
		folder, below := strings.CutSuffix(word, "/...")
		pattern := path.Join(dir, folder) + "/*_test.go"
		if below {
			pattern = path.Join(dir, folder) + "/*/*_test.go"
		}
		files, _ := fs.Glob(repository, path.Clean(pattern))
		if len(files) == 0 && word != "./..." {
			return "there are no tests in " + path.Join(dir, folder)
		}
		for _, file := range files {
			text, _ := fs.ReadFile(repository, file)
			source.Write(text)
		}
	}
	if run := chosenTests.FindStringSubmatch(command); len(run) > 0 && !strings.HasPrefix(run[1], "^$") {
		chosen := regexp.MustCompile(run[1] + run[2])
		for _, name := range testNames.FindAllStringSubmatch(source.String(), -1) {
			if chosen.MatchString(name[1]) {
				return ""
			}
		}
		return "there is no such test"
	}
	return ""
}

// A test that a Markdown file names as proof exists.
func TestProofsInDocumentsExist(t *testing.T) {
	named, exist := map[string]string{}, map[string]bool{} // the file that names the test
	proof := regexp.MustCompile("`(Test[A-Z]\\w+)`")
	eachFile(t, func(file, text string) {
		if strings.HasSuffix(file, "_test.go") {
			for _, name := range testNames.FindAllStringSubmatch(text, -1) {
				exist[name[1]] = true
			}
		} else if filepath.Ext(file) == ".md" {
			for _, name := range proof.FindAllStringSubmatch(text, -1) {
				named[name[1]] = file
			}
		}
	})
	if _, err := fs.Stat(repository, "contrib/redis"); err != nil {
		t.Skip("the modules under contrib are not here, which hold a part of the proofs: ", err)
	}
	assert.NotEmpty(t, named)
	for name, file := range named {
		assert.True(t, exist[name], "%s names %s", file, name)
	}
}

// The documentation and the sandbox run at the same time, each on a port of its own.
func TestNoTwoServersHaveOnePort(t *testing.T) {
	makefile, err := fs.ReadFile(repository, "Makefile")
	if err != nil {
		t.Skip("only the library is here: ", err)
	}
	sandbox, err := fs.ReadFile(repository, "cmd/lending-sandbox/main.go")
	require.NoError(t, err)
	port := regexp.MustCompile(`(?:localhost|127\.0\.0\.1):(\d+)`)
	documentation, own := port.FindSubmatch(makefile), port.FindSubmatch(sandbox)
	require.NotNil(t, documentation)
	require.NotNil(t, own)
	assert.NotEqual(t, string(own[1]), string(documentation[1]))
}

// The documents count the faults and the calls as the table of faults does.
func TestDocumentsCountTheFaults(t *testing.T) {
	text, err := fs.ReadFile(repository, "testdata/conformance.json")
	require.NoError(t, err)
	var table struct{ Faults []json.RawMessage }
	require.NoError(t, json.Unmarshal(text, &table))
	want := fmt.Sprintf("%d faults for each of %d calls", len(table.Faults), len(catalog.Calls)+len(catalog.Variants))
	for _, file := range []string{"README.md", "guarantees/README.md"} {
		t.Run(file, func(t *testing.T) {
			text, err := fs.ReadFile(repository, file)
			require.NoError(t, err)
			assert.Contains(t, strings.Join(strings.Fields(string(text)), " "), want,
				"%s does not say %q", file, want)
		})
	}
}
