//go:debug x509usefallbackroots=1
package guarantees_test

import (
	"testing"

	"github.com/lendingapi/lending-go/internal/test/leak"
)

func TestMain(m *testing.M) {
	trust()
	leak.Main(m)
}
