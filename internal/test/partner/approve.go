package partner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
)

// The service does not publish the fields below. They are the fields of the embedded service; a
// partner writes structs for the fields of the real service.
type (
	company struct {
		LegalName string `json:"legalName"`
		TaxID     string `json:"taxId"`
	}
	person struct {
		ID        lending.ApplicantID `json:"id,omitzero"`
		FirstName string              `json:"firstName"`
		LastName  string              `json:"lastName"`
		Email     string              `json:"email"`
	}
	account struct {
		ID string `json:"id"`
	}
	requirement struct {
		ID       lending.RequirementID `json:"supportingDocumentId"`
		FileType string                `json:"fileType"`
	}
)

func bankData() *lending.BankingDataRequest {
	return &lending.BankingDataRequest{Extra: json.RawMessage(`{"accounts": [{
		"accountName": "Business checking", "accountNumber": "000123456789", "routingNumber": "110000000", "balance": "48210.55",
		"transactions": [{"date": "2026-08-03", "description": "Invoice 1041", "amount": "12500.00"}]
	}]}`)}
}

// approve does the approval, from the offer to the signed contract.
func (p *Partner) approve(ctx context.Context, o Order, application lending.ApplicationID) error {
	approval := p.Client.Approval
	// This partner knows that sending the same details again changes nothing.
	err := approval.AddCompanyDetails(idempotency.SafeToRepeat(o.key(ctx, "company")), application, lending.CompanyDataRequest{
		Extra: company{"Lovelace Analytics, LLC", "12-3456789"},
	})
	if err != nil {
		return err
	}
	err = approval.AddPrimaryApplicantDetails(o.key(ctx, "applicant"), application, lending.PrimaryApplicantRequest{
		Extra: person{FirstName: "Ada", LastName: "Lovelace", Email: o.Email},
	})
	if err != nil {
		return err
	}
	accounts, err := lending.ListAs[account](approval.BankAccounts(ctx, application))
	if err != nil {
		return err
	}
	if len(accounts) == 0 {
		return errors.New("the application has no bank account")
	}
	if err := approval.SetPrimaryBankAccount(o.key(ctx, "account"), application, accounts[0].ID); err != nil {
		return err
	}
	if err := p.submitDocuments(ctx, o, application); err != nil {
		return err
	}
	return p.sign(ctx, o, application)
}

// submitDocuments uploads the required documents. The key contains the kind of the document.
func (p *Partner) submitDocuments(ctx context.Context, o Order, application lending.ApplicationID) error {
	required, err := lending.ListAs[requirement](p.Client.Approval.RequiredDocuments(ctx, application))
	if err != nil {
		return err
	}
	for _, wanted := range required {
		scan := bytes.NewReader(bytes.Repeat([]byte("%PDF "), 1000)) // a real program opens a file
		err := p.Client.Approval.SubmitRequiredDocument(o.key(ctx, "document/"+wanted.FileType), application, wanted.ID, wanted.FileType,
			lending.Document{Name: "scan.pdf", Content: scan})
		if err != nil {
			return err
		}
	}
	return nil
}

// sign has every applicant sign the contract.
func (p *Partner) sign(ctx context.Context, o Order, application lending.ApplicationID) error {
	applicants, err := lending.ListAs[person](p.Client.Approval.Applicants(ctx, application))
	if err != nil {
		return err
	}
	image := lending.SignatureImage([]byte("the picture of a signature"))
	for _, applicant := range applicants {
		err := p.Client.Approval.SignContract(o.key(ctx, "sign/"+applicant.ID.String()), application, applicant.ID, &lending.SignaturesRequest{
			IPAddress: "192.0.2.1", MIMEType: "image/png", Signature: image, Signature2: image,
		})
		if err != nil {
			return err
		}
	}
	return nil
}
