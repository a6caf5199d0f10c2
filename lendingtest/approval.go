package lendingtest

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
)

// The steps of this model, in order: offer, company, primary applicant, secondary applicants,
// primary bank account, signatures. A step is rejected before its predecessor.
func outOfOrder(missing string) error {
	return refuse("StepOutOfOrder", "This step needs the %s first.", missing)
}

// approving returns an application with an offer. The offer may have expired: only uploads and
// signing need an unexpired offer.
func (c *call) approving() (*Application, error) {
	app, err := c.openApplication()
	if err == nil && app.Offer == nil {
		return nil, outOfOrder("offer")
	}
	return app, err
}

func (c *call) addCompany(app *Application) (any, error) {
	record, err := c.object()
	if err != nil {
		return nil, err
	}
	app.Company = record
	if app.Status == StatusOfferReady {
		c.setStatus(app, StatusInApproval)
	}
	return nil, nil
}

// addPrimaryApplicant also replaces the applicant of an earlier call or of a creation with
// applicant.
func (c *call) addPrimaryApplicant(app *Application) (any, error) {
	record, err := c.object()
	if err != nil {
		return nil, err
	}
	switch {
	case app.Company == nil:
		return nil, outOfOrder("company details")
	case app.signed():
		return nil, refuse("AlreadySigned", "Somebody has signed: the applicants can no longer change.")
	case len(app.Applicants) == 0:
		c.addApplicant(app, record)
	default:
		app.Applicants[0].read(record)
	}
	return nil, nil
}

func (c *call) addSecondaryApplicant(app *Application) (any, error) {
	record, err := c.object()
	if err != nil {
		return nil, err
	}
	switch {
	case app.Company == nil || len(app.Applicants) == 0:
		return nil, outOfOrder("primary applicant")
	case app.signed():
		return nil, refuse("AlreadySigned", "Somebody has signed: the applicants can no longer change.")
	}
	c.addApplicant(app, record)
	c.emitApplication("WB_Send_Secondary_Applicant_Notice", app)
	return nil, nil
}

func (a *Application) signed() bool {
	return slices.ContainsFunc(a.Applicants, func(b Applicant) bool { return b.HasSigned })
}

// addApplicant adds a signer. The first signer is the primary applicant.
func (c *call) addApplicant(app *Application, record json.RawMessage) string {
	if len(record) == 0 || string(record) == "null" {
		return ""
	}
	a := Applicant{ID: c.newID(kindApplicant), IsPrimary: len(app.Applicants) == 0}
	a.read(record)
	app.Applicants = append(app.Applicants, a)
	return a.ID
}

// read stores a record, which may be any object, and its three fields that this model returns
// later.
func (a *Applicant) read(record json.RawMessage) {
	var who struct{ FirstName, LastName, Email string }
	_ = json.Unmarshal(record, &who) // other objects are allowed
	a.FirstName, a.LastName, a.Email, a.Record = who.FirstName, who.LastName, who.Email, record
}

func (c *call) applicants(app *Application) (any, error) {
	return app.applicants(), nil
}

// applicants returns the applicants without their records, which contain personal data.
func (a *Application) applicants() []Applicant {
	all := append([]Applicant{}, a.Applicants...)
	for i := range all {
		all[i].Record = nil
	}
	return all
}

func (c *call) bankAccounts(app *Application) (any, error) {
	return append([]BankAccount{}, app.Accounts...), nil
}

func (c *call) primaryBankAccount(app *Application) (any, error) {
	if i := app.account(app.PrimaryAccountID); i >= 0 {
		return app.Accounts[i], nil
	}
	return null{}, nil
}

func (a *Application) account(id string) int {
	return slices.IndexFunc(a.Accounts, func(b BankAccount) bool { return b.ID == id })
}

func (c *call) setPrimaryBankAccount(app *Application) (any, error) {
	id := c.r.PathValue("id")
	if app.account(id) < 0 {
		return nil, notFound("BankAccount")
	}
	c.concern(id)
	app.PrimaryAccountID = id
	return nil, nil
}

func (c *call) requiredDocuments(app *Application) (any, error) {
	return append([]Requirement{}, app.Requirements...), nil
}

// contract is this model's ContractDocumentResponse. An application has a contract once it has
// an offer and an applicant.
type contract struct {
	ID            string `json:"id"`
	ApplicationID string `json:"applicationId"`
	Name          string `json:"name"`
	IsSigned      bool   `json:"isSigned"`
}

func (a *Application) contracts() []contract {
	if a.Offer == nil || len(a.Applicants) == 0 {
		return []contract{}
	}
	return []contract{{a.ContractID, a.ID, "Business Loan Agreement", a.allSigned()}}
}

func (a *Application) allSigned() bool {
	return !slices.ContainsFunc(a.Applicants, func(b Applicant) bool { return !b.HasSigned })
}

func (c *call) contracts(app *Application) (any, error) {
	return app.contracts(), nil
}

// contractDetails adds the terms and the signers.
func (c *call) contractDetails(app *Application) (any, error) {
	type details struct {
		contract
		OfferID    string      `json:"offerId"`
		Amount     Cents       `json:"amount"`
		Terms      int         `json:"terms"`
		Applicants []Applicant `json:"applicants"`
	}
	all := []details{}
	for _, one := range app.contracts() {
		all = append(all, details{one, app.Offer.ID, app.Offer.Amount, app.Offer.Terms, app.applicants()})
	}
	return all, nil
}

// signContract opens the loan when the last applicant signs.
func (c *call) signContract(app *Application) (any, error) {
	applicantID, err := c.id("applicantId")
	if err != nil {
		return nil, err
	}
	if err := c.unexpiredOffer(app); err != nil {
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
	i := slices.IndexFunc(app.Applicants, func(a Applicant) bool { return a.ID == applicantID })
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
	if app.allSigned() {
		c.openLoan(app)
	}
	return nil, nil
}
