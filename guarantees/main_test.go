//go:debug x509usefallbackroots=1
package guarantees_test

import (
	"testing"

	"github.com/lendingapi/lending-go/internal/test/leak"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

func TestMain(m *testing.M) {
	wire.Trust()
	leak.Main(m)
}
