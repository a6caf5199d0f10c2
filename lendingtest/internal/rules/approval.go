package rules

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/lendingapi/lending-go/internal/assumption"
	"github.com/lendingapi/lending-go/lendingtest/internal/book"
	"github.com/lendingapi/lending-go/lendingtest/internal/plain"
	"github.com/lendingapi/lending-go/lendingtest/record"
)

// The steps of this model, in order: offer, company, primary applicant, secondary applicants,
// primary bank account, signatures. A step is rejected before its predecessor.
func outOfOrder(missing string) {
	refuse("StepOutOfOrder", "This step needs the "+missing+" first.")
}

// approving returns an application with an offer. The offer may have expired: only uploads and
// signing need an unexpired offer.
func (c *Call) approving() *record.Application {
	app := c.openApplication()
	if app.Offer == nil {
		outOfOrder("offer")
	}
	return app
}

func (c *Call) addCompany(app *record.Application) any {
	app.Company = c.object()
	if app.Status == record.StatusOfferReady {
		c.SetStatus(app, record.StatusInApproval)
	}
	return nil
}

// addPrimaryApplicant also replaces the applicant of an earlier call or of a creation with
// applicant.
func (c *Call) addPrimaryApplicant(app *record.Application) any {
	text := c.newSigner(app, app.Company != nil, "company details")
	if len(app.Applicants) == 0 {
		c.addApplicant(app, text)
	} else {
		readApplicant(&app.Applicants[0], text)
	}
	return nil
}

func (c *Call) addSecondaryApplicant(app *record.Application) any {
	c.addApplicant(app, c.newSigner(app, app.Company != nil && len(app.Applicants) > 0, "primary applicant"))
	c.EmitApplication("WB_Send_Secondary_Applicant_Notice", app)
	return nil
}

// newSigner reads an applicant for an application that is ready and that nobody has signed.
func (c *Call) newSigner(app *record.Application, ready bool, missing string) json.RawMessage {
	text := c.object()
	if !ready {
		outOfOrder(missing)
	}
	if slices.ContainsFunc(app.Applicants, func(a record.Applicant) bool { return a.HasSigned }) {
		refuse("AlreadySigned", "Somebody has signed: the applicants can no longer change.")
	}
	return text
}

// applicants returns the applicants without their records, which contain personal data.
func applicants(a *record.Application) any {
	all := []any{}
	for i := range a.Applicants {
		all = append(all, plain.Wire(&a.Applicants[i]))
	}
	return all
}

func primaryBankAccount(app *record.Application) any {
	if i := account(app, app.PrimaryAccountID); i >= 0 {
		return app.Accounts[i]
	}
	return null{}
}

func account(a *record.Application, id string) int {
	return slices.IndexFunc(a.Accounts, func(b record.BankAccount) bool { return b.ID == id })
}

func (c *Call) setPrimaryBankAccount(app *record.Application) any {
	id := c.Request.PathValue("id")
	if account(app, id) < 0 {
		panic(notFound("BankAccount"))
	}
	c.concern(id)
	app.PrimaryAccountID = id
	return nil
}

// contracts returns this model's ContractDocumentResponse. An application has a contract once it has an offer and an
// applicant.
func contracts(a *record.Application) []fields {
	if a.Offer == nil || len(a.Applicants) == 0 {
		return []fields{}
	}
	return []fields{{
		"id": a.ContractID, "applicationId": a.ID, "name": "Business Loan Agreement", "isSigned": allSigned(a),
	}}
}

func allSigned(a *record.Application) bool {
	return !slices.ContainsFunc(a.Applicants, func(b record.Applicant) bool { return !b.HasSigned })
}

// contractDetails adds the terms and the signers.
func contractDetails(app *record.Application) any {
	all := contracts(app)
	for _, one := range all {
		one["offerId"], one["amount"], one["terms"] = app.Offer.ID, app.Offer.Amount, app.Offer.Terms
		one["applicants"] = applicants(app)
	}
	return all
}

// signContract opens the loan when the last applicant signs.
func (c *Call) signContract(app *record.Application) any {
	applicantID := c.id("applicantId")
	unexpiredOffer(c, app)
	var req struct{ MimeType, Signature, Signature2 string }
	c.decode(&req) // the body is optional, the signatures are required
	for _, text := range []struct{ field, value string }{{"signature", req.Signature}, {"signature2", req.Signature2}} {
		if image, err := base64.StdEncoding.DecodeString(text.value); err != nil || len(image) == 0 {
			c.failed.add(text.field, "InvalidSignature", "The signature is not a base64 image, or is empty.")
		}
	}
	if !strings.HasPrefix(req.MimeType, "image/") {
		c.failed.add("mimeType", "InvalidMimeType", "The type is not an image's.")
	}
	i := slices.IndexFunc(app.Applicants, func(a record.Applicant) bool { return a.ID == applicantID })
	c.valid()
	switch {
	case i < 0:
		refuse("ApplicantNotInApplication", "The applicant does not belong to the application.")
	case app.Company == nil:
		outOfOrder("company details")
	case app.PrimaryAccountID == "":
		outOfOrder("primary bank account")
	case app.Applicants[i].HasSigned:
		refuse("AlreadySigned", "The applicant has signed already.")
	}
	app.Applicants[i].HasSigned = true
	if allSigned(app) {
		c.openLoan(app)
	}
	return nil
}

// fulfil marks a requirement as fulfilled. After the last requirement the application is
// reviewed.
func (c *Call) fulfil(app *record.Application, i int) {
	changed := !app.Requirements[i].IsSubmitted
	app.Requirements[i].IsSubmitted = true
	if changed && !slices.ContainsFunc(app.Requirements, func(r record.Requirement) bool { return !r.IsSubmitted }) {
		c.EmitApplication("WB_Under_Review", app)
	}
}

// openLoan makes the loan of an application after the last signature.
func (c *Call) openLoan(app *record.Application) {
	loan := c.AddLoan(record.Loan{ApplicationID: app.ID, Amount: app.Offer.Amount}, "")
	c.concern(loan.ID)
	c.SetStatus(app, record.StatusLoanOpened)
	c.EmitLoan("WB_Loan_Created", loan, nil)
	c.EmitLoan("WB_Loan_Opened", loan, nil)
}

func (c *Call) messages(app *record.Application) any {
	all := list(app.Messages)
	if c.learned(assumption.MessageOrder, assumption.NewestFirst) {
		slices.Reverse(all)
	}
	return page(c, all, takeCap)
}

// postMessage takes any object and stores the text in "message". The body is optional; without a
// body there is no message.
func (c *Call) postMessage(app *record.Application) any {
	var req struct{ Message string }
	if !c.decode(&req) {
		return nil
	}
	m := record.Message{ID: c.NewID(book.Message), Message: req.Message, Sender: c.account.Username, CreatedUTC: c.Stamp()}
	app.Messages = append(app.Messages, m)
	c.Emit(book.Target{PartnerID: app.PartnerID, CustomerID: app.CustomerID}, "WB_Communication_Sent", app.ID, map[string]any{
		"applicationId": app.ID, "messageId": m.ID, "message": m.Message,
	})
	return nil
}

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
		app := lookUp[record.Application](c)
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

func (c *Call) file() (file []byte) {
	var text *string
	err := json.Unmarshal(c.text(), &text)
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
