//go:build unix

package lendingredis_test

import (
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
	os.Exit(webhooktest.Main(m, openStore))
}
