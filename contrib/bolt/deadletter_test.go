package lendingbolt_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/longrun"
	"github.com/lendingapi/lending-go/internal/test/webhooktest"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

func TestNothingIsLostWhenARedriveIsKilled(t *testing.T) {
	longrun.Kills(t)
	t.Parallel()
	webhooktest.KillRedrive(t, filepath.Join(t.TempDir(), "inbox"), openStore)
}

// The file has 100,000 dead letters. No call reads all of them into memory.
//
//nolint:paralleltest // it measures memory
func TestManyDeadLetters(t *testing.T) {
	const number = 100_000
	path := filepath.Join(t.TempDir(), "inbox")
	require.NoError(t, open(t, path, nil).Close())
	fill(t, path, number)
	webhooktest.ManyDeadLetters(t, open(t, path, nil), number)
}

// fill writes dead letters into the file: half of them are events of a loan.
func fill(t *testing.T, path string, number int) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true})
	require.NoError(t, err)
	padding, now := strings.Repeat("x", 500), uint64(time.Now().UnixNano())
	for first := 0; first < number; first += 5000 {
		require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
			for n := first; n < first+5000; n++ {
				name := lending.EventLoanOpened
				if n%2 == 1 {
					name = lending.EventLoanClosed
				}
				id := binary.BigEndian.AppendUint64(nil, uint64(n))
				text, err := json.Marshal(webhook.DeadLetter{Key: fmt.Sprintf("%064d", n), Event: name, Cause: "a failure"})
				if err != nil {
					return err
				}
				key := append(binary.BigEndian.AppendUint64(nil, now+uint64(n)), id...)
				if err := tx.Bucket([]byte("dead letters")).Put(key, text); err != nil {
					return err
				}
				body := fmt.Appendf(nil, `{"webhookEvent":%q,"data":{"n":%d,"text":%q}}`, name, n, padding)
				if err := tx.Bucket([]byte("bodies")).Put(id, body); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	require.NoError(t, db.Close())
}
