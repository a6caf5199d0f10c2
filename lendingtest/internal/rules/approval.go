package rules

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/lendingapi/lending-go/lendingtest/internal/book"
	"github.com/lendingapi/lending-go/lendingtest/record"
)

// The steps of this model, in order: offer, company, primary applicant, secondary applicants,
// primary bank account, signatures. A step is rejected before its predecessor.
func outOfOrder(missing string) error {
	return refuse("StepOutOfOrder", "This step needs the %s first.", missing)
}

// approving returns an application with an offer. The offer may have expired: only uploads and
// signing need an unexpired offer.
func (c *Call) approving() (*record.Application, error) {
	app, err := c.openApplication()
	if err == nil && app.Offer == nil {
		return nil, outOfOrder("offer")
	}
	return app, err
}

func (c *Call) addCompany(app *record.Application) (any, error) {
	text, err := c.object()
	if err != nil {
		return nil, err
	}
	app.Company = text
	if app.Status == record.StatusOfferReady {
		c.SetStatus(app, record.StatusInApproval)
	}
	return nil, nil
}

// addPrimaryApplicant also replaces the applicant of an earlier call or of a creation with
// applicant.
func (c *Call) addPrimaryApplicant(app *record.Application) (any, error) {
	text, err := c.object()
	if err != nil {
		return nil, err
	}
	switch {
	case app.Company == nil:
		return nil, outOfOrder("company details")
	case signed(app):
		return nil, refuse("AlreadySigned", "Somebody has signed: the applicants can no longer change.")
	case len(app.Applicants) == 0:
		c.addApplicant(app, text)
	default:
		readApplicant(&app.Applicants[0], text)
	}
	return nil, nil
}

func (c *Call) addSecondaryApplicant(app *record.Application) (any, error) {
	text, err := c.object()
	if err != nil {
		return nil, err
	}
	switch {
	case app.Company == nil || len(app.Applicants) == 0:
		return nil, outOfOrder("primary applicant")
	case signed(app):
		return nil, refuse("AlreadySigned", "Somebody has signed: the applicants can no longer change.")
	}
	c.addApplicant(app, text)
	c.EmitApplication("WB_Send_Secondary_Applicant_Notice", app)
	return nil, nil
}

func signed(a *record.Application) bool {
	return slices.ContainsFunc(a.Applicants, func(b record.Applicant) bool { return b.HasSigned })
}

func (c *Call) applicants(app *record.Application) (any, error) {
	return applicants(app), nil
}

// applicants returns the applicants without their records, which contain personal data.
func applicants(a *record.Application) []record.Applicant {
	all := append([]record.Applicant{}, a.Applicants...)
	for i := range all {
		all[i].Record = nil
	}
	return all
}

func (c *Call) bankAccounts(app *record.Application) (any, error) {
	return append([]record.BankAccount{}, app.Accounts...), nil
}

func (c *Call) primaryBankAccount(app *record.Application) (any, error) {
	if i := account(app, app.PrimaryAccountID); i >= 0 {
		return app.Accounts[i], nil
	}
	return null{}, nil
}

func account(a *record.Application, id string) int {
	return slices.IndexFunc(a.Accounts, func(b record.BankAccount) bool { return b.ID == id })
}

func (c *Call) setPrimaryBankAccount(app *record.Application) (any, error) {
	id := c.Request.PathValue("id")
	if account(app, id) < 0 {
		return nil, notFound("BankAccount")
	}
	c.concern(id)
	app.PrimaryAccountID = id
	return nil, nil
}

func (c *Call) requiredDocuments(app *record.Application) (any, error) {
	return append([]record.Requirement{}, app.Requirements...), nil
}

// contract is this model's ContractDocumentResponse. An application has a contract once it has
// an offer and an applicant.
type contract struct {
	ID            string `json:"id"`
	ApplicationID string `json:"applicationId"`
	Name          string `json:"name"`
	IsSigned      bool   `json:"isSigned"`
}

func contracts(a *record.Application) []contract {
	if a.Offer == nil || len(a.Applicants) == 0 {
		return []contract{}
	}
	return []contract{{a.ContractID, a.ID, "Business Loan Agreement", allSigned(a)}}
}

func allSigned(a *record.Application) bool {
	return !slices.ContainsFunc(a.Applicants, func(b record.Applicant) bool { return !b.HasSigned })
}

func (c *Call) contracts(app *record.Application) (any, error) {
	return contracts(app), nil
}

// contractDetails adds the terms and the signers.
func (c *Call) contractDetails(app *record.Application) (any, error) {
	type details struct {
		contract
		OfferID    string             `json:"offerId"`
		Amount     record.Cents       `json:"amount"`
		Terms      int                `json:"terms"`
		Applicants []record.Applicant `json:"applicants"`
	}
	all := []details{}
	for _, one := range contracts(app) {
		all = append(all, details{one, app.Offer.ID, app.Offer.Amount, app.Offer.Terms, applicants(app)})
	}
	return all, nil
}

// signContract opens the loan when the last applicant signs.
func (c *Call) signContract(app *record.Application) (any, error) {
	applicantID, err := c.id("applicantId")
	if err != nil {
		return nil, err
	}
	if err := unexpiredOffer(c, app); err != nil {
		return nil, err
	}
	var req struct{ MimeType, Signature, Signature2 string }
	if _, err := c.decode(&req); err != nil { // the body is optional, the signatures are required
		return nil, err
	}
	for _, text := range []struct{ field, value string }{{"signature", req.Signature}, {"signature2", req.Signature2}} {
		if image, err := base64.StdEncoding.DecodeString(text.value); err != nil || len(image) == 0 {
			c.failed.add(text.field, "InvalidSignature", "The signature is not a base64 image, or is empty.")
		}
	}
	if !strings.HasPrefix(req.MimeType, "image/") {
		c.failed.add("mimeType", "InvalidMimeType", "The type is not an image's.")
	}
	i := slices.IndexFunc(app.Applicants, func(a record.Applicant) bool { return a.ID == applicantID })
	switch {
	case len(c.failed) > 0:
		return nil, c.failed.err()
	case i < 0:
		return nil, refuse("ApplicantNotInApplication", "The applicant does not belong to the application.")
	case app.Company == nil:
		return nil, outOfOrder("company details")
	case app.PrimaryAccountID == "":
		return nil, outOfOrder("primary bank account")
	case app.Applicants[i].HasSigned:
		return nil, refuse("AlreadySigned", "The applicant has signed already.")
	}
	app.Applicants[i].HasSigned = true
	if allSigned(app) {
		c.openLoan(app)
	}
	return nil, nil
}

func bankStatement(c *Call) record.Document {
	return record.Document{Kind: "bank-statement", FileName: c.required("fileName")}
}

func anyTime(*Call, *record.Application) error { return nil }

func requiredDocument(c *Call) record.Document {
	d := record.Document{Kind: "required", FileName: c.required("fileName"), FileType: c.required("fileType")}
	id, ok := record.ParseID(c.required("supportingDocumentId"))
	if !ok && id != "" {
		c.failed.add("supportingDocumentId", "InvalidGuid", "The value is not a valid identifier.")
	}
	c.concern(id)
	d.RequirementID = id
	return d
}

func whileRequired(c *Call, app *record.Application) error {
	if err := unexpiredOffer(c, app); err != nil {
		return err
	}
	i := slices.IndexFunc(app.Requirements, func(r record.Requirement) bool { return r.ID == c.document.RequirementID })
	switch {
	case i < 0:
		return refuse("RequirementNotFound", "The application has no such required document.")
	case app.Requirements[i].FileType != c.document.FileType:
		return refuse("FileTypeMismatch", "The document type is not the required one.")
	}
	return nil
}

func supportingDocument(c *Call) record.Document {
	return record.Document{Kind: "supporting", FileName: c.required("fileName"), FileType: c.required("fileType")}
}

// submit stores the description of an upload that has been read.
func (c *Call) submit() (any, error) {
	app, err := c.uploadTo()
	if err != nil {
		return nil, err
	}
	c.document.ID, c.document.CreatedUTC = c.NewID(book.Document), c.Stamp()
	app.Documents = append(app.Documents, c.document)
	c.fulfil(app, c.document.RequirementID)
	return true, nil
}

// fulfil marks a requirement as fulfilled. After the last requirement the application is
// reviewed.
func (c *Call) fulfil(app *record.Application, requirementID string) {
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
		c.EmitApplication("WB_Under_Review", app)
	}
}

// openLoan makes the loan of an application after the last signature.
func (c *Call) openLoan(app *record.Application) {
	loan := &record.Loan{
		ID: c.NewID(book.Loan), ApplicationID: app.ID, CustomerID: app.CustomerID,
		Amount: app.Offer.Amount, AvailableBalance: app.Offer.Amount, IsEnabled: true, CreatedUTC: c.Stamp(),
	}
	c.concern(loan.ID)
	c.Loans.Put(loan.ID, loan)
	c.SetStatus(app, record.StatusLoanOpened)
	c.EmitLoan("WB_Loan_Created", loan, nil)
	c.EmitLoan("WB_Loan_Opened", loan, nil)
}

func (c *Call) messages(app *record.Application) (any, error) {
	return page(c, app.Messages, takeCap), nil
}

// postMessage takes any object and stores the text in "message". The body is optional; without a
// body there is no message.
func (c *Call) postMessage(app *record.Application) (any, error) {
	var req struct{ Message string }
	if present, err := c.decode(&req); err != nil || !present {
		return nil, err
	}
	m := record.Message{ID: c.NewID(book.Message), Message: req.Message, Sender: c.account.Username, CreatedUTC: c.Stamp()}
	app.Messages = append(app.Messages, m)
	c.Emit(book.Target{PartnerID: app.PartnerID, CustomerID: app.CustomerID}, "WB_Communication_Sent", app.ID, map[string]any{
		"applicationId": app.ID, "messageId": m.ID, "message": m.Message,
	})
	return nil, nil
}
