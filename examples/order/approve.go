package order

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"

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
		HasSigned bool                `json:"hasSigned,omitzero"`
	}
	account struct {
		ID string `json:"id"`
	}
	requirement struct {
		ID          lending.RequirementID `json:"supportingDocumentId"`
		FileType    string                `json:"fileType"`
		IsSubmitted bool                  `json:"isSubmitted"`
	}
)

func bankData() *lending.BankingDataRequest {
	return &lending.BankingDataRequest{Extra: json.RawMessage(`{"accounts": [{
		"accountName": "Business checking", "accountNumber": "000123456789", "routingNumber": "110000000", "balance": "48210.55",
		"transactions": [{"date": "2026-08-03", "description": "Invoice 1041", "amount": "12500.00"}]
	}]}`)}
}

// approve does the approval, from the offer to the signed contract.
func (p *Partner) approve(ctx context.Context, o Order) error {
	approval, application := p.Client.Approval, o.Application
	err := approval.AddCompanyDetails(o.key(ctx, "company"), application, lending.CompanyDataRequest{
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
	if err := p.submitDocuments(ctx, o); err != nil {
		return err
	}
	return p.sign(ctx, o)
}

// submitDocuments uploads the required documents. The key contains the kind of the document.
func (p *Partner) submitDocuments(ctx context.Context, o Order) error {
	list := func(ctx context.Context) ([]requirement, error) {
		return lending.ListAs[requirement](p.Client.Approval.RequiredDocuments(ctx, o.Application))
	}
	required, err := list(ctx)
	if err != nil {
		return err
	}
	for _, wanted := range required {
		submitted := func(ctx context.Context) (bool, error) {
			now, err := list(ctx)
			return slices.ContainsFunc(now, func(r requirement) bool { return r.ID == wanted.ID && r.IsSubmitted }), err
		}
		scan := bytes.NewReader(bytes.Repeat([]byte("%PDF "), 1000)) // a real program opens a file
		err := p.Client.Approval.SubmitRequiredDocument(p.checked(ctx, o, "document/"+wanted.FileType, submitted), o.Application,
			wanted.ID, wanted.FileType, lending.Document{Name: "scan.pdf", Content: scan})
		if err != nil {
			return err
		}
	}
	return nil
}

// sign has every applicant sign the contract.
func (p *Partner) sign(ctx context.Context, o Order) error {
	list := func(ctx context.Context) ([]person, error) {
		return lending.ListAs[person](p.Client.Approval.Applicants(ctx, o.Application))
	}
	applicants, err := list(ctx)
	if err != nil {
		return err
	}
	image := lending.SignatureImage([]byte("the picture of a signature"))
	for _, applicant := range applicants {
		signed := func(ctx context.Context) (bool, error) {
			now, err := list(ctx)
			return slices.ContainsFunc(now, func(s person) bool { return s.ID == applicant.ID && s.HasSigned }), err
		}
		err := p.Client.Approval.SignContract(p.checked(ctx, o, "sign/"+applicant.ID.String(), signed), o.Application, applicant.ID,
			&lending.SignaturesRequest{
				IPAddress: "192.0.2.1", MIMEType: "image/png", Signature: image, Signature2: image,
			})
		if err != nil {
			return err
		}
	}
	return nil
}

// checked returns a context with the key of a mutation, and with the check of the partner.
func (p *Partner) checked(
	ctx context.Context, o Order, mutation string, happened func(context.Context) (bool, error),
) context.Context {
	ctx = o.key(ctx, mutation)
	if p.Persons != nil && p.Persons(o) {
		return ctx
	}
	return withCheck(ctx, happened)
}

// withCheck returns the context of a key with a check of the partner's own: happened reads an
// unpublished field.
func withCheck(ctx context.Context, happened func(context.Context) (bool, error)) context.Context {
	return idempotency.WithCheck(ctx, func(ctx context.Context) (idempotency.Verdict, error) {
		switch is, err := happened(ctx); {
		case err != nil:
			return idempotency.Verdict{}, err
		case is:
			return idempotency.Happened(nil), nil
		}
		return idempotency.NotHappened(), nil
	})
}
