package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/lendingapi/lending-go/internal/test/onboardingtest"
	"github.com/lendingapi/lending-go/internal/test/pgtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The program starts itself, which is the test binary here.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestOutputUnderKill(t *testing.T) {
	customers, kills := onboardingtest.Size()
	var out bytes.Buffer
	err := run(t.Context(), &out, customers, kills)
	if errors.Is(err, pgtest.ErrMissing) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	t.Logf("%s", out.Bytes())
	require.NoError(t, err)
	assert.Contains(t, out.String(), fmt.Sprintf(`
                wanted  in the service  commands executed
customers       %6d          %6[1]d             %6[1]d
applications    %6[1]d          %6[1]d             %6[1]d
offers          %6[1]d          %6[1]d             %6[1]d
applicants      %6[1]d          %6[1]d             %6[1]d
documents       %6[2]d          %6[2]d             %6[2]d
signatures      %6[1]d          %6[1]d             %6[1]d
withdrawals     %6[1]d          %6[1]d             %6[1]d
`, customers, 2*customers))
	assert.Contains(t, out.String(), "nothing left in doubt")
}
