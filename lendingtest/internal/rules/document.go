package rules

import (
	"bufio"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/lendingapi/lending-go/lendingtest/record"
)

// fileLimit is the largest decoded file.
const fileLimit = 15 << 20

var errNotString = errors.New("not one JSON string")

// readDocument reads a JSON string of base64 as a stream, and returns only the size and the digest. The size of a file
// above the limit is above the limit.
func readDocument(body io.Reader) (size int64, sum string, err error) {
	text := &stringReader{r: bufio.NewReaderSize(body, 64<<10)}
	if b, err := text.skipSpace(); err != nil || b != '"' {
		return 0, "", errNotString
	}
	digest := sha256.New()
	size, err = io.Copy(digest, io.LimitReader(base64.NewDecoder(base64.StdEncoding, text), fileLimit+1))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return fileLimit + 1, "", nil
	}
	if err == nil && size <= fileLimit && text.closed {
		if _, err = text.skipSpace(); errors.Is(err, io.EOF) {
			return size, hex.EncodeToString(digest.Sum(nil)), nil
		}
	}
	if size > fileLimit {
		return size, "", nil
	}
	return 0, "", errNotString
}

// stringReader reads the text of a JSON string. Base64 needs few escapes, but .NET writes + as
// \u002B and other encoders write / as \/.
type stringReader struct {
	r      *bufio.Reader
	closed bool
}

func (s *stringReader) skipSpace() (byte, error) {
	for {
		b, err := s.r.ReadByte()
		if err != nil || b != ' ' && b != '\t' && b != '\r' && b != '\n' {
			return b, err
		}
	}
}

func (s *stringReader) Read(p []byte) (n int, err error) {
	if s.closed {
		return 0, io.EOF
	}
	for n < len(p) && (n == 0 || s.r.Buffered() > 6) { // an escape never waits for the network behind a read byte
		b, err := s.r.ReadByte()
		switch {
		case err != nil:
			return n, errors.Join(errNotString, err)
		case b == '"':
			s.closed = true
			return n, io.EOF
		case b == '\\':
			if b, err = s.escape(); err != nil {
				return n, err
			}
		case b < ' ':
			return n, errNotString
		}
		p[n] = b
		n++
	}
	return n, nil
}

func (s *stringReader) escape() (byte, error) {
	b, err := s.r.ReadByte()
	if err != nil || b == '/' {
		return b, err
	}
	var digits [4]byte
	if _, err := io.ReadFull(s.r, digits[:]); err != nil || b != 'u' {
		return 0, errNotString
	}
	n, err := strconv.ParseUint(string(digits[:]), 16, 7) // base64 is ASCII
	if err != nil {
		return 0, errNotString
	}
	return byte(n), nil
}

// upload returns the function that reads the file of an upload before the handler has the state. The state can change
// during the upload, so allow is asked before and after.
func upload(describe func(*Call) record.Document, allow func(*Call, *record.Application)) func(*Call) {
	return func(c *Call) {
		c.document = describe(c)
		c.valid()
		c.allow = func(app *record.Application) { allow(c, app) }
		c.with(func() { c.uploadTo() })
		var err error
		c.document.Size, c.document.SHA256, err = readDocument(c.Request.Body)
		switch {
		case err != nil:
			refuse("InvalidDocument", "The body is not one JSON string of base64.")
		case c.document.Size > fileLimit:
			panic(Refuse(http.StatusRequestEntityTooLarge, "FileTooLarge", "The file is larger than 15 MiB."))
		case c.document.Size == 0:
			refuse("EmptyDocument", "The file is empty.")
		}
	}
}

func (c *Call) uploadTo() *record.Application {
	app := c.application()
	c.allow(app)
	return app
}
