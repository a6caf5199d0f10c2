package onboarding_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lendingapi/lending-go/internal/test/onboarding"
)

// A wrong number of records is an error.
func TestCountFails(t *testing.T) {
	assert.Error(t, onboarding.Result{}.Count(&bytes.Buffer{}, 10))
}
