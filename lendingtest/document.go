package lendingtest

import (
	"bufio"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strconv"
)

// fileLimit is the largest decoded file.
const fileLimit = 15 << 20

var (
	errNotString = errors.New("not one JSON string")
	errNotBase64 = errors.New("not base64")
	errTooLarge  = errors.New("larger than 15 MiB")
)

// readDocument reads a JSON string of base64 as a stream, and returns only the size and the
// digest.
func readDocument(body io.Reader) (size int64, sum string, err error) {
	r := bufio.NewReaderSize(body, 64<<10)
	text := &stringReader{r: r}
	if !text.open() {
		return 0, "", errNotString
	}
	digest := sha256.New()
	size, err = io.Copy(digest, io.LimitReader(base64.NewDecoder(base64.StdEncoding, text), fileLimit+1))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok || size > fileLimit {
		return 0, "", errTooLarge
	}
	switch {
	case text.err != nil:
		return 0, "", text.err
	case err != nil:
		return 0, "", errNotBase64
	case !text.closed || !drained(r):
		return 0, "", errNotString
	}
	return size, hex.EncodeToString(digest.Sum(nil)), nil
}

// stringReader reads the text of a JSON string. Base64 needs few escapes, but .NET writes + as
// \u002B and other encoders write / as \/.
type stringReader struct {
	r      *bufio.Reader
	closed bool
	err    error
}

func (s *stringReader) open() bool {
	for {
		b, err := s.r.ReadByte()
		if err != nil || (b != ' ' && b != '\t' && b != '\r' && b != '\n') {
			return err == nil && b == '"'
		}
	}
}

func (s *stringReader) Read(p []byte) (n int, err error) {
	if s.closed {
		return 0, io.EOF
	}
	if _, err := s.r.Peek(1); err != nil {
		return 0, s.fail(err)
	}
	waiting, _ := s.r.Peek(min(s.r.Buffered(), len(p)))
	for n < len(waiting) && waiting[n] >= ' ' && waiting[n] != '"' && waiting[n] != '\\' {
		n++
	}
	copy(p, waiting[:n])
	_, _ = s.r.Discard(n)
	if n > 0 {
		return n, nil
	}
	switch b, _ := s.r.ReadByte(); b {
	case '"':
		s.closed = true
		return 0, io.EOF
	case '\\':
		p[0], err = s.escape()
		return 1, s.fail(err)
	}
	return 0, s.fail(errNotString)
}

// fail keeps the reason, which the base64 decoder would hide.
func (s *stringReader) fail(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errNotString
	}
	s.err = err
	return err
}

func (s *stringReader) escape() (byte, error) {
	b, err := s.r.ReadByte()
	if err != nil || b == '/' {
		return b, err
	}
	if b != 'u' {
		return 0, errNotString
	}
	var hex [4]byte
	if _, err := io.ReadFull(s.r, hex[:]); err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(string(hex[:]), 16, 7) // base64 is ASCII
	if err != nil {
		return 0, errNotString
	}
	return byte(n), nil
}

func (c *call) submitBankStatement() (any, error) {
	return c.upload(Document{Kind: "bank-statement", FileName: c.required("fileName")}, func(*Application) error { return nil })
}

func (c *call) submitRequiredDocument() (any, error) {
	d := Document{Kind: "required", FileName: c.required("fileName"), FileType: c.required("fileType")}
	id, ok := parseID(c.required("supportingDocumentId"))
	if !ok && id != "" {
		c.failed.add("supportingDocumentId", "InvalidGuid", "The value is not a valid identifier.")
	}
	c.concern(id)
	d.RequirementID = id
	return c.upload(d, func(app *Application) error {
		if err := c.unexpiredOffer(app); err != nil {
			return err
		}
		for _, r := range app.Requirements {
			if r.ID != d.RequirementID {
				continue
			}
			if r.FileType != d.FileType {
				return refuse("FileTypeMismatch", "The document type is not the required one.")
			}
			return nil
		}
		return refuse("RequirementNotFound", "The application has no such required document.")
	})
}

func (c *call) submitDocument() (any, error) {
	return c.upload(Document{Kind: "supporting", FileName: c.required("fileName"), FileType: c.required("fileType")}, c.unexpiredOffer)
}

// upload calls allowed before and after reading the file, because the state can change during
// the upload.
func (c *call) upload(d Document, allowed func(*Application) error) (any, error) {
	if len(c.failed) > 0 {
		return nil, c.failed.err()
	}
	c.mu.Lock()
	_, err := c.uploadTo(allowed)
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	d.Size, d.SHA256, err = readDocument(c.r.Body)
	switch {
	case errors.Is(err, errTooLarge):
		return nil, problemOf(http.StatusRequestEntityTooLarge, "FileTooLarge", "The file is larger than 15 MiB.")
	case err != nil:
		return nil, refuse("InvalidDocument", "The body is not one JSON string of base64.")
	case d.Size == 0:
		return nil, refuse("EmptyDocument", "The file is empty.")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	app, err := c.uploadTo(allowed)
	if err != nil {
		return nil, err
	}
	d.ID, d.CreatedUTC = c.newID(kindDocument), Timestamp{c.now()}
	app.Documents = append(app.Documents, d)
	c.fulfil(app, d.RequirementID)
	return true, nil
}

// uploadTo needs c.mu.
func (c *call) uploadTo(allowed func(*Application) error) (*Application, error) {
	defer c.onTimeOf(c.who)()
	app, err := c.application()
	if err != nil {
		return nil, err
	}
	return app, allowed(app)
}

// fulfil marks a requirement as fulfilled. After the last requirement the application is
// reviewed.
func (c *call) fulfil(app *Application, requirementID string) {
	open, changed := 0, false
	for i := range app.Requirements {
		r := &app.Requirements[i]
		if r.ID == requirementID && !r.IsSubmitted {
			r.IsSubmitted, changed = true, true
		}
		if !r.IsSubmitted {
			open++
		}
	}
	if changed && open == 0 {
		c.emitApplication("WB_Under_Review", app)
	}
}
