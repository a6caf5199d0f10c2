package postgres_test

import (
	"os"
	"testing"

	"github.com/lendingapi/lending-go/internal/pgtest"
)

func TestMain(m *testing.M) {
	pgtest.SkipExamples()
	code := m.Run()
	endShared()
	os.Exit(code)
}
