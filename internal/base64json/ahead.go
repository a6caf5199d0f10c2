package base64json

import (
	"errors"
	"io"
	"time"
)

// ErrLeft means that nobody waits for the rest of a source.
var ErrLeft = errors.New("base64json: the source was left")

// parts is the number of parts: the part being read, and the parts being made. With two or three
// the network waits more.
const parts = 4

// Ahead reads ahead of Reader: a goroutine, begun by the first Read, reads and encodes Source
// while earlier parts are sent. After Done is closed, Ahead abandons a blocked Read of Source,
// and begins no other.
type Ahead struct {
	*Reader
	Done <-chan struct{}

	empty, full chan *part
	ended       chan struct{} // closed when Source is no longer read
	now         *part         // being read
	n           int64
	closed      bool
}

// part is the result of a Read of the Reader.
type part struct {
	text     []byte // the rest of the part, in buf
	n        int64  // bytes of Source so far
	closed   bool
	err      error
	panicked any
	buf      [32<<10 - 128]byte // a part fits an allocation of 32 KiB
}

// Encoded returns the number of bytes of Source in the parts read so far.
func (a *Ahead) Encoded() int64 { return a.n }

// Closed reports whether the closing quote has been read.
func (a *Ahead) Closed() bool { return a.closed }

// Read reads the next part of the JSON string. Read repeats a panic of Source.
func (a *Ahead) Read(p []byte) (int, error) {
	if a.full == nil {
		a.empty, a.full = make(chan *part, parts), make(chan *part, parts)
		for range parts {
			a.empty <- nil // made on demand
		}
		a.ended = make(chan struct{})
		a.Source = UntilDone{a.Source, a.Done}
		go a.run()
	}
	if a.now == nil {
		select {
		case a.now = <-a.full:
		case <-a.Done:
			return 0, ErrLeft
		}
	}
	if a.now.panicked != nil {
		panic(a.now.panicked)
	}
	n, err := copy(p, a.now.text), a.now.err
	if a.now.text = a.now.text[n:]; len(a.now.text) > 0 {
		return n, nil
	}
	a.n, a.closed = a.now.n, a.now.closed
	if err == nil {
		a.empty <- a.now
		a.now = nil
	}
	return n, err
}

// Ended reports whether Source is no longer read. After Done is closed it waits for the last Read of
// Source, at most wait.
func (a *Ahead) Ended(wait time.Duration) bool {
	if a.ended == nil {
		return true
	}
	select {
	case <-a.ended:
		return true
	case <-time.After(wait):
		return false
	}
}

// run fills the parts until the end. Both channels have room for all parts.
func (a *Ahead) run() {
	defer close(a.ended)
	for {
		select {
		case p := <-a.empty:
			if p == nil {
				p = new(part)
			}
			ended := p.fill(a.Reader)
			a.full <- p
			if ended {
				return
			}
		case <-a.Done:
			return
		}
	}
}

// fill reads a part from r, and reports whether it is the last.
func (p *part) fill(r *Reader) (ended bool) {
	defer func() {
		if p.panicked = recover(); p.panicked != nil {
			ended = true
		}
	}()
	n, err := r.Read(p.buf[:])
	p.text, p.n, p.closed, p.err = p.buf[:n], r.Encoded(), r.Closed(), err
	return err != nil
}

// UntilDone is a reader without new Reads after Done is closed.
type UntilDone struct {
	io.Reader
	Done <-chan struct{}
}

// Read reads from Reader, unless Done is closed.
func (r UntilDone) Read(p []byte) (int, error) {
	select {
	case <-r.Done:
		return 0, ErrLeft
	default:
		return r.Reader.Read(p)
	}
}
