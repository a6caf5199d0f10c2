package gateways_test

import (
	"log"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// proxyAddress is where the tests of a proxy start one. Other tests use addresses of the loopback network, for which
// net/http takes no proxy.
var proxyAddress = freeAddress()

// TestMain says which gateways this machine does not have. net/http reads the variable of a proxy once in a process.
func TestMain(m *testing.M) {
	if err := os.Setenv("HTTPS_PROXY", "http://partner:secret@"+proxyAddress); err != nil {
		log.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(products)) {
		if _, err := exec.LookPath(products[name].program); err != nil {
			log.Printf("SKIPPED: %v; make gateways builds caddy, the others are packages of Debian", err)
		}
	}
	os.Exit(m.Run())
}

// TestMissingGatewayIsNamed runs these tests without any program.
func TestMissingGatewayIsNamed(t *testing.T) {
	without := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLongAddress", "-test.v")
	without.Env = []string{"PATH="}
	said, err := without.CombinedOutput()
	require.NoError(t, err, "%s", said)
	for name := range products {
		assert.Contains(t, string(said), "SKIPPED: exec: \""+name+"\": executable file not found")
		assert.Contains(t, string(said), "--- SKIP: TestLongAddressCostsNobody/"+name+"/default")
	}
}

// document is the path of docs/gateways.md in the long form, and empty in the short form.
var document = os.Getenv("LENDING_TEST_GATEWAYS")

// sizes returns short in the short form, and all sizes in the long form.
func sizes(short int, more ...int) []int {
	if document == "" {
		return []int{short}
	}
	return append([]int{short}, more...)
}

var writing sync.Mutex

// write writes a part of the document between its two comments, unless a test has failed.
func write(t *testing.T, part, text string) {
	t.Helper()
	if document == "" || t.Failed() {
		return
	}
	writing.Lock()
	defer writing.Unlock()
	old, err := os.ReadFile(document)
	require.NoError(t, err)
	between := regexp.MustCompile(`(?s)(<!-- make gateways: ` + part + ` -->\n).*?(<!-- end -->)`)
	require.True(t, between.Match(old), "%s has no part %q", document, part)
	require.NoError(t, os.WriteFile(document, between.ReplaceAll(old, []byte("${1}\n"+text+"\n${2}")), 0o600))
}
