package rules

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"

	"github.com/lendingapi/lending-go/lendingtest/internal/book"
	"github.com/lendingapi/lending-go/lendingtest/record"
)

// fileLimit is the largest decoded file.
const fileLimit = 15 << 20

// upload returns the handler of an upload, which stores the description of the file: its size and digest.
func upload(describe func(*Call) record.Document, allow func(*Call, *record.Application, record.Document)) func(*Call) any {
	return func(c *Call) any {
		d := describe(c)
		c.valid()
		app := c.application()
		allow(c, app, d)
		var text *string
		err := json.Unmarshal(c.Body, &text)
		var file []byte
		if err == nil && text != nil {
			file, err = base64.StdEncoding.DecodeString(*text)
		}
		switch {
		case err != nil || text == nil:
			refuse("InvalidDocument", "The body is not one JSON string of base64.")
		case len(file) > fileLimit:
			panic(Refuse(http.StatusRequestEntityTooLarge, "FileTooLarge", "The file is larger than 15 MiB."))
		case len(file) == 0:
			refuse("EmptyDocument", "The file is empty.")
		}
		sum := sha256.Sum256(file)
		d.ID, d.CreatedUTC, d.Size, d.SHA256 = c.NewID(book.Document), c.Stamp(), int64(len(file)), hex.EncodeToString(sum[:])
		app.Documents = append(app.Documents, d)
		c.fulfil(app, d.RequirementID)
		return true
	}
}
