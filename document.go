package lending

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lendingapi/lending-go/internal/base64json"
	"github.com/lendingapi/lending-go/internal/safely"
)

// MaxDocument is the largest file that the service takes, in bytes.
const MaxDocument = 15 << 20

// expectContinue is the value of a header. It is shared, as [mediaJSON] is.
var expectContinue = []string{"100-continue"}

// expectAbove is the size of a file above which the service is asked first whether
// it will have it.
const expectAbove = 256 << 10

// Document is a file to upload, of 1 to [MaxDocument] bytes. The client reads Content once,
// from front to back, while it sends the file and a little ahead of that. It never holds
// the whole file in memory.
//
// If Content holds less or more than its size, or fails, the client breaks the upload off,
// so that the service cannot take the part for the whole: the outcome is [OutcomeNotSent].
// Content is read even if the upload fails: rewind it before another try. If ctx has no
// deadline, an upload ends after two minutes without progress. If ctx ends, or the service
// answers before it has the whole file, the upload does not wait for a Content that blocks:
// its Read may still be under way.
//
// If a file is larger than 256 KiB, or its size is unknown, the client asks the service
// first whether it accepts the file (Expect: 100-continue). A refusal can then be read, and
// nothing is sent in vain. With [WithHTTPClient] this needs a transport whose
// [http.Transport.ExpectContinueTimeout] is not 0. A transport made by hand, and that of
// Client of httptest's Server, have 0: they send the file at once.
//
// An answer other than true is an error whose outcome is [OutcomeUnknown], also false:
// nothing says that no file was stored. A file too large for the service's host is
// [ErrTooLarge].
type Document struct {
	Name    string    // of the file; an [os.File] or [fs.File] has one itself
	Content io.Reader // what the file holds, from where the reader stands

	// Size is how many bytes Content holds. 0 means that it is not known: an
	// [os.File], [fs.File], [bytes.Reader], [strings.Reader], [bytes.Buffer] or
	// [io.Seeker] says it itself, any other reader is sent in chunks until it ends.
	Size int64

	// Progress, if it is set, is told after each part how many bytes of the file
	// have been handed to the network, and how many there are, 0 if that is not
	// known. Calls come in order and one at a time, in another goroutine than the
	// upload's; the upload waits for each, and none comes after it has returned.
	Progress func(sent, total int64)
}

var (
	errStalled     = hidden("no progress for "+callTimeout.String(), context.DeadlineExceeded)
	errNotAccepted = hidden("the service did not accept the document", nil)
	errOver        = errors.New("lending: the upload is over")
	errEarlyAnswer = hidden("the service answered before it had the whole document", nil)
)

// submit uploads doc by r, to whose query it adds the name.
func submit(ctx context.Context, c *carrier, doc Document, r request) error {
	u := newUpload(doc)
	r.query = append(r.query, param{"fileName", u.name, true})
	r.body, r.acceptance = u, acceptDocument
	ctx, stop := u.watch(ctx)
	defer stop()
	_, err := post[bool](ctx, c, r)
	u.end()
	return err
}

// upload is the body of a request that sends a document. The transport reads it.
type upload struct {
	name     string
	known    int64  // size by what Content says itself; -1 if it says none
	size     int64  // -1 if it is not known
	unfit    string // why Content cannot be sent; "" if it can
	text     base64json.Reader
	body     encoded // text, or what reads it ahead
	document Document
	complete atomic.Bool // the transport has been given the last byte
	early    bool        // it had not when an answer came
	stalled  *time.Timer // fires when there was no progress for long; nil if ctx has a deadline

	mu       sync.Mutex // held while Content and Progress are called
	over     bool       // they are called no more
	panicked any        // what one of them panicked with
}

// encoded reads a document as the service takes it.
type encoded interface {
	io.Reader
	Encoded() int64 // bytes of the file
	Closed() bool   // the last byte has been read
}

func newUpload(doc Document) *upload {
	u := &upload{document: doc, known: -1, text: base64json.Reader{Source: doc.Content, Min: 1, Max: MaxDocument}}
	u.unfit = u.describe(doc.Content)
	u.size = u.known
	if doc.Name != "" {
		u.name = doc.Name
	}
	if doc.Size != 0 {
		u.size = doc.Size
	}
	if u.size >= 0 {
		u.text.Min, u.text.Max = u.size, u.size
	}
	return u
}

// describe finds out what content says of itself: its name, the size of what it still
// holds and, if it is in memory, that it never blocks. It returns why it is no content.
func (u *upload) describe(content io.Reader) (unfit string) {
	if v := reflect.ValueOf(content); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return "must not be nil"
	}
	switch content := content.(type) {
	case *bytes.Buffer, *bytes.Reader, *strings.Reader:
		u.known = int64(content.(interface{ Len() int }).Len())
		u.body = &u.text
		return ""
	case fs.File:
		info, err := content.Stat()
		if err == nil && info.IsDir() {
			u.name = info.Name()
			return "must not be a directory"
		}
		if err != nil || !info.Mode().IsRegular() {
			return "" // a pipe or a device: where it ends, only reading shows
		}
		u.name, u.known = info.Name(), info.Size()
	}
	seeker, ok := content.(io.Seeker)
	if !ok {
		return ""
	}
	at, err := seeker.Seek(0, io.SeekCurrent)
	if err != nil {
		return ""
	}
	end, err := seeker.Seek(0, io.SeekEnd)
	if err == nil {
		u.known = max(end-at, 0)
	}
	if _, err := seeker.Seek(at, io.SeekStart); err != nil {
		return "must seek back to where it stood"
	}
	return ""
}

// check refuses what the service would refuse, and what would fail on the way.
func (u *upload) check(c *checks) {
	c.that(u.unfit == "", "content", CodeRequired, u.unfit)
	c.that(u.size != 0, "content", CodeRequired, "must not be empty")
	c.that(u.size <= MaxDocument, "content", CodeRange, "must have at most 15 MiB")
	c.that(u.document.Size >= 0, "size", CodeRange, "must not be negative")
	c.that(u.document.Size <= 0 || u.known < 0 || u.size == u.known, "size", CodeConflict, "must be what the content holds")
}

// print writes what tells u from another upload: name, size, and what Content holds if it
// can be read twice.
func (u *upload) print(ctx context.Context, w io.Writer) error {
	fmt.Fprintf(w, "%q %d\n", u.name, u.size)
	if buffer, ok := u.document.Content.(*bytes.Buffer); ok {
		sum := sha256.Sum256(buffer.Bytes())
		_, _ = w.Write(sum[:])
		return nil
	}
	seeker, ok := u.document.Content.(io.Seeker)
	if !ok || u.known < 0 {
		return nil
	}
	at, err := seeker.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	read, sum := make(chan error, 1), sha256.New()
	go func() { // where a Read that blocks can be left
		read <- safely.Call[PanicError](func() error {
			_, err := io.Copy(sum, io.LimitReader(base64json.UntilDone{Reader: u.document.Content, Done: ctx.Done()}, MaxDocument+1))
			return err
		})
	}()
	select {
	case err = <-read:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	_, _ = w.Write(sum.Sum(nil))
	_, err = seeker.Seek(at, io.SeekStart)
	return err
}

// watch ends ctx with the upload and, if it has no deadline, when there is no progress
// for long.
func (u *upload) watch(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	ctx, stop := context.WithCancelCause(ctx)
	u.stalled = time.AfterFunc(callTimeout, func() { stop(errStalled) })
	return ctx, func() {
		u.stalled.Stop()
		stop(nil)
	}
}

// bind makes the upload the body of hr. A Read that blocks is left when ctx ends, and no
// sooner: the error is then that of ctx.
func (u *upload) bind(ctx context.Context, hr *http.Request) {
	if u.body == nil {
		u.body = &base64json.Ahead{Reader: &u.text, Done: ctx.Done()}
	}
	hr.Body, hr.ContentLength = u, -1
	if u.size >= 0 {
		hr.ContentLength = base64json.Len(u.size)
	}
	if u.size < 0 || u.size > expectAbove {
		// So that a refusal can be read. Without Close net/http sends the document after it
		// all the same, to use the connection again.
		hr.Header["Expect"], hr.Close = expectContinue, true
	}
}

func (u *upload) isWhole() bool { return u.complete.Load() }

// Read reads the next part of the body, in a goroutine of the transport: there a panic
// of Content or Progress would end the program, so it is handed to the caller's.
func (u *upload) Read(p []byte) (n int, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.over {
		return 0, errOver
	}
	defer func() {
		if u.panicked = recover(); u.panicked != nil {
			n, err = 0, errOver
		}
	}()
	before := u.body.Encoded()
	n, err = u.body.Read(p)
	if err != nil && !u.body.Closed() {
		return 0, u.broken(err)
	}
	if u.body.Closed() {
		u.complete.Store(true)
	}
	if u.stalled != nil {
		u.stalled.Reset(callTimeout)
	}
	if sent := u.body.Encoded(); u.document.Progress != nil && sent > before {
		u.document.Progress(sent, max(u.size, 0))
	}
	return n, err
}

// Close leaves Content open: it is the caller's.
func (u *upload) Close() error { return nil }

// end ends the upload for the transport, which may go on after it has returned.
func (u *upload) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.over = true
	if u.panicked != nil {
		panic(u.panicked)
	}
}

// broken says why the body cannot be completed.
func (u *upload) broken(err error) error {
	sent := u.body.Encoded()
	switch {
	case errors.Is(err, base64json.ErrShort) && sent == 0:
		return hidden("the document is empty", io.ErrUnexpectedEOF)
	case errors.Is(err, base64json.ErrShort):
		return hidden(fmt.Sprintf("the document ended after %d of its %d bytes", sent, u.size), io.ErrUnexpectedEOF)
	case errors.Is(err, base64json.ErrLong) && u.size < 0:
		return hidden("the document is larger than 15 MiB", ErrTooLarge)
	case errors.Is(err, base64json.ErrLong):
		return hidden(fmt.Sprintf("the document holds more than its %d bytes", u.size), nil)
	}
	return hidden(fmt.Sprintf("the document could not be read after %d bytes", sent), err)
}

// acceptDocument says why an answer does not mean that the document was accepted:
// "200 with true on success". The transport may go on sending after an early answer,
// which does not make it a late one.
func acceptDocument(x *exchange) error {
	u, _ := x.request.body.(*upload)
	u.early = u.early || !u.complete.Load()
	switch body := string(x.parsed.body); {
	case body == "false":
		return errNotAccepted
	case u.early:
		return errEarlyAnswer
	case body == "" || body == "null":
		return ErrNoContent
	case body != "true":
		return errNotTrue
	}
	return nil
}

var errNotTrue = hidden("the answer is not true", nil)
