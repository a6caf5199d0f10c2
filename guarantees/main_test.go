//go:debug x509usefallbackroots=1
//go:debug tlsmlkem=0
package guarantees_test

import (
	"flag"
	"runtime"
	"strconv"
	"testing"

	"github.com/lendingapi/lending-go/internal/test/leak"
)

func TestMain(m *testing.M) {
	trust()
	// Most parallel tests wait for a clock or a socket.
	if err := flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	leak.Main(m)
}
