package lendingbolt_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"reflect"
	"sync"
	"testing"

	"github.com/lendingapi/lending-go/webhook"
	"github.com/stretchr/testify/assert"
)

// TestWhatIsAliveCanBePrinted prints and compares an inbox beside its work. Without a lock
// that would be a data race, which the detector reports.
func TestWhatIsAliveCanBePrinted(t *testing.T) {
	inbox := open(t, filepath.Join(t.TempDir(), "inbox"), nil)
	ctx, cancel := context.WithCancel(t.Context())
	var working sync.WaitGroup
	for range 2 {
		working.Go(func() {
			for ctx.Err() == nil {
				event, err := webhook.Parse([]byte(`{"webhookEvent":"WB_Send_Otp","data":"` + rand.Text() + `"}`))
				if assert.NoError(t, err) {
					_ = inbox.Put(ctx, event)
				}
				if entry, err := inbox.Take(ctx); err == nil {
					_ = inbox.Done(ctx, entry)
				}
			}
		})
	}
	var shown bytes.Buffer
	for range 10 {
		for _, value := range []any{inbox, []any{inbox}, struct{ v any }{inbox}} {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d"} {
				fmt.Fprintf(&shown, verb, value)
			}
			slog.New(slog.NewTextHandler(&shown, nil)).Info("m", "v", value)
			written, _ := json.Marshal(value) //nolint:errchkjson // a function is no JSON
			shown.Write(written)
		}
		compared := assert.CollectT{}
		assert.Equal(&compared, []any{inbox}, []any{1})
		assert.False(t, reflect.DeepEqual([]any{inbox}, []any{*inbox}))
	}
	cancel()
	working.Wait()
}
