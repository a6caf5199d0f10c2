package lending

import (
	"bytes"
	"cmp"
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
	"github.com/lendingapi/lending-go/internal/redact"
	"github.com/lendingapi/lending-go/internal/safely"
)

// maxDocument is the size of the largest file the service accepts, in bytes.
const maxDocument = 15 << 20

// expectContinue is the value of a header, shared like [mediaJSON].
var expectContinue = []string{"100-continue"}

// expectAbove is the size of a file above which the client first asks the service whether it
// accepts the file.
const expectAbove = 256 << 10

// Document is a file to upload, of 1 byte to 15 MiB. The client reads Content once, from
// front to back, while it sends the file and a little ahead of that. It never holds the whole
// file in memory.
//
// If Content holds less or more than its size, or fails, the client breaks off the upload, so
// the service cannot accept a part as the whole: the outcome is [OutcomeNotSent]. After an error the
// client seeks an [io.Seeker] back to its position before the upload. For any other Content that was
// read, [NextOf] says stop: open the document again. In a step of package orders [NextOf] says retry, because
// the step opens the document again.
//
// If ctx has no deadline, an upload ends after two minutes without progress. If ctx ends, or the service
// responds early, the upload does not wait for a Content that blocks: its Read may continue.
//
// If a file is larger than 256 KiB, or its size is unknown, the client first asks the service
// whether it accepts the file (Expect: 100-continue). With [WithHTTPClient] the transport's
// [http.Transport.ExpectContinueTimeout] must not be 0. With 0, the default of a transport made
// by hand, the client sends the file at once.
//
// A response other than true is an error with [OutcomeUnknown]: false does not prove that the
// service stored nothing. A file too large for the service's host is [ErrTooLarge].
type Document struct {
	Name    string    // of the file; not needed for an [os.File] or [fs.File]
	Content io.Reader // the content of the file, from the reader's position

	// Size is the number of bytes in Content, 0 if unknown. The client finds out the size of an
	// [os.File], [fs.File], [bytes.Reader], [strings.Reader], [bytes.Buffer] or [io.Seeker], and
	// sends any other reader in chunks.
	Size int64

	// Progress, if set, is called after each part with the bytes of the file given to the
	// network, and the size of the file, 0 if unknown. The calls are sequential, in a goroutine
	// of their own. The upload waits for each call. No call follows the end of the upload.
	Progress func(sent, total int64)
}

var (
	errNotAccepted = hidden("the service did not accept the document", nil)
	errOver        = errors.New("lending: the upload is over")
	errEarlyAnswer = hidden("the service answered before it had the whole document", nil)
	errNotTrue     = hidden("the answer is not true", nil)
)

func submit(ctx context.Context, c *carrier, doc Document, r request) error {
	u := newUpload(doc)
	r.query = append(r.query, param{"fileName", u.name, true})
	r.body, r.proof.accepts = u, u.accepts
	ctx, stop := u.watch(ctx)
	defer stop()
	_, err := post[bool](ctx, c, r)
	return err
}

// finish ends the upload for the transport, and puts Content back after an error of the call.
func (u *upload) finish(ctx context.Context, err error) {
	u.end()
	if failed, ok := errors.AsType[*Error](err); ok && u.asked.Load() && !u.rewind() && !base64json.Reopened(ctx) {
		failed.readOnce()
	}
}

// rewindWait is the longest wait for a Read of Content that blocks.
const rewindWait = time.Second

// rewind seeks Content back to its position before the upload. It reports false if Content cannot
// seek, or if a Read still blocks.
func (u *upload) rewind() bool {
	seeker, ok := u.document.Content.(io.Seeker)
	if !ok || u.start < 0 {
		return false
	}
	if ahead, ok := u.body.(*base64json.Ahead); ok && !ahead.Ended(rewindWait) {
		return false
	}
	_, err := seeker.Seek(u.start, io.SeekStart)
	return err == nil
}

// readOnce has [NextOf] refuse a retry, which would upload the rest of the content as the whole.
func (e *Error) readOnce() {
	next := e.next()
	if !next.Retry {
		return
	}
	text := "the content was read, open the document again"
	if e.cause != nil {
		text = redact.Describe(e.cause) + "; " + text
	}
	e.cause = hidden(text, e.cause)
	e.said = &Next{Person: next.Person || errors.Is(e, ErrMayHaveHappened)}
}

// upload is the body of a request with a document. The transport reads the upload.
type upload struct {
	name     string
	start    int64  // position of Content; -1 if Content cannot seek
	known    int64  // size that Content reports; -1 if none
	size     int64  // -1 if unknown
	unfit    string // why Content cannot be sent; "" if it can
	text     base64json.Reader
	body     encoded // text, or a reader ahead of text
	document Document
	asked    atomic.Bool // the client has called Content.Read
	sent     atomic.Int32
	stalled  *time.Timer // fires after a time without progress; nil if ctx has a deadline

	mu       sync.Mutex // held while Content and Progress are called
	over     bool       // no more calls
	panicked any        // the value of a panic in a call
}

// The values of upload.sent.
const (
	sending int32 = iota
	whole         // the transport has the last byte
	cut           // the exchange ended before that: the last byte never leaves
)

// encoded reads a document in the service's encoding.
type encoded interface {
	io.Reader
	Encoded() int64 // bytes of the file
	Closed() bool   // after the last byte
}

func newUpload(doc Document) *upload {
	u := &upload{document: doc, start: -1, known: -1}
	u.text = base64json.Reader{Source: askedReader{doc.Content, &u.asked}, Min: 1, Max: maxDocument}
	u.unfit = u.describe(doc.Content)
	u.size = u.known
	if doc.Name != "" {
		u.name = doc.Name
	}
	if doc.Size != 0 {
		u.size = doc.Size
	}
	if u.size != -1 {
		u.text.Min, u.text.Max = u.size, u.size
	}
	return u
}

// askedReader notes that it was read.
type askedReader struct {
	io.Reader

	asked *atomic.Bool
}

func (r askedReader) Read(p []byte) (int, error) {
	r.asked.Store(true)
	return r.Reader.Read(p)
}

// describe finds out the name and the remaining size of content, and whether content is in
// memory and so never blocks. unfit says why content cannot be sent.
func (u *upload) describe(content io.Reader) (unfit string) {
	if v := reflect.ValueOf(content); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return "must not be nil"
	}
	switch content := content.(type) {
	case *bytes.Buffer:
		u.known = int64(content.Len())
		u.body = &u.text
	case *bytes.Reader, *strings.Reader:
		u.body = &u.text
	case fs.File:
		info, err := content.Stat()
		if err == nil && info.IsDir() {
			u.name = info.Name()
			return "must not be a directory"
		}
		if err != nil || !info.Mode().IsRegular() {
			return "" // a pipe or a device: only reading shows its end
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
	u.start = at
	return ""
}

// check reports the failures of the service and of the transfer that can be foreseen.
func (u *upload) check(c *checks) {
	c.that(u.unfit == "", "content", CodeRequired, u.unfit)
	c.that(u.size != 0, "content", CodeRequired, "must not be empty")
	c.that(u.size <= maxDocument, "content", CodeRange, "must have at most 15 MiB")
	c.that(u.document.Size >= 0, "size", CodeRange, "must not be negative")
	c.that(u.known == -1 || u.size == u.known, "size", CodeConflict, "must be what the content holds")
}

// print writes the identity of u: name, size, and a hash of Content if it can be read twice.
func (u *upload) print(ctx context.Context, w io.Writer) error {
	fmt.Fprintf(w, "%q %d\n", u.name, u.size)
	if buffer, ok := u.document.Content.(*bytes.Buffer); ok {
		sum := sha256.Sum256(buffer.Bytes())
		_, _ = w.Write(sum[:])
		return nil
	}
	seeker, ok := u.document.Content.(io.Seeker)
	if !ok || u.known == -1 {
		return nil
	}
	at, err := seeker.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	u.asked.Store(true)
	read, sum := make(chan error, 1), sha256.New()
	go func() { // so that a Read that blocks can be abandoned
		read <- safely.Call[PanicError](func() error {
			_, err := io.Copy(sum, io.LimitReader(base64json.UntilDone{Reader: u.document.Content, Done: ctx.Done()}, maxDocument+1))
			return err
		})
	}()
	select {
	case err = <-read:
	case <-ctx.Done():
		select {
		case err = <-read:
		case <-time.After(rewindWait):
			u.start = -1 // the abandoned Read moves the position
			err = errOver
		}
	}
	if err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	_, _ = w.Write(sum.Sum(nil))
	_, err = seeker.Seek(at, io.SeekStart)
	return err
}

// watch ends ctx with the upload. If ctx has no deadline, watch also ends ctx after a time
// without progress.
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

// bind makes the upload the body of hr. When ctx ends, the upload abandons a Read that blocks,
// and fails with the error of ctx.
func (u *upload) bind(ctx context.Context, hr *http.Request) {
	if u.body == nil {
		u.body = &base64json.Ahead{Reader: &u.text, Done: ctx.Done()}
	}
	hr.Body, hr.ContentLength = u, -1
	if u.size != -1 {
		hr.ContentLength = base64json.Len(u.size)
	}
	if u.size == -1 || u.size > expectAbove {
		// So that the client can read a refusal. Without Close, net/http sends the document
		// after a refusal too, to reuse the connection.
		hr.Header["Expect"], hr.Close = expectContinue, true
	}
}

func (u *upload) isWhole() bool { return u.sent.Load() == whole }

// settle ends an exchange. The transport may go on to read after an early response.
func (u *upload) settle() { u.sent.CompareAndSwap(sending, cut) }

// Read reads the next part of the body, in a goroutine of the transport. A panic of Content or
// Progress there would end the program, so end repeats the panic in the caller's goroutine.
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
	if u.body.Closed() && !u.sent.CompareAndSwap(sending, whole) && !u.isWhole() {
		return 0, errOver
	}
	if u.stalled != nil {
		u.stalled.Reset(callTimeout)
	}
	if sent := u.body.Encoded(); u.document.Progress != nil && sent > before {
		u.document.Progress(sent, max(u.size, 0))
	}
	return n, err
}

// Close leaves Content open, for the caller.
func (u *upload) Close() error { return nil }

// end ends the upload for the transport, which may continue after its return.
func (u *upload) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.over = true
	if u.panicked != nil {
		panic(u.panicked)
	}
}

// broken returns why the body cannot be completed.
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

// accepts returns why a response does not accept the document: "200 with true on success".
func (u *upload) accepts(a *answer) error {
	switch body, failure := string(a.content().body), a.reportsFailure(); {
	case failure != nil:
		return failure
	case body == "false":
		return errNotAccepted
	case !u.isWhole():
		return errEarlyAnswer
	case body == "" || body == "null":
		return ErrNoContent
	case body != "true":
		return errNotTrue
	}
	return nil
}
