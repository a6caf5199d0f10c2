package sealed_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/sealed"
)

func TestBox(t *testing.T) {
	key := bytes.Repeat([]byte{7}, 32)
	box, err := sealed.New(key)
	require.NoError(t, err)
	text := box.Seal([]byte("plain"), []byte("here"))
	require.NotContains(t, string(text), "plain")
	require.NotEqual(t, text, box.Seal([]byte("plain"), []byte("here")), "a nonce is not used twice")

	plain, err := box.Open(text, []byte("here"))
	require.NoError(t, err)
	require.Equal(t, "plain", string(plain))

	_, err = box.Open(text, []byte("there"))
	require.Error(t, err)
	_, err = box.Open(text[:len(text)-1], []byte("here"))
	require.Error(t, err)
	_, err = box.Open(nil, []byte("here"))
	require.Error(t, err)
	other, err := sealed.New(bytes.Repeat([]byte{8}, 32))
	require.NoError(t, err)
	_, err = other.Open(text, []byte("here"))
	require.Error(t, err)

	both, err := sealed.New(bytes.Repeat([]byte{8}, 32), bytes.Repeat([]byte{9}, 32), key)
	require.NoError(t, err)
	plain, err = both.Open(text, []byte("here"))
	require.NoError(t, err, "an older key opens")
	require.Equal(t, "plain", string(plain))
	_, err = both.Open(text, []byte("there"))
	require.Error(t, err)
	plain, err = other.Open(both.Seal([]byte("plain"), nil), nil)
	require.NoError(t, err, "the first key seals")
	require.Equal(t, "plain", string(plain))
	_, err = sealed.New(key, key[1:])
	require.ErrorIs(t, err, sealed.ErrKey)

	require.NotContains(t, fmt.Sprintf("%+v %#v", box, box), "0707")
	for _, n := range []int{0, 16, 24, 31, 33} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			_, err = sealed.New(key[:min(n, 32)])
			if n == 33 {
				_, err = sealed.New(append(key, 1))
			}
			require.ErrorIs(t, err, sealed.ErrKey)
		})
	}
}
