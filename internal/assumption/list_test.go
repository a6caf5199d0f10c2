package assumption

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/dev/assumptions.md anew")

const pageHead = `# Assumptions about the service

The interface does not publish everything. This project assumes the rest, and nobody here has seen the real service.
[lending-probe](../first-hour.md) measures the assumptions at a service. A test generates this page from
internal/assumption/list.txt: do not edit it.

| level | the probe |
|---|---|
| look | only reads |
| walk | creates a marked customer and an application |
| events | receives webhooks during the walk |
| watch | follows your program with probe.Watch while it withdraws money |
| ask | cannot measure the assumption: ask the owner of the service |
`

// TestAssumptionsAreDocumented compares docs/dev/assumptions.md with the list.
func TestAssumptionsAreDocumented(t *testing.T) {
	const path = "../../docs/dev/assumptions.md"
	page := pageHead
	for _, level := range []Level{Look, Walk, Events, Watch, Ask} {
		page += "\n## " + strings.ToUpper(string(level[:1])) + string(level[1:]) + "\n"
		for _, a := range All() {
			if a.Level != level {
				continue
			}
			page += fmt.Sprintf("\n### %s\n\n%s\n\n", a.Name, a.What)
			how := cmp.Or(map[bool]string{true: "not measured"}[level == Ask], "measured")
			for _, line := range [][2]string{
				{"used in", a.Where},
				{"if false", a.IfFalse},
				{how, a.Measured},
				{"then set", a.Set},
				{"checks", codes(a.Checks)},
				{"refusals of lendingtest", codes(a.Codes)},
			} {
				if line[1] != "" {
					page += fmt.Sprintf("- %s: %s\n", line[0], line[1])
				}
			}
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(page), 0o600))
	}
	written, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, page, string(written),
		"to write it anew: go test ./internal/assumption -run AreDocumented -update")
}

func codes(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "`" + strings.Join(names, "`, `") + "`"
}

func TestEachAssumptionIsComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range All() {
		assert.False(t, seen[a.Name], "%s stands twice in the list", a.Name)
		seen[a.Name] = true
		for _, text := range []string{a.Name, a.What, a.Where, a.IfFalse, string(a.Level), a.Measured, a.Set} {
			assert.NotEmpty(t, text, a.Name)
		}
	}
}

// A check that decides without a person relies on the service's behaviour.
func TestEachCheckHasItsAssumption(t *testing.T) {
	rows := table(t, "../../docs/dev/checks.md")
	mutations := map[string]bool{}
	for _, row := range rows {
		mutation, loss, assumed := strings.Trim(row[0], "`"), row[2], row[3]
		mutations[mutation] = true
		relies := false
		for _, a := range All() {
			relies = relies || slices.Contains(a.Checks, mutation) &&
				(assumed == "-" || strings.EqualFold(assumed+".", a.What))
		}
		decides := !strings.HasPrefix(loss, "a person decides") && loss != "takes no key"
		assert.Equal(t, decides, relies, "%s: add the mutation to an assumption in list.txt", mutation)
	}
	for _, a := range All() {
		for _, mutation := range a.Checks {
			assert.True(t, mutations[mutation], "%s: docs/dev/checks.md has no mutation %s", a.Name, mutation)
		}
	}
}

// table returns the rows of the table in a page.
func table(t *testing.T, path string) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "| `") {
			rows = append(rows, strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | "))
		}
	}
	require.NotEmpty(t, rows)
	return rows
}

// published are the codes of those refusals in lendingtest that the interface states. The words of the
// codes are assumed in any case: see the assumption "codes".
const published = `
	BodyRequired DuplicateZipCode EmptyDocument FileTooLarge Forbidden InvalidBoolean InvalidEmail InvalidJson
	InvalidMobileNumber InvalidSignature InvalidType InvalidYears MaximumLength NotFound OfferExpired OneProperty
	RequestTooLarge Required TargetRequired UnknownEvent EventNotSubscribed CalculationMismatch
	CalculationNotFound InsufficientBalance AmountMismatch AdvanceRateMismatch ApplicantNotInApplication
	InvalidUri SimulationNotSupported InvalidDocument InvalidNumber InvalidDate InvalidAmount InternalError`

// codeOf finds the codes at the end of a line of refusals.txt, for example "400 email DuplicateEmail", and
// ruleOf finds those in the source of a rule.
var (
	codeOf = regexp.MustCompile(`^\d{3} |\b[A-Z][A-Za-z]+`)
	ruleOf = regexp.MustCompile(`(?:refuse|Refuse|add|invalid)\([^\n]*?"([A-Z][A-Za-z]+)",`)
)

// A rule of the fake is published, or it has a row.
func TestEachRuleOfTheFakeHasItsAssumption(t *testing.T) {
	text, err := os.ReadFile("../../lendingtest/testdata/refusals.txt")
	require.NoError(t, err)
	rows := map[string]int{}
	for code := range strings.FieldsSeq(published) {
		rows[code]++
	}
	for _, a := range All() {
		for _, code := range a.Codes {
			rows[code]++
		}
	}
	rules := 0
	for line := range strings.Lines(string(text)) {
		parts := strings.Split(line, " | ")
		if len(parts) < 3 || strings.HasPrefix(line, "#") {
			continue
		}
		for _, code := range codeOf.FindAllString(parts[2], -1)[1:] {
			rules++
			assert.Equal(t, 1, rows[code], "%s: name %s in a single row of list.txt, or in published",
				parts[0], code)
		}
	}
	assert.Greater(t, rules, 100)

	files, err := filepath.Glob("../../lendingtest/internal/rules/*.go")
	require.NoError(t, err)
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, found := range ruleOf.FindAllStringSubmatch(string(source), -1) {
			rules++
			assert.Equal(t, 1, rows[found[1]], "%s: name %s in a single row of list.txt, or in published", file, found[1])
		}
	}
	assert.Greater(t, rules, 200)
}
