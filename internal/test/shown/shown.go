// Package shown prints values in every way in which Go prints, so that tests can look for
// secrets.
package shown

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lendingapi/lending-go/internal/test/race"
)

// Beside returns the text of values printed while goroutines repeat work on them. If a value has
// no lock, the race detector reports a data race, or "concurrent map iteration and map write"
// ends the process.
func Beside(t *testing.T, alive []any, work func(ctx context.Context)) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var working sync.WaitGroup
	for range 4 {
		working.Go(func() {
			for ctx.Err() == nil {
				work(ctx)
			}
		})
	}
	var text bytes.Buffer
	rounds := 30
	if race.Enabled {
		rounds = 5
	}
	for range rounds {
		for _, v := range alive {
			show(t, &text, v)
		}
	}
	cancel()
	working.Wait()
	return text.String()
}

func show(t *testing.T, text *bytes.Buffer, v any) {
	t.Helper()
	held := struct{ v any }{v}
	for _, value := range []any{v, &v, []any{v}, held, &held} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%p", "%t"} {
			fmt.Fprintf(text, verb, value)
		}
		slog.New(slog.NewTextHandler(text, nil)).Info("m", "v", value)
		slog.New(slog.NewJSONHandler(text, nil)).Info("m", "v", value)
		written, _ := json.Marshal(value) //nolint:errchkjson // functions have no JSON
		text.Write(written)
	}
	var compared failure
	assert.Equal(&compared, []any{v}, []any{held})
	assert.False(t, reflect.DeepEqual([]any{v}, []any{held}))
	fmt.Fprintln(text, compared)
}

type failure []string

func (f *failure) Errorf(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }
