package base64json_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/base64json"
)

// bytesOf returns n bytes of which no two neighbours are the same.
func bytesOf(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

// readAll reads r into a buffer of the given size until it fails or ends.
func readAll(r io.Reader, size int) ([]byte, error) {
	var all []byte
	for p := make([]byte, size); ; {
		n, err := r.Read(p)
		all = append(all, p[:n]...)
		if err != nil {
			return all, err
		}
	}
}

// reader is what both ways of reading can.
type reader interface {
	io.Reader
	Encoded() int64
	Closed() bool
}

// ways are those of reading r.
func ways(tb testing.TB) map[string]func(r *base64json.Reader) reader {
	tb.Helper()
	return map[string]func(r *base64json.Reader) reader{
		"as it comes": func(r *base64json.Reader) reader { return r },
		"ahead": func(r *base64json.Reader) reader {
			return &base64json.Ahead{
				Reader: r,
				Done:   tb.Context().Done(),
			}
		},
	}
}

var errBroken = errors.New("broken")

// forgetful is a reader that returns nothing and no error, for ever.
type forgetful struct{}

func (forgetful) Read([]byte) (int, error) { return 0, nil }

// boastful is a reader that claims more than it was asked for.
type boastful struct{}

func (boastful) Read(p []byte) (int, error) { return len(p) + 1, nil }

func TestReaderNeverClosesTheStringOfABadSource(t *testing.T) {
	const length = 60_000
	source := bytesOf(length)
	short := func(n int) io.Reader { return bytes.NewReader(source[:n]) }
	for _, test := range []struct {
		name     string
		source   func() io.Reader
		min, max int64
		want     error
	}{
		{"fails with an EOF", func() io.Reader {
			return io.MultiReader(short(1000), iotest.ErrReader(fmt.Errorf("%w: %w", errBroken, io.EOF)))
		}, 1, length, errBroken},
		{
			"fails with the data", func() io.Reader { return iotest.TimeoutReader(short(length)) }, length, length,
			iotest.ErrTimeout,
		},
		{"never gives anything", func() io.Reader { return forgetful{} }, length, length, io.ErrNoProgress},
		{
			"stops giving", func() io.Reader { return io.MultiReader(short(length), forgetful{}) }, length, length,
			io.ErrNoProgress,
		},
		{"claims too much", func() io.Reader { return boastful{} }, length, length, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, size := range []int{5, 32 << 10} {
				for how, read := range ways(t) {
					r := read(&base64json.Reader{Source: test.source(), Min: test.min, Max: test.max})
					got, err := readAll(r, size)
					require.Error(t, err)
					require.NotEqual(t, io.EOF, err)
					if test.want != nil {
						require.ErrorIs(t, err, test.want, "%s, by %d", how, size)
					}
					require.False(t, r.Closed())
					require.False(t, json.Valid(got))
					require.LessOrEqual(t, strings.Count(string(got), `"`), 1)
					_, again := r.Read(make([]byte, size))
					require.Equal(t, err, again, "the error is final")
				}
			}
		})
	}
}

// FuzzReader compares with encoding/base64 for any source, however it is cut.
func FuzzReader(f *testing.F) {
	for _, length := range []int{0, 1, 2, 3, 4, 100, 24<<10 - 1, 24 << 10, 24<<10 + 1, 100_000} {
		for _, size := range []uint16{0, 1, 6, 7, 8, 4095, 32<<10 - 1} { // of the buffer, less one
			f.Add(bytesOf(length), size, uint8(length%5))
		}
	}
	f.Fuzz(func(t *testing.T, source []byte, size uint16, part uint8) {
		for _, read := range ways(t) {
			var from io.Reader = bytes.NewReader(source)
			if part > 0 {
				from = &parts{from, int(part)}
			}
			got, err := readAll(read(&base64json.Reader{Source: from, Min: 1, Max: 1 << 20}), int(size)%70_000+1)
			if len(source) == 0 {
				require.ErrorIs(t, err, base64json.ErrShort)
				continue
			}
			require.Equal(t, io.EOF, err)
			require.Equal(t, `"`+base64.StdEncoding.EncodeToString(source)+`"`, string(got))
			require.EqualValues(t, len(got), base64json.Len(int64(len(source))))
		}
	})
}

// parts is a reader that returns a few bytes at a time.
type parts struct {
	io.Reader
	size int
}

func (p *parts) Read(b []byte) (int, error) { return p.Reader.Read(b[:min(len(b), p.size)]) }
