package claimer_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/claimer"
)

func TestDeadLetterArguments(t *testing.T) {
	t.Parallel()
	most, tooMany := make([]string, claimer.MaxDeadLetters), make([]string, claimer.MaxDeadLetters+1)
	require.NoError(t, claimer.CheckRedrive(nil))
	require.NoError(t, claimer.CheckRedrive(most))
	require.ErrorContains(t, claimer.CheckRedrive(tooMany), "pass at most 500")
	require.NoError(t, claimer.CheckDrop("kim", "a test", most))
	require.ErrorContains(t, claimer.CheckDrop("", "a test", most), "name the person who decides")
	require.ErrorContains(t, claimer.CheckDrop("kim", "", most), "and the reason")
	require.ErrorContains(t, claimer.CheckDrop("kim", "a test", tooMany), "pass at most 500")
	require.NoError(t, claimer.CheckErase("kim", "a test", []string{"12345678"}))
	require.ErrorContains(t, claimer.CheckErase("kim", "a test", []string{"12345678", "1234567"}), "at least 8 bytes")
	require.ErrorContains(t, claimer.CheckErase("kim", "a test", nil), "pass the ids")
	require.ErrorContains(t, claimer.CheckErase("", "a test", []string{"12345678"}), "name the person")
	require.Equal(t, 500, claimer.Limit(0))
	require.Equal(t, 500, claimer.Limit(501))
	require.Equal(t, 3, claimer.Limit(3))
}
