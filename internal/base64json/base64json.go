// Package base64json turns a stream of bytes into a JSON string of their base64 encoding,
// without holding the whole of either.
package base64json

import (
	"context"
	"errors"
	"io"
)

// Errors of the length of a source.
var (
	// ErrShort is the error of fewer bytes than [Reader.Min].
	ErrShort = errors.New("base64json: the source ended too early")
	// ErrLong is the error of more bytes than [Reader.Max].
	ErrLong = errors.New("base64json: the source holds too much")
)

// errCount is the error of a source that reports more bytes than the buffer holds.
var errCount = errors.New("base64json: the source returned an impossible count")

// maxEmptyReads is the allowed number of consecutive empty reads of a source.
const maxEmptyReads = 100

// Len returns the length of the JSON string for n bytes.
func Len(n int64) int64 { return (n+2)/3*4 + 2 }

// Reader reads the JSON string for the bytes of Source, at least Min and at most Max. If the
// number differs, or Source fails, an error replaces the closing quote: the text so far is not
// JSON.
type Reader struct {
	Source   io.Reader
	Min, Max int64

	n      int64 // encoded bytes of Source
	closed bool
	err    error // the result of every further Read
	in     [24 << 10]byte
	excess [1]byte // for a byte beyond Max
	small  [8]byte // for a caller whose buffer is smaller
	spill  []byte  // the rest of small
}

// Encoded returns the number of encoded bytes of Source.
func (r *Reader) Encoded() int64 { return r.n }

// Closed reports whether the closing quote has been read.
func (r *Reader) Closed() bool { return r.closed }

// Read reads the next part of the JSON string.
func (r *Reader) Read(p []byte) (int, error) {
	if len(r.spill) == 0 && len(p) >= len(r.small) {
		return r.next(p)
	}
	if len(r.spill) == 0 {
		n, err := r.next(r.small[:])
		if n == 0 {
			return 0, err
		}
		r.spill = r.small[:n]
	}
	n := copy(p, r.spill)
	r.spill = r.spill[n:]
	return n, nil
}

// next reads into p. p has room for a group of four and both quotes.
func (r *Reader) next(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n := 0
	if r.n == 0 {
		p[0] = '"'
		n = 1
	}
	in := r.in[:min(len(r.in), (len(p)-n-1)/4*3)]
	got, ended, err := r.fill(in)
	r.n += int64(got)
	if err == nil && ended && r.n < r.Min {
		err = ErrShort
	}
	if err != nil {
		r.err = err
		return 0, err
	}
	encode(p[n:], in[:got])
	n += (got + 2) / 3 * 4
	if ended {
		p[n] = '"'
		n++
		r.closed, r.err = true, io.EOF
	}
	return n, nil
}

// fill fills its buffer unless Source ends. After Max bytes, fill asks Source for another byte,
// which must not exist.
func (r *Reader) fill(in []byte) (got int, ended bool, err error) {
	left := r.Max - r.n
	if int64(len(in)) > left {
		in = in[:left]
	}
	for empty := 0; got < len(in) || int64(got) == left; {
		into := in[got:]
		if len(into) == 0 {
			into = r.excess[:]
		}
		n, err := r.Source.Read(into)
		switch {
		case n < 0 || n > len(into):
			return 0, false, errCount
		case n > 0 && int64(got) == left:
			return 0, false, ErrLong
		}
		got += n
		if err == io.EOF { // an error that wraps io.EOF is a failure, not the end
			return got, true, nil
		} else if err != nil {
			return got, false, err
		}
		if empty++; n > 0 {
			empty = 0
		} else if empty == maxEmptyReads {
			return 0, false, io.ErrNoProgress
		}
	}
	return got, false, nil
}

type reopenedContext struct{}

// WithReopened returns a context for a function that opens its documents again in each call.
func WithReopened(ctx context.Context) context.Context {
	return context.WithValue(ctx, reopenedContext{}, true)
}

// Reopened reports whether the context comes from [WithReopened].
func Reopened(ctx context.Context) bool { return ctx.Value(reopenedContext{}) != nil }
