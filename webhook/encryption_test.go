package webhook_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/webhook"
)

func TestEncryptionOfAnInbox(t *testing.T) {
	t.Parallel()
	with := func(keys ...byte) *webhook.Encryption {
		var all [][]byte
		for _, key := range keys {
			all = append(all, bytes.Repeat([]byte{key}, 32))
		}
		encryption, err := webhook.NewEncryption(all[0], all[1:]...)
		require.NoError(t, err)
		return encryption
	}
	var none *webhook.Encryption
	event := parsed(t, "\ufeff{\"webhookEvent\":\"WB_Loan_Opened\",\"data\":{\"otp\":\"731904\"}} ")
	stored := with(1).Seal(event)
	require.NotContains(t, string(stored), "731904")
	require.NotEqual(t, stored, with(1).Seal(event))
	require.Equal(t, event.Body(), none.Seal(event))
	for _, test := range []struct {
		name   string
		with   *webhook.Encryption
		stored []byte
		want   string
	}{
		{"its key", with(1), stored, ""},
		{"an older key", with(2, 1), stored, ""},
		{"plain text", with(1), event.Body(), ""},
		{"plain text and no key", none, event.Body(), ""},
		{"another key", with(2), stored, "encrypted with another key; check the encryption keys"},
		{"no key", none, stored, "encrypted with another key; check the encryption keys"},
		{"a newer release", with(1), []byte("\x00\x03731904"), "at least v0.3; update this replica"},
		{"a newer release and no key", none, []byte("\x00\x03731904"), "at least v0.3; update this replica"},
	} {
		t.Run(test.name, func(t *testing.T) {
			opened, err := test.with.Open(test.stored)
			if test.want != "" {
				require.ErrorContains(t, err, test.want)
				require.NotContains(t, err.Error(), "731904")
				require.Nil(t, opened)
				return
			}
			require.NoError(t, err)
			require.Equal(t, event.Body(), opened.Body())
			require.Equal(t, event.Key(), opened.Key())
		})
	}
	broken, err := none.Open([]byte("{{{"))
	require.Error(t, err)
	broken, err = with(1).Open(with(1).Seal(broken))
	require.Error(t, err)
	require.Equal(t, "{{{", string(broken.Body()))
	_, err = webhook.NewEncryption([]byte("short"))
	require.EqualError(t, err, "lending/webhook: NewEncryption: the key must be 32 random bytes")
}

func TestDeadLetterOfANewerReleaseSaysSo(t *testing.T) {
	t.Parallel()
	var letter webhook.DeadLetter
	require.NoError(t, json.Unmarshal([]byte(`{"v":3,"key":"k","event":"E","tries":{"later":1}}`), &letter))
	require.Equal(t, webhook.DeadLetter{
		Key: "k", Event: "E", Cause: "the dead letter was written by a newer release, at least v0.3; update this replica",
	}, letter)
	require.Error(t, json.Unmarshal([]byte(`{"tries":{"later":1}}`), &letter))
}
