package store_test

import (
	"testing"

	"github.com/lendingapi/lending-go/internal/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }
