package rules

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/lendingapi/lending-go/lendingtest/internal/book"
	"github.com/lendingapi/lending-go/lendingtest/record"
)

// fileLimit is the largest decoded file.
const fileLimit = 15 << 20

// upload returns the handler of a kind of document, which stores the description of the file: its size and digest.
func upload(kind string) func(*Call) any {
	return func(c *Call) any {
		d := record.Document{Kind: kind, FileName: c.required("fileName")}
		if kind != "bank-statement" {
			d.FileType = c.required("fileType")
		}
		if kind == "required" {
			if id := c.required("supportingDocumentId"); id != "" {
				d.RequirementID = c.failed.identifier("supportingDocumentId", id)
			}
			c.concern(d.RequirementID)
		}
		c.valid()
		app := c.application()
		if kind != "bank-statement" {
			unexpiredOffer(c, app)
		}
		i := slices.IndexFunc(app.Requirements, func(r record.Requirement) bool {
			return kind == "required" && r.ID == d.RequirementID
		})
		switch {
		case kind == "required" && i < 0:
			refuse("RequirementNotFound", "The application has no such required document.")
		case i >= 0 && app.Requirements[i].FileType != d.FileType:
			refuse("FileTypeMismatch", "The document type is not the required one.")
		}
		file := c.file()
		sum := sha256.Sum256(file)
		d.ID, d.CreatedUTC, d.Size, d.SHA256 = c.NewID(book.Document), c.Stamp(), int64(len(file)), hex.EncodeToString(sum[:])
		app.Documents = append(app.Documents, d)
		if i >= 0 {
			c.fulfil(app, i)
		}
		return true
	}
}

// file returns the decoded body.
func (c *Call) file() (file []byte) {
	var text *string
	err := json.Unmarshal(c.Body, &text)
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
	return file
}
