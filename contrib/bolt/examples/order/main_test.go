package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The program starts itself, which is this one here.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestOutputUnderKill(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out))
	assert.Contains(t, out.String(), `
                wanted  in the service  commands executed
customers           10              10                 10
applications        10              10                 10
offers              10              10                 10
applicants          10              10                 10
documents           20              20                 20
signatures          10              10                 10
withdrawals         10              10                 10
`)
	assert.Contains(t, out.String(), "nothing left in doubt")
}
