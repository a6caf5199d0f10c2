package lending

import (
	"context"
	"encoding/base64"
)

// ApprovalService takes an application with an offer through approval: company, applicants, bank
// account, contracts, signatures and documents.
//
// A list without records is empty. [IsNotFound] reports a missing application. If a method other
// than an upload returns only an error, the service declares no response body; a body that is
// false or reports a failure leaves the outcome unknown.
type ApprovalService struct{ client *carrier }

// CompanyDataRequest describes the company, in unpublished fields.
type CompanyDataRequest struct {
	Extra any `json:"-"` // marshals to a JSON object
}

// PrimaryApplicantRequest describes the first applicant, in unpublished fields.
type PrimaryApplicantRequest struct {
	Extra any `json:"-"` // marshals to a JSON object
}

// SecondaryApplicantRequest describes the second applicant, in unpublished fields.
type SecondaryApplicantRequest struct {
	Extra any `json:"-"` // marshals to a JSON object
}

// ContractDocumentResponse is a contract document.
type ContractDocumentResponse struct{ Record }

// ContractDetails is the content of a contract.
type ContractDetails struct{ Record }

// PublicApiApplicantResponse is an applicant. An unpublished field holds the id for
// [ApprovalService.SignContract].
//
//nolint:revive,staticcheck // the interface spells it so
type PublicApiApplicantResponse struct{ Record }

// PublicApiBankFeedAccountResponse is a bank account of the application. An unpublished field
// holds the id for [ApprovalService.SetPrimaryBankAccount].
//
//nolint:revive,staticcheck // the interface spells it so
type PublicApiBankFeedAccountResponse struct{ Record }

// SupportDocumentDetails is a required document. Unpublished fields hold the id of the
// requirement and the document type for [ApprovalService.SubmitRequiredDocument].
type SupportDocumentDetails struct{ Record }

// SignaturesRequest signs a contract. Both images are required.
type SignaturesRequest struct {
	IPAddress  string `json:"ipAddress,omitzero"` // of the signer
	MIMEType   string `json:"mimeType,omitzero"`  // of the images, for example "image/png"
	Signature  Secret `json:"signature"`          // from [SignatureImage]
	Signature2 Secret `json:"signature2"`         // from [SignatureImage]
	// SecondaryApplicant is any value that marshals to JSON, or nil: the interface names the
	// field and not its type.
	SecondaryApplicant any `json:"secondaryApplicant,omitzero"`
	Extra              any `json:"-"` // further fields: marshals to a JSON object
}

// SignatureImage hides the image of a signature in base64, for [SignaturesRequest].
func SignatureImage(image []byte) Secret {
	return NewSecret(base64.StdEncoding.EncodeToString(image))
}

func (r SignaturesRequest) check(c *checks) {
	c.image("signature", r.Signature)
	c.image("signature2", r.Signature2)
}

func (c *checks) image(field string, image Secret) {
	c.secret(!image.IsZero(), field)
	_, err := base64.StdEncoding.DecodeString(image.Reveal())
	c.that(err == nil, field, CodeFormat, "must be base64, as SignatureImage returns it")
}

// AddCompanyDetails gives the application its company.
//
// After an unknown outcome read [ApplicationsService.Get]: no published field shows the company,
// but an unpublished field may.
//
// Route: POST /api/ApplicationApproval/add-company-details/{applicationId}
func (s *ApprovalService) AddCompanyDetails(ctx context.Context, id ApplicationID, company CompanyDataRequest) error {
	return postNoContent(ctx, s.client, route("/api/ApplicationApproval/add-company-details/{applicationId}", id.String()).
		with(company).checkedBy("Applications.Get"))
}

// AddPrimaryApplicantDetails gives the application its first applicant.
//
// After an unknown outcome read [ApprovalService.Applicants].
//
// Route: POST /api/ApplicationApproval/add-primary-applicant-details/{applicationId}
func (s *ApprovalService) AddPrimaryApplicantDetails(ctx context.Context, id ApplicationID, applicant PrimaryApplicantRequest) error {
	return postNoContent(ctx, s.client,
		route("/api/ApplicationApproval/add-primary-applicant-details/{applicationId}", id.String()).
			with(applicant).checkedBy("Approval.Applicants"))
}

// AddSecondaryApplicantDetails gives the application its second applicant.
//
// After an unknown outcome read [ApprovalService.Applicants].
//
// Route: POST /api/ApplicationApproval/add-secondary-applicant-details/{applicationId}
func (s *ApprovalService) AddSecondaryApplicantDetails(ctx context.Context, id ApplicationID, applicant SecondaryApplicantRequest) error {
	return postNoContent(ctx, s.client,
		route("/api/ApplicationApproval/add-secondary-applicant-details/{applicationId}", id.String()).
			with(applicant).checkedBy("Approval.Applicants"))
}

// Contracts returns the contract documents of the application.
//
// Route: GET /api/ApplicationApproval/get-contracts/{applicationId}
func (s *ApprovalService) Contracts(ctx context.Context, id ApplicationID) ([]ContractDocumentResponse, error) {
	return get[[]ContractDocumentResponse](ctx, s.client,
		route("/api/ApplicationApproval/get-contracts/{applicationId}", id.String()))
}

// ContractDetails returns the content of the application's contracts. Read it before
// [ApprovalService.SignContract].
//
// Route: GET /api/ApplicationApproval/get-contract-details/{applicationId}
func (s *ApprovalService) ContractDetails(ctx context.Context, id ApplicationID) ([]ContractDetails, error) {
	return get[[]ContractDetails](ctx, s.client,
		route("/api/ApplicationApproval/get-contract-details/{applicationId}", id.String()))
}

// Applicants returns the applicants of the application. [ApprovalService.SignContract] needs the
// id of an applicant.
//
// Route: GET /api/ApplicationApproval/get-all-applicants/{applicationId}
func (s *ApprovalService) Applicants(ctx context.Context, id ApplicationID) ([]PublicApiApplicantResponse, error) {
	return get[[]PublicApiApplicantResponse](ctx, s.client,
		route("/api/ApplicationApproval/get-all-applicants/{applicationId}", id.String()))
}

// BankAccounts returns the bank accounts of the application.
//
// Route: GET /api/ApplicationApproval/get-all-bank-accounts/{applicationId}
func (s *ApprovalService) BankAccounts(ctx context.Context, id ApplicationID) ([]PublicApiBankFeedAccountResponse, error) {
	return get[[]PublicApiBankFeedAccountResponse](ctx, s.client,
		route("/api/ApplicationApproval/get-all-bank-accounts/{applicationId}", id.String()))
}

// PrimaryBankAccount returns the chosen bank account. The shape of the response is not declared.
// [IsNotFound] reports a missing choice or application.
//
// Route: GET /api/ApplicationApproval/get-primary-bank-account/{applicationId}
func (s *ApprovalService) PrimaryBankAccount(ctx context.Context, id ApplicationID) (*Record, error) {
	return get[*Record](ctx, s.client,
		route("/api/ApplicationApproval/get-primary-bank-account/{applicationId}", id.String()).orNone())
}

// SetPrimaryBankAccount chooses an account of [ApprovalService.BankAccounts] by its id, which is
// a string and may not be a UUID.
//
// After an unknown outcome read [ApprovalService.PrimaryBankAccount].
//
// Route: POST /api/ApplicationApproval/set-primary-bank-account/{applicationId}/{id}
func (s *ApprovalService) SetPrimaryBankAccount(ctx context.Context, id ApplicationID, accountID string) error {
	return postNoContent(ctx, s.client,
		route("/api/ApplicationApproval/set-primary-bank-account/{applicationId}/{id}", id.String(), accountID).
			checkedBy("Approval.PrimaryBankAccount"))
}

// SignContract signs the contract for an applicant of the same application. After the expiry of
// the offer the outcome is [OutcomeRejected]: [ApplicationsService.Process] makes a new offer. Read [ApprovalService.ContractDetails] and [ApprovalService.Applicants] first.
//
// signatures may be nil, which is null on the wire. Some hosts want a request, even an empty one.
// After an unknown outcome read [ApprovalService.Applicants], [ApprovalService.ContractDetails] and
// [ApprovalService.Contracts] before signing again.
//
// Route: POST /api/ApplicationApproval/sign-contract/{applicationId}/{applicantId}
func (s *ApprovalService) SignContract(ctx context.Context, id ApplicationID, applicant ApplicantID, signatures *SignaturesRequest) error {
	return postNoContent(ctx, s.client,
		route("/api/ApplicationApproval/sign-contract/{applicationId}/{applicantId}", id.String(), applicant.String()).
			with(signatures).checkedBy("Approval.Applicants, Approval.ContractDetails, Approval.Contracts"))
}

// RequiredDocuments returns the required documents. [ApprovalService.SubmitRequiredDocument]
// uploads them.
//
// Route: GET /api/ApplicationApproval/get-required-documents/{applicationId}
func (s *ApprovalService) RequiredDocuments(ctx context.Context, id ApplicationID) ([]SupportDocumentDetails, error) {
	return get[[]SupportDocumentDetails](ctx, s.client,
		route("/api/ApplicationApproval/get-required-documents/{applicationId}", id.String()))
}

// SubmitRequiredDocument uploads a required document: see [Document]. requirement and fileType
// are the id and the document type from [ApprovalService.RequiredDocuments]. fileType is not a
// content type.
//
// After the expiry of the offer the outcome is [OutcomeRejected]. After an unknown outcome read
// [ApprovalService.RequiredDocuments].
//
// Route: POST /api/ApplicationApproval/submit-required-document/{applicationId}
func (s *ApprovalService) SubmitRequiredDocument(ctx context.Context, id ApplicationID, requirement RequirementID, fileType string, doc Document) error {
	return submit(ctx, s.client, doc,
		route("/api/ApplicationApproval/submit-required-document/{applicationId}", id.String()).
			where(required("supportingDocumentId", requirement.String()), required("fileType", fileType)).
			checkedBy("Approval.RequiredDocuments"))
}

// SubmitDocument uploads a document without a requirement: see [Document]. The service requires
// fileType, a document type, but does not use it when it stores the file.
//
// After the expiry of the offer the outcome is [OutcomeRejected]. After an unknown outcome no read
// shows whether the document arrived.
//
// Route: POST /api/ApplicationApproval/submit-document/{applicationId}
func (s *ApprovalService) SubmitDocument(ctx context.Context, id ApplicationID, fileType string, doc Document) error {
	return submit(ctx, s.client, doc, route("/api/ApplicationApproval/submit-document/{applicationId}", id.String()).
		where(required("fileType", fileType)))
}
