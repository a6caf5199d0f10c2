package main

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/lendingapi/lending-go"
)

// The service does not publish the fields below. They are the fields of the embedded service;
// write structs for the fields of the real service.
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
	requirement struct {
		ID          lending.RequirementID `json:"supportingDocumentId"`
		FileType    string                `json:"fileType"`
		Description string                `json:"description"`
	}
)

// approve goes from the offer to the signed contract.
func approve(ctx context.Context, out io.Writer, client *lending.Client, application lending.ApplicationID) error {
	if err := client.Approval.AddCompanyDetails(ctx, application, lending.CompanyDataRequest{
		Extra: company{"Lovelace Analytics, LLC", "12-3456789"},
	}); err != nil {
		return err
	}
	if err := client.Approval.AddPrimaryApplicantDetails(ctx, application, lending.PrimaryApplicantRequest{
		Extra: person{FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com"},
	}); err != nil {
		return err
	}
	say(out, "Added the details of the company and the applicant.")
	if err := chooseAccount(ctx, out, client, application); err != nil {
		return err
	}
	if err := submitDocuments(ctx, out, client, application); err != nil {
		return err
	}
	return sign(ctx, out, client, application)
}

// chooseAccount makes the first bank account the primary one.
func chooseAccount(ctx context.Context, out io.Writer, client *lending.Client, application lending.ApplicationID) error {
	accounts, err := client.Approval.BankAccounts(ctx, application)
	if err != nil {
		return err
	}
	if len(accounts) == 0 {
		return errors.New("the application has no bank account")
	}
	var first struct{ ID, AccountName string }
	if err := accounts[0].Decode(&first); err != nil {
		return err
	}
	say(out, "Chose the account %q for payments.", first.AccountName)
	return client.Approval.SetPrimaryBankAccount(ctx, application, first.ID)
}

// submitDocuments uploads the required documents.
func submitDocuments(ctx context.Context, out io.Writer, client *lending.Client, application lending.ApplicationID) error {
	required, err := client.Approval.RequiredDocuments(ctx, application)
	if err != nil {
		return err
	}
	scan := bytes.Repeat([]byte("%PDF "), 100_000) // a real program opens a file
	for _, record := range required {
		var wanted requirement
		if err := record.Decode(&wanted); err != nil {
			return err
		}
		if err := client.Approval.SubmitRequiredDocument(ctx, application, wanted.ID, wanted.FileType, lending.Document{
			Name:    "scan.pdf",
			Content: bytes.NewReader(scan),
		}); err != nil {
			return err
		}
		say(out, "The service asked for %q: uploaded %d bytes.", wanted.Description, len(scan))
	}
	return nil
}

// sign reads the contract and signs it for every applicant.
func sign(ctx context.Context, out io.Writer, client *lending.Client, application lending.ApplicationID) error {
	contracts, err := client.Approval.ContractDetails(ctx, application)
	if err != nil {
		return err
	}
	for _, contract := range contracts {
		var shown struct{ Name string }
		if err := contract.Decode(&shown); err != nil {
			return err
		}
		say(out, "The contract is %q.", shown.Name)
	}
	applicants, err := client.Approval.Applicants(ctx, application)
	if err != nil {
		return err
	}
	image := lending.SignatureImage([]byte("the picture of a signature"))
	for _, record := range applicants {
		var applicant person
		if err := record.Decode(&applicant); err != nil {
			return err
		}
		if err := client.Approval.SignContract(ctx, application, applicant.ID, &lending.SignaturesRequest{
			IPAddress: "192.0.2.1", MIMEType: "image/png", Signature: image, Signature2: image,
		}); err != nil {
			return err
		}
		say(out, "%s %s signed.", applicant.FirstName, applicant.LastName)
	}
	return nil
}
