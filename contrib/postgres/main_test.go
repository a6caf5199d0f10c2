package lendingpostgres_test

import (
	"flag"
	"os"
	"testing"

	"github.com/lendingapi/lending-go/internal/test/onboardingtest"
	"github.com/lendingapi/lending-go/internal/test/webhooktest"
)

func TestMain(m *testing.M) {
	if code, isWorker := onboardingtest.Worker(openForWorker); isWorker {
		os.Exit(code)
	}
	skipExamples()
	_, _ = flag.Set("events", "600"), flag.Set("kills", "6") // unless the command line says otherwise
	code := webhooktest.Main(m, openStore)
	endShared()
	os.Exit(code)
}
