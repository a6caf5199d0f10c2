package base64json

import (
	"errors"
	"io"
)

// ErrLeft means that nobody waits any longer for what a source still holds.
var ErrLeft = errors.New("base64json: the source was left")

// parts is how many there are: one that is being read, and those that are made meanwhile.
// With two or three the network waits more.
const parts = 4

// Ahead reads what Reader does, whose Source is read and encoded in a goroutine of its own
// while the parts before are sent. It begins with the first Read. When Done is closed, a
// Read of Source that blocks is left to itself, and none begins any more.
type Ahead struct {
	*Reader
	Done <-chan struct{}

	empty, full chan *part
	now         *part // being read
	n           int64
	closed      bool
}

// part is what one Read of the Reader has brought.
type part struct {
	text     []byte // what is left of it, in buf
	n        int64  // bytes of Source, with what came before
	closed   bool
	err      error
	panicked any
	buf      [32<<10 - 128]byte // with the rest no more than the allocator has in one piece
}

// Encoded returns how many bytes of Source lie in the parts that have been read.
func (a *Ahead) Encoded() int64 { return a.n }

// Closed reports whether the closing quote has been read.
func (a *Ahead) Closed() bool { return a.closed }

// Read reads the next part of the JSON string. It panics with what Source has panicked with.
func (a *Ahead) Read(p []byte) (int, error) {
	if a.full == nil {
		a.empty, a.full = make(chan *part, parts), make(chan *part, parts)
		for range parts {
			a.empty <- nil // it is made when it is needed
		}
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

// run fills the parts until there is no more. It has room for all of them in both channels.
func (a *Ahead) run() {
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

// UntilDone is a reader of which no Read begins when Done is closed.
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
