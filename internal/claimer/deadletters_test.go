package claimer_test

import (
	"bytes"
	"context"
	"log/slog"
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
	require.NoError(t, claimer.CheckDrop("kim", most))
	require.ErrorContains(t, claimer.CheckDrop("", most), "name the person who decides")
	require.ErrorContains(t, claimer.CheckDrop("kim", tooMany), "pass at most 500")
}

func TestLogDrop(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	claimer.LogDrop(t.Context(), logger, "kim", nil)
	claimer.LogDrop(t.Context(), nil, "kim", []string{"a"})
	require.Empty(t, log.String())
	claimer.LogDrop(t.Context(), logger, "kim", []string{"a", "b"})
	require.Contains(t, log.String(), `msg="lending/webhook: dead letters dropped" who=kim number=2 keys="[a b]"`)
	claimer.LogDrop(t.Context(), slog.New(panicking{}), "kim", []string{"a"})
}

type panicking struct{ slog.Handler }

func (panicking) Enabled(context.Context, slog.Level) bool { panic("broken") }
