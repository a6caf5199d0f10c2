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

// oracle is what encoding/json writes for the bytes.
func oracle(t *testing.T, source []byte) []byte {
	t.Helper()
	text, err := json.Marshal(source)
	require.NoError(t, err)
	return text
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

func TestReaderWritesWhatEncodingJSONWrites(t *testing.T) {
	sources := map[string]func(io.Reader) io.Reader{
		"whole":        func(r io.Reader) io.Reader { return r },
		"byte by byte": iotest.OneByteReader,
		"by halves":    iotest.HalfReader,
		"data and EOF": iotest.DataErrReader,
	}
	for _, length := range []int{1, 2, 3, 4, 5, 6, 100, 24<<10 - 1, 24 << 10, 24<<10 + 1, 100_000} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			source := bytesOf(length)
			want := oracle(t, source)
			require.EqualValues(t, len(want), base64json.Len(int64(length)))
			sizes := []int{1, 2, 7, 8, 9, 4096, 32 << 10, 64 << 10}
			if length > 32<<10 {
				sizes = sizes[4:] // the smaller ones would take most of the time
			}
			for name, wrap := range sources {
				for _, size := range sizes {
					for _, limits := range [][2]int64{{int64(length), int64(length)}, {1, 1 << 20}} {
						for how, read := range ways(t) {
							r := read(&base64json.Reader{
								Source: wrap(bytes.NewReader(source)), Min: limits[0],
								Max: limits[1],
							})
							got, err := readAll(r, size)
							require.Equal(t, io.EOF, err)
							require.True(t, bytes.Equal(want, got), "%s, %s, %d bytes, buffer of %d, limits %v", how,
								name, length, size, limits)
							require.EqualValues(t, length, r.Encoded())
							require.True(t, r.Closed())
						}
					}
				}
			}
		})
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
		{"empty", func() io.Reader { return short(0) }, length, length, base64json.ErrShort},
		{"empty, size unknown", func() io.Reader { return short(0) }, 1, length, base64json.ErrShort},
		{"one byte", func() io.Reader { return short(1) }, length, length, base64json.ErrShort},
		{"ends in a group", func() io.Reader { return short(24<<10 + 1) }, length, length, base64json.ErrShort},
		{"ends after a group", func() io.Reader { return short(24 << 10) }, length, length, base64json.ErrShort},
		{"one byte missing", func() io.Reader { return short(length - 1) }, length, length, base64json.ErrShort},
		{"one byte more", func() io.Reader { return short(length) }, length - 1, length - 1, base64json.ErrLong},
		{"more in a first part", func() io.Reader { return short(100) }, 99, 99, base64json.ErrLong},
		{"over the limit", func() io.Reader { return short(length) }, 1, length - 1, base64json.ErrLong},
		{"fails at once", func() io.Reader { return iotest.ErrReader(errBroken) }, length, length, errBroken},
		{
			"fails in a group", func() io.Reader { return io.MultiReader(short(1000), iotest.ErrReader(errBroken)) },
			length, length, errBroken,
		},
		{
			"fails between groups", func() io.Reader { return io.MultiReader(short(999), iotest.ErrReader(errBroken)) },
			length, length, errBroken,
		},
		{
			"fails at the end", func() io.Reader { return io.MultiReader(short(length), iotest.ErrReader(errBroken)) },
			length, length, errBroken,
		},
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
	f.Add([]byte("a"), uint16(8), uint8(0))
	f.Add(bytesOf(1000), uint16(33), uint8(3))
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
		}
	})
}

// parts is a reader that returns a few bytes at a time.
type parts struct {
	io.Reader
	size int
}

func (p *parts) Read(b []byte) (int, error) { return p.Reader.Read(b[:min(len(b), p.size)]) }
