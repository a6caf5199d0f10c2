package deadletters_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/deadletters"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	most, tooMany := make([]string, deadletters.Max), make([]string, deadletters.Max+1)
	require.NoError(t, deadletters.CheckRedrive(nil))
	require.NoError(t, deadletters.CheckRedrive(most))
	require.ErrorContains(t, deadletters.CheckRedrive(tooMany), "pass at most 500")
	require.NoError(t, deadletters.CheckDrop("kim", most))
	require.ErrorContains(t, deadletters.CheckDrop("", most), "name the person who decides")
	require.ErrorContains(t, deadletters.CheckDrop("kim", tooMany), "pass at most 500")
}

func TestLogDrop(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	deadletters.LogDrop(t.Context(), logger, "kim", nil)
	deadletters.LogDrop(t.Context(), nil, "kim", []string{"a"})
	require.Empty(t, log.String())
	deadletters.LogDrop(t.Context(), logger, "kim", []string{"a", "b"})
	require.Contains(t, log.String(), `msg="lending/webhook: dead letters dropped" who=kim number=2 keys="[a b]"`)
	deadletters.LogDrop(t.Context(), slog.New(panicking{}), "kim", []string{"a"})
}

type panicking struct{ slog.Handler }

func (panicking) Enabled(context.Context, slog.Level) bool { panic("broken") }
