package idempotency_test

import (
	"runtime/debug"
	"testing"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // else collecting garbage takes a third of the processor time
	m.Run()
}
