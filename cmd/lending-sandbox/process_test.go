package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/lendingapi/lending-go/internal/test/leak"
)

// processRole is the variable that makes the test's own program the sandbox, so that no test builds it.
const processRole = "SANDBOX_PROCESS"

func TestMain(m *testing.M) {
	if os.Getenv(processRole) == "" {
		leak.Main(m)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
