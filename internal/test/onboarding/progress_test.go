package onboarding_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lendingapi/lending-go/internal/test/onboarding"
)

// A wrong number of records is an error.
func TestCountFails(t *testing.T) {
	assert.Error(t, onboarding.Result{}.Count(&bytes.Buffer{}, 10))
}

// A file or a pipe gets a line now and then, and the last one.
func TestProgressIsShownInLines(t *testing.T) {
	var out bytes.Buffer
	show := onboarding.Show(&out, 10)
	for elapsed := time.Duration(0); elapsed < 4500*time.Millisecond; elapsed += 10 * time.Millisecond {
		show(onboarding.Progress{Elapsed: elapsed})
	}
	show(onboarding.Progress{Elapsed: 4500 * time.Millisecond, Confirmed: 10, Kills: 15, Lost: 31, Done: true})
	assert.Equal(t, `  2.0 s:  0 of 10 withdrawals confirmed,  0 workers killed,  0 responses lost
  4.0 s:  0 of 10 withdrawals confirmed,  0 workers killed,  0 responses lost
  4.5 s: 10 of 10 withdrawals confirmed, 15 workers killed, 31 responses lost
`, out.String())
}
