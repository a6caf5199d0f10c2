package main

import (
	"bytes"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/test/golden"
	"github.com/lendingapi/lending-go/lendingtest"
)

// learn runs the program and returns its standard output and its standard error.
func learn(t *testing.T, args ...string) (structs, told string) {
	t.Helper()
	environment := map[string]string{
		"LENDING_USERNAME": lendingtest.AdministratorUsername,
		"LENDING_PASSWORD": lendingtest.AdministratorPassword,
	}
	var out, beside bytes.Buffer
	require.NoError(t, run(t.Context(), args, func(name string) string { return environment[name] }, &out, &beside))
	return out.String(), beside.String()
}

func TestOutput(t *testing.T) {
	structs, told := learn(t)
	compiles(t, structs)
	golden.Check(t, "testdata/output.golden", told)
}

// The journey in Node starts a sandbox with the shapes of a single response.
func TestStateForTheSandbox(t *testing.T) {
	state := filepath.Join(t.TempDir(), "shapes.json")
	learn(t, "-state", state, "../node/testdata/capture.jsonl")
	kept, err := os.ReadFile(state)
	require.NoError(t, err)
	golden.Check(t, "../node/testdata/shapes.json", string(kept))
}

// answer is a response of a service.
type answer struct{ route, body string }

// tapped runs the program against a service and records the responses.
func tapped(t *testing.T, args ...string) (structs, told string, answers []answer) {
	t.Helper()
	service := lendingtest.New()
	defer service.Close()
	customer := seed(service)
	var bodies []string
	tap := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorder := httptest.NewRecorder()
		service.ServeHTTP(recorder, r)
		bodies = append(bodies, recorder.Body.String())
		maps.Copy(w.Header(), recorder.Header())
		w.WriteHeader(recorder.Code)
		_, _ = w.Write(recorder.Body.Bytes())
	}))
	defer tap.Close()
	structs, told = learn(t, append(args, "-base-url", tap.URL, "-customer", customer, "-partner",
		lendingtest.PartnerID)...)
	for i, request := range service.Requests() {
		if request.Status == http.StatusOK {
			answers = append(answers, answer{request.Route, bodies[i]})
		}
	}
	return structs, told, answers
}

// The program walks over every read of the ledger.
func TestEveryReadIsCalled(t *testing.T) {
	_, _, answers := tapped(t)
	answered := map[string]bool{}
	for _, answer := range answers {
		answered[answer.route] = true
	}
	ledger, err := os.ReadFile("../../testdata/routes.tsv")
	require.NoError(t, err)
	for line := range strings.Lines(string(ledger)) {
		if column := strings.Split(line, "\t"); column[8] == "read" {
			assert.True(t, answered[column[1]+" "+column[2]], column[2])
		}
	}
}

// scalar finds values, but no names of fields.
var scalar = regexp.MustCompile(`(?:"[a-zA-Z]*(?:[sS]tatus|[tT]ype)": *"[^"]*"|` +
	`("(?:[^"\\]|\\.)*"|[0-9][0-9.]+)\s*(?:[,}\]]|$))`)

// No value of a response is in the structs, in the messages or in the saved state, but the words of a status or a type.
func TestNoValueIsShown(t *testing.T) {
	state := filepath.Join(t.TempDir(), "fields.json")
	structs, told, answers := tapped(t, "-state", state)
	kept, err := os.ReadFile(state)
	require.NoError(t, err)
	values := 0
	for _, answer := range answers {
		for _, found := range scalar.FindAllStringSubmatch(answer.body, -1) {
			value := strings.Trim(found[1], `"`)
			if len(value) < 3 || strings.Contains(answer.route, "application-status") {
				continue
			}
			values++
			for name, text := range map[string]string{"structs": structs, "told": told, "state": string(kept)} {
				if strings.Contains(text, value) {
					t.Errorf("%s: %s shows %q", answer.route, name, value)
				}
			}
		}
	}
	assert.Greater(t, values, 140)
}
