package lendingbolt_test

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/lendingapi/lending-go/webhook"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// A call over 100,000 dead letters, none of which it selects, holds few of them in memory.
func TestMemoryOfACallOverManyDeadLetters(t *testing.T) {
	const letters, most = 100_000, 8 << 20
	path := filepath.Join(t.TempDir(), "inbox")
	require.NoError(t, open(t, path, nil).Close())
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true})
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		for n := range uint64(letters) {
			number := binary.BigEndian.AppendUint64(nil, n)
			body := fmt.Appendf(nil, `{"webhookEvent":"a","data":{"n":%d}}`, n)
			require.NoError(t, tx.Bucket([]byte("bodies")).Put(number, body))
			letter := []byte(`{"event":"a","cause":"a failure","tries":12}`)
			require.NoError(t, tx.Bucket([]byte("dead letters")).Put(append(number, number...), letter))
		}
		return nil
	}))
	require.NoError(t, db.Close())
	inbox := open(t, path, nil)
	defer debug.SetGCPercent(debug.SetGCPercent(10))

	for name, call := range map[string]func() (int, error){
		"list": func() (int, error) {
			page, err := inbox.DeadLetters(t.Context(), webhook.DeadLetterFilter{Event: "b"})
			return len(page), err
		},
		"erase": func() (int, error) {
			return inbox.Erase(t.Context(), webhook.Decision{By: "kim", Why: "a request"}, "nobody's id")
		},
	} {
		ended := make(chan error, 1)
		runtime.GC()
		before, peak := heap(), uint64(0)
		began := time.Now()
		go func() {
			n, err := call()
			if n != 0 {
				err = fmt.Errorf("%d selected", n)
			}
			ended <- err
		}()
		for done := false; !done; peak = max(peak, heap()) {
			select {
			case err := <-ended:
				require.NoError(t, err, name)
				done = true
			case <-time.After(time.Millisecond):
			}
		}
		t.Logf("%s: %s, at most %d KiB", name, time.Since(began).Round(time.Millisecond), (peak-min(before, peak))>>10)
		require.Less(t, peak, before+most, name)
	}
}

func heap() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
