package lending

import (
	"context"
	"iter"
	"math"
)

// ApplicationsService creates customers and applications, feeds bank data and leads to an offer.
//
// A list without records is empty. [IsNotFound] reports a missing application, customer or
// partner. If a method returns a bool, the meaning of false is not published. If a method other
// than an upload returns only an error, the service declares no response body; a body that is
// false or reports a failure leaves the outcome unknown.
type ApplicationsService struct{ client *carrier }

// CreateOptions are the optional parameters of the routes that create an application.
type CreateOptions struct {
	SendLink bool // ask the service to send the customer a link to the application
}

func (o *CreateOptions) query() []param {
	return []param{boolParam("sendLink", o != nil && o.SendLink)}
}

// CreateCustomer creates a customer and returns its id.
//
// The client checks the rules of [UserRequest] before it sends anything. A response without an
// id is an error with [OutcomeDone]. After an unknown outcome read [CustomersService.GetByEmail]
// before creating again. The outcome is [OutcomeRejected] if the address belongs to a customer
// already: read that customer.
//
// Route: POST /api/Application/create-customer
func (s *ApplicationsService) CreateCustomer(ctx context.Context, customer UserRequest) (*UserResponse, error) {
	return post[*UserResponse](ctx, s.client, route("/api/Application/create-customer").
		with(customer).checkedBy("Customers.GetByEmail"))
}

// Create creates an application of an existing customer and returns its id.
//
// The client checks the rules of [ApplicationRequest] before it sends anything. After an unknown
// outcome read [ApplicationsService.ListByCustomer] before creating again.
//
// Route: POST /api/Application/create-application
func (s *ApplicationsService) Create(ctx context.Context, application ApplicationRequest, opts *CreateOptions) (ApplicationID, error) {
	return post[ApplicationID](ctx, s.client, route("/api/Application/create-application").
		where(opts.query()...).with(application).checkedBy("Applications.ListByCustomer"))
}

// CreateWithApplicant creates an application and its applicant for an existing customer and
// returns the application's id.
//
// After an unknown outcome read [ApplicationsService.ListByCustomer] before creating again.
//
// Route: POST /api/Application/create-application-and-applicant
func (s *ApplicationsService) CreateWithApplicant(ctx context.Context, application ApplicationAndApplicantRequest, opts *CreateOptions) (ApplicationID, error) {
	return post[ApplicationID](ctx, s.client, route("/api/Application/create-application-and-applicant").
		where(opts.query()...).with(application).checkedBy("Applications.ListByCustomer"))
}

// CreateWithCustomerAndApplicant creates a customer, an application and its applicant in one
// call.
//
// After an unknown outcome read [CustomersService.GetByEmail] and
// [ApplicationsService.ListByCustomer] before creating again.
//
// Route: POST /api/Application/create-customer-and-application-and-applicant
func (s *ApplicationsService) CreateWithCustomerAndApplicant(ctx context.Context, application ApplicationAndCustomerAndApplicantRequest, opts *CreateOptions) (*ApplicationCustomerResponse, error) {
	return post[*ApplicationCustomerResponse](ctx, s.client,
		route("/api/Application/create-customer-and-application-and-applicant").
			where(opts.query()...).with(application).checkedBy("Customers.GetByEmail, Applications.ListByCustomer"))
}

// CreateWithCustomer creates a customer and an application in one call. The service validates
// both before it creates either.
//
// After an unknown outcome read [CustomersService.GetByEmail] and
// [ApplicationsService.ListByCustomer] before creating again.
//
// Deprecated: the service marks the route as deprecated. Use
// [ApplicationsService.CreateCustomer] and [ApplicationsService.Create], or
// [ApplicationsService.CreateWithCustomerAndApplicant].
//
// Route: POST /api/Application/create-customer-and-application
func (s *ApplicationsService) CreateWithCustomer(ctx context.Context, application ApplicationAndCustomerRequest, opts *CreateOptions) (*ApplicationCustomerResponse, error) {
	return post[*ApplicationCustomerResponse](ctx, s.client, route("/api/Application/create-customer-and-application").
		where(opts.query()...).with(application).checkedBy("Customers.GetByEmail, Applications.ListByCustomer"))
}

// SendLink asks the service to send the customer a link to the application.
//
// After an unknown outcome no read shows whether the service sent the link: a second call may
// send the link twice.
//
// Route: POST /api/Application/send-application-link
func (s *ApplicationsService) SendLink(ctx context.Context, id ApplicationID) error {
	return postNoContent(ctx, s.client, route("/api/Application/send-application-link").
		where(required("applicationId", id.String())))
}

// QuickTest has the service test bank data without storing an application step.
//
// data may be nil, which is null on the wire. Some hosts want a request, even an empty one. After
// an unknown outcome read [ApplicationsService.Status].
//
// Route: POST /api/Application/quick-test/{applicationId}
func (s *ApplicationsService) QuickTest(ctx context.Context, id ApplicationID, data *BankingDataRequest) (bool, error) {
	return post[bool](ctx, s.client, route("/api/Application/quick-test/{applicationId}", id.String()).
		with(data).checkedBy("Applications.Status"))
}

// BankingDataOptions are the optional parameters of AddOrUpdateBankingData.
type BankingDataOptions struct {
	BankName string
}

// AddOrUpdateBankingData gives the application its bank accounts and transactions, or replaces
// them. Call it before [ApplicationsService.Process]; without transactions there is no offer.
//
// data may be nil, which is null on the wire. Some hosts want a request, even an empty one. After
// an unknown outcome read [ApprovalService.BankAccounts]; sending the same data again is an update.
//
// Route: POST /api/Application/add-or-update-banking-data/{applicationId}
func (s *ApplicationsService) AddOrUpdateBankingData(ctx context.Context, id ApplicationID, data *BankingDataRequest, opts *BankingDataOptions) (bool, error) {
	var bankName string
	if opts != nil {
		bankName = opts.BankName
	}
	return post[bool](ctx, s.client, route("/api/Application/add-or-update-banking-data/{applicationId}", id.String()).
		where(param{"bankName", bankName, false}).with(data).checkedBy("Approval.BankAccounts"))
}

// Process runs the application through underwriting and returns the offer's id.
//
// This GET changes state: the client sends it once. After an unknown outcome read
// [ApplicationsService.Status] and [ApplicationsService.Offer] before calling again. With an
// idempotency key the call succeeds with a zero OfferID if the response is lost, and a person or a
// check of yours says that the processing happened: no other route needs the id.
//
// A success is no offer yet. A declined application has a status that your contract names, and
// never an offer. An offer that has expired needs another call, with another key.
//
// Route: GET /api/Application/process-application/{applicationId}
func (s *ApplicationsService) Process(ctx context.Context, id ApplicationID) (OfferID, error) {
	return mutatingGet[OfferID](ctx, s.client, route("/api/Application/process-application/{applicationId}", id.String()).
		checkedBy("Applications.Status, Applications.Offer"))
}

// Status returns the application's status as the service spells it. The set of values is not
// published.
//
// Route: GET /api/Application/application-status/{applicationId}
func (s *ApplicationsService) Status(ctx context.Context, id ApplicationID) (string, error) {
	return get[string](ctx, s.client, route("/api/Application/application-status/{applicationId}", id.String()))
}

// OfferOptions are the optional parameters of Offer.
type OfferOptions struct {
	// Force is passed on to the service, which does not describe the effect. The client treats a
	// call with Force as a mutation.
	Force bool
}

// Offer returns the application's offer. [ApplicationsService.Process] produces the offer, which
// can expire.
//
// [IsNotFound] reports a missing offer or application, but never after a call with Force. After
// an unknown outcome of a call with Force, read the offer without Force. With Force and an
// idempotency key the call succeeds with an empty record if the mutation happened and its response
// is lost.
//
// Route: GET /api/Application/application-offer/{applicationId}
func (s *ApplicationsService) Offer(ctx context.Context, id ApplicationID, opts *OfferOptions) (*OfferResponse, error) {
	r := route("/api/Application/application-offer/{applicationId}", id.String())
	if opts == nil || !opts.Force {
		return get[*OfferResponse](ctx, s.client, r)
	}
	return mutatingGet[*OfferResponse](ctx, s.client, r.where(boolParam("force", true)).checkedBy("Applications.Offer"))
}

// ListByCustomer returns the applications of a customer.
//
// Route: GET /api/Application/get-customer-applications/{customerId}
func (s *ApplicationsService) ListByCustomer(ctx context.Context, id CustomerID) ([]Application, error) {
	return get[[]Application](ctx, s.client, route("/api/Application/get-customer-applications/{customerId}", id.String()))
}

// ListByPartner returns applications of a partner. The service sets no limit: without options it
// returns the whole list. [ApplicationsService.AllByPartner] reads page by page.
//
// Route: GET /api/Application/get-partner-applications/{partnerId}
func (s *ApplicationsService) ListByPartner(ctx context.Context, id PartnerID, opts *ListOptions) ([]Application, error) {
	return get[[]Application](ctx, s.client, route("/api/Application/get-partner-applications/{partnerId}", id.String()).
		page(opts.paged(), math.MaxInt32))
}

// AllByPartner yields all applications of a partner. It calls
// [ApplicationsService.ListByPartner] until a page is empty, and otherwise works as
// [LoansService.AllTransactions].
func (s *ApplicationsService) AllByPartner(ctx context.Context, id PartnerID, opts *ListOptions) iter.Seq2[Application, error] {
	return walk(ctx, opts.paged(), func(ctx context.Context, part *PagedOptions) page[Application] {
		return pageOfList(s.ListByPartner(ctx, id, part.list()))
	})
}

// Get returns an application.
//
// Route: GET /api/Application/get-application/{applicationId}
func (s *ApplicationsService) Get(ctx context.Context, id ApplicationID) (*Application, error) {
	return get[*Application](ctx, s.client, route("/api/Application/get-application/{applicationId}", id.String()))
}

// UpdateName gives the application's business another name, which must not be empty.
//
// This GET changes state: the client sends it once. After an unknown outcome read
// [ApplicationsService.Get].
//
// Route: GET /api/Application/update-application-name/{applicationId}
func (s *ApplicationsService) UpdateName(ctx context.Context, id ApplicationID, name string) (bool, error) {
	return mutatingGet[bool](ctx, s.client, route("/api/Application/update-application-name/{applicationId}", id.String()).
		where(required("name", name)).checkedBy("Applications.Get"))
}

// UpdateNameAndZipCode gives the application's business another name and zip code. Both are
// required: the interface does not say how the service treats a missing value.
//
// This GET changes state: the client sends it once. After an unknown outcome read
// [ApplicationsService.Get].
//
// Route: GET /api/Application/update-application-name-and-zip-code/{applicationId}
func (s *ApplicationsService) UpdateNameAndZipCode(ctx context.Context, id ApplicationID, name, zipCode string) (bool, error) {
	return mutatingGet[bool](ctx, s.client,
		route("/api/Application/update-application-name-and-zip-code/{applicationId}", id.String()).
			where(required("name", name), required("zipCode", zipCode)).checkedBy("Applications.Get"))
}

// UpdateCustomerData changes the data of the customer behind an application.
//
// This GET changes state: the client sends it once. Personal data travel in the query, so the
// service's access logs may contain them. The date of birth has no zone on the wire, so a host in
// any zone keeps the day. After an unknown outcome read [CustomersService.GetByID].
//
// Route: GET /api/Application/update-customer-data/{applicationId}
func (s *ApplicationsService) UpdateCustomerData(ctx context.Context, id ApplicationID, data CustomerData) (bool, error) {
	return mutatingGet[bool](ctx, s.client, route("/api/Application/update-customer-data/{applicationId}", id.String()).
		where(data.query()...).checkedBy("Customers.GetByID"))
}

// UpdateData changes name, zip code and start date of the application's business.
//
// This GET changes state: the client sends it once. After an unknown outcome read
// [ApplicationsService.Get].
//
// Route: GET /api/Application/update-application-data/{applicationId}
func (s *ApplicationsService) UpdateData(ctx context.Context, id ApplicationID, data ApplicationData) (bool, error) {
	return mutatingGet[bool](ctx, s.client, route("/api/Application/update-application-data/{applicationId}", id.String()).
		where(data.query()...).checkedBy("Applications.Get"))
}

// Cancel cancels the application. The status that follows is not published.
//
// After an unknown outcome read [ApplicationsService.Status].
//
// Route: POST /api/Application/cancel-application/{applicationId}
func (s *ApplicationsService) Cancel(ctx context.Context, id ApplicationID) error {
	return postNoContent(ctx, s.client, route("/api/Application/cancel-application/{applicationId}", id.String()).
		checkedBy("Applications.Status"))
}

// SubmitBankStatement uploads a bank statement: see [Document]. The application needs no offer,
// unlike for the uploads of [ApprovalService]. After an unknown outcome read
// [ApplicationsService.Status].
//
// Route: POST /api/Application/submit-bankstatement-document/{applicationId}
func (s *ApplicationsService) SubmitBankStatement(ctx context.Context, id ApplicationID, doc Document) error {
	return submit(ctx, s.client, doc, route("/api/Application/submit-bankstatement-document/{applicationId}", id.String()).
		checkedBy("Applications.Status"))
}
