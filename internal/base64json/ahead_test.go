package base64json_test

import (
	"bytes"
	"io"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/base64json"
)

// sourceFunc is a source.
type sourceFunc func([]byte) (int, error)

func (f sourceFunc) Read(p []byte) (int, error) { return f(p) }

// The source is read ahead of the reader, but not whole, and not before the first Read.
func TestAheadReadsTheNextPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const whole = 1 << 20
		source := bytes.NewReader(bytesOf(whole))
		a := &base64json.Ahead{
			Reader: &base64json.Reader{Source: source, Min: whole, Max: whole},
			Done:   t.Context().Done(),
		}
		synctest.Wait()
		require.Equal(t, whole, source.Len(), "nobody has asked")
		p := make([]byte, 32<<10)
		n, err := a.Read(p[:8])
		require.NoError(t, err)
		require.Equal(t, 8, n)
		assert.Zero(t, a.Encoded(), "the part is not read to its end")
		synctest.Wait()
		part := (whole - source.Len()) / 4
		assert.InDelta(t, 24<<10, part, 200, "that part, and the next three")

		n, err = a.Read(p)
		require.NoError(t, err)
		require.Equal(t, base64json.Len(int64(part))-int64(len(`"`)), int64(n+8))
		assert.EqualValues(t, part, a.Encoded(), "not what waits")
		assert.False(t, a.Closed())
	})
}

// When done is closed, a blocked Read is left, no Read begins, and the goroutine ends with the
// source's Read.
func TestAheadLeavesABlockedSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails if a goroutine waits for ever
		done, open := make(chan struct{}), make(chan struct{})
		reads := 0
		source := sourceFunc(func(p []byte) (int, error) {
			reads++
			<-open
			return 1, nil
		})
		a := &base64json.Ahead{Reader: &base64json.Reader{Source: source, Min: 1, Max: 1 << 20}, Done: done}
		left := make(chan error)
		go func() {
			_, err := a.Read(make([]byte, 100))
			left <- err
		}()
		synctest.Wait()
		close(done)
		require.ErrorIs(t, <-left, base64json.ErrLeft)
		close(open)
		synctest.Wait()
		assert.Equal(t, 1, reads)
	})
}

// The goroutine ends even if nobody reads on.
func TestAheadEndsWithItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		a := &base64json.Ahead{Reader: &base64json.Reader{
			Source: bytes.NewReader(bytesOf(1 << 20)), Min: 1,
			Max: 1 << 20,
		}, Done: done}
		_, err := a.Read(make([]byte, 100))
		require.NoError(t, err)
		close(done)
	})
}

func TestAheadHandsOnAPanic(t *testing.T) {
	first := bytes.NewReader(bytesOf(100_000))
	source := io.MultiReader(first, sourceFunc(func([]byte) (int, error) { panic("mine") }))
	a := &base64json.Ahead{Reader: &base64json.Reader{Source: source, Min: 1, Max: 1 << 20}, Done: t.Context().Done()}
	for range 2 {
		assert.PanicsWithValue(t, "mine", func() { _, _ = readAll(a, 32<<10) })
		assert.EqualValues(t, 4*24_477, a.Encoded(), "the whole parts before it")
	}
}
