package lendingtest_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lendingapi/lending-go/lendingtest"
)

// A service prints its name, without a look at its maps and locks, and never a password.
func TestAServiceCanBePrinted(t *testing.T) {
	server := lendingtest.NewServer()
	defer server.Close()
	var working sync.WaitGroup
	working.Go(func() {
		for range 1000 {
			server.AddLoan(lendingtest.Loan{}) // for the race detector
		}
	})
	var shown bytes.Buffer
	within := struct{ S *lendingtest.Service }{server.Service}
	for _, v := range []any{server, server.Service, []any{server.Service}, within} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%t"} {
			fmt.Fprintf(&shown, verb, v)
		}
		slog.New(slog.NewTextHandler(&shown, nil)).Info("m", "v", v)
		slog.New(slog.NewJSONHandler(&shown, nil)).Info("m", "v", v)
	}
	working.Wait()
	assert.Contains(t, shown.String(), "lendingtest service")
	assert.NotContains(t, shown.String(), lendingtest.Password)
}
