package guarantees_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

// world is what the records of one actor should look like at the service, as far as
// his calls decide it. It compares as JSON: identifiers are the service's.
type world struct {
	Customers []customerState `json:",omitempty"`
}

type (
	customerState struct {
		id           string
		Email        string
		First, City  string
		Receiver     string             `json:",omitempty"`
		Applications []applicationState `json:",omitempty"`
	}
	applicationState struct {
		id           string
		Name, Zip    string
		Status       string
		Accounts     []string `json:",omitempty"`
		Primary      string
		Runs, Offer  int
		Requirements []requirementState `json:",omitempty"`
		Company      string
		Applicants   []applicantState `json:",omitempty"`
		Documents    []string         `json:",omitempty"`
		Messages     []string         `json:",omitempty"`
		Calculation  int
		Links        int
		Loan         *loanState
	}
	requirementState struct {
		id, fileType string
		Submitted    bool
	}
	applicantState struct {
		id     string
		First  string
		Signed bool
	}
	loanState struct {
		id                 string
		Available, Balance int
		Withdrawn          []int `json:",omitempty"`
		OTPs               int
	}
)

func (w *world) text() string {
	text, err := json.Marshal(w)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// after returns a copy of w to which effect has happened.
func (w *world) after(effect func(*world)) *world {
	next := &world{}
	_ = json.Unmarshal([]byte(w.text()), next)
	if effect != nil {
		effect(next)
	}
	return next
}

// observe reads the world of the customers at domain out of the service's state.
func observe(service *lendingtest.Service, domain string) *world {
	w, state, otps := &world{}, service.Snapshot(), map[string]int{}
	for _, sent := range service.Sent() {
		if sent.Kind == "loan-otp" {
			otps[sent.LoanID]++
		}
	}
	for _, c := range state.Customers {
		if !strings.HasSuffix(c.Email, "@"+domain) {
			continue
		}
		customer := customerState{id: c.ID, Email: c.Email, First: c.FirstName, City: c.City}
		for _, s := range state.Subscriptions {
			if s.CustomerID == c.ID {
				customer.Receiver += s.WebhookURI
			}
		}
		for _, a := range state.Applications {
			if a.CustomerID != c.ID {
				continue
			}
			application := stateOf(a)
			for _, l := range state.Loans {
				if l.ApplicationID == a.ID { // a second loan would replace the first, and its balance
					loan := &loanState{
						id: l.ID, Available: int(l.AvailableBalance), Balance: int(l.Balance),
						OTPs: otps[l.ID],
					}
					for _, withdrawal := range l.Withdrawals {
						loan.Withdrawn = append(loan.Withdrawn, int(withdrawal.Amount))
					}
					application.Loan = loan
				}
			}
			customer.Applications = append(customer.Applications, application)
		}
		w.Customers = append(w.Customers, customer)
	}
	return w
}

func stateOf(a lendingtest.Application) applicationState {
	s := applicationState{
		id: a.ID, Name: a.BusinessName, Zip: a.BusinessZip, Status: a.Status, Primary: a.PrimaryAccountID,
		Runs: a.ProcessRuns, Company: string(a.Company), Links: a.LinksSent,
	}
	if a.Offer != nil {
		s.Offer = int(a.Offer.Amount)
	}
	if a.Calculation != nil {
		s.Calculation = int(a.Calculation.Amount)
	}
	for _, account := range a.Accounts {
		s.Accounts = append(s.Accounts, account.AccountNumber)
	}
	for _, r := range a.Requirements {
		s.Requirements = append(s.Requirements, requirementState{r.ID, r.FileType, r.IsSubmitted})
	}
	for _, p := range a.Applicants {
		s.Applicants = append(s.Applicants, applicantState{p.ID, p.FirstName, p.HasSigned})
	}
	for _, d := range a.Documents {
		s.Documents = append(s.Documents, d.FileName)
	}
	for _, m := range a.Messages {
		s.Messages = append(s.Messages, m.Message)
	}
	return s
}

// command is a mutation that an actor may make.
type command struct {
	route string
	call  func(context.Context, *lending.Client) error
	apply func(*world) // what it does if it happens; nil if that leaves no trace
	// check makes the read that tells after an unknown outcome; nil where the error names
	// none, or one whose answer the interface does not describe.
	check func(context.Context, *lending.Client) (happened bool, err error)
}

const (
	applicationGroup = "POST /api/Application/"
	approvalGroup    = "POST /api/ApplicationApproval/"
	bulkGroup        = "POST /api/ApplicationBulk/"
	loanGroup        = "POST /api/Loan/"
	calculationGroup = "POST /api/Calculation/"
	webhookGroup     = "POST /api/Webhook/"
	changingGroup    = "GET /api/Application/"
)

// actor makes calls on records of his own.
type actor struct {
	random  *rand.Rand
	service *lendingtest.Service
	domain  string
	made    int // names given so far
	world   *world
	seen    *world                                // the same with the service's identifiers
	begun   map[string]*lending.InvoiceWithdrawal // by loan
}

// name returns a text that nothing else has.
func (a *actor) name(kind string) string {
	a.made++
	return fmt.Sprintf("%s-%d", kind, a.made)
}

func (a *actor) user() lending.UserRequest {
	first := a.name("first")
	return lending.UserRequest{
		FirstName: first, LastName: "Lovelace", Email: first + "@" + a.domain,
		Password: lending.NewSecret("Analytical-Engine-1"), MobileNumber: "415-555-0100",
	}
}

func (a *actor) request(c customerState) lending.ApplicationRequest {
	return lending.ApplicationRequest{
		CustomerID:   lending.CustomerID(uuid.MustParse(c.id)),
		BusinessName: a.name("business"), BusinessZip: "94105",
	}
}

func createdApplication(name string) applicationState {
	return applicationState{Name: name, Zip: "94105", Status: lendingtest.StatusCreated}
}

// next chooses a command: often the next step of some application, else any.
func (a *actor) next() command {
	if len(a.seen.Customers) == 0 || a.random.IntN(20) == 0 {
		return a.newCustomer()
	}
	ci := a.random.IntN(len(a.seen.Customers))
	customer := a.seen.Customers[ci]
	if len(customer.Applications) == 0 || a.random.IntN(25) == 0 {
		return a.newApplication(ci, customer)
	}
	if a.random.IntN(20) == 0 {
		return a.webhook(ci, customer)
	}
	ai := a.random.IntN(len(customer.Applications))
	at := applicationAt{ci, ai}
	application := customer.Applications[ai]
	if a.random.IntN(3) > 0 {
		return a.step(at, application)
	}
	return a.anything(at, application)
}

// applicationAt is where an application stands in a world.
type applicationAt struct{ customer, application int }

func (at applicationAt) in(w *world) *applicationState {
	return &w.Customers[at.customer].Applications[at.application]
}

// on makes a command on an application.
func (at applicationAt) on(route string, call func(context.Context, *lending.Client) error,
	apply func(*applicationState),
) command {
	c := command{route: route, call: call}
	if apply != nil {
		c.apply = func(w *world) { apply(at.in(w)) }
	}
	return c
}

func (a *actor) newCustomer() command {
	user, other := a.user(), a.user()
	if a.random.IntN(20) == 0 {
		user.MobileNumber = "refused before it is sent"
	}
	add := func(u lending.UserRequest, apps ...applicationState) func(*world) {
		return func(w *world) {
			w.Customers = append(w.Customers, customerState{Email: u.Email, First: u.FirstName, Applications: apps})
		}
	}
	switch a.random.IntN(4) {
	case 0:
		return command{
			route: bulkGroup + "create-customers",
			call: func(ctx context.Context, c *lending.Client) error {
				return second(c.Bulk.CreateCustomers(ctx, []lending.UserRequest{user, other}))
			},
			apply: func(w *world) { add(user)(w); add(other)(w) },
		}
	case 1:
		application := createdApplication(a.name("business"))
		application.Applicants = []applicantState{{First: "Grace"}}
		return command{
			route: applicationGroup + "create-customer-and-application-and-applicant",
			call: func(ctx context.Context, c *lending.Client) error {
				return second(c.Applications.CreateWithCustomerAndApplicant(ctx,
					lending.ApplicationAndCustomerAndApplicantRequest{Extra: catalog.Unpublished{
						"firstName": other.FirstName, "lastName": "L", "email": other.Email,
						"password": "Analytical-Engine-1", "mobileNumber": "4155550100",
						"businessName": application.Name, "businessZip": application.Zip,
						"applicant": catalog.Unpublished{"firstName": "Grace"},
					}}, nil))
			},
			apply: add(other, application),
		}
	}
	return command{
		route: fake.CreateRoute,
		call: func(ctx context.Context, c *lending.Client) error {
			return second(c.Applications.CreateCustomer(ctx, user))
		},
		apply: add(user),
		check: func(ctx context.Context, c *lending.Client) (bool, error) {
			_, err := c.Customers.GetByEmail(ctx, user.Email)
			return found(err)
		},
	}
}

func (a *actor) newApplication(ci int, customer customerState) command {
	request, other := a.request(customer), a.request(customer)
	add := func(w *world, name string, applicants ...applicantState) {
		application := createdApplication(name)
		application.Applicants = applicants
		w.Customers[ci].Applications = append(w.Customers[ci].Applications, application)
	}
	switch a.random.IntN(4) {
	case 0:
		return command{
			route: bulkGroup + "create-applications",
			call: func(ctx context.Context, c *lending.Client) error {
				return second(c.Bulk.CreateApplications(ctx, []lending.ApplicationRequest{request, other}))
			},
			apply: func(w *world) { add(w, request.BusinessName); add(w, other.BusinessName) },
		}
	case 1:
		return command{
			route: applicationGroup + "create-application-and-applicant",
			call: func(ctx context.Context, c *lending.Client) error {
				return second(c.Applications.CreateWithApplicant(ctx,
					lending.ApplicationAndApplicantRequest{Extra: catalog.Unpublished{
						"customerId": customer.id, "businessName": request.BusinessName, "businessZip": "94105",
						"applicant": catalog.Unpublished{"firstName": "Grace"},
					}}, nil))
			},
			apply: func(w *world) { add(w, request.BusinessName, applicantState{First: "Grace"}) },
		}
	}
	return command{
		route: applicationGroup + "create-application",
		call: func(ctx context.Context, c *lending.Client) error {
			return second(c.Applications.Create(ctx, request, nil))
		},
		apply: func(w *world) { add(w, request.BusinessName) },
		check: func(ctx context.Context, c *lending.Client) (bool, error) {
			list, err := c.Applications.ListByCustomer(ctx, request.CustomerID)
			return len(list) > len(customer.Applications), err
		},
	}
}

// webhook subscribes the customer, who has one receiver at most.
func (a *actor) webhook(ci int, customer customerState) command {
	target := lending.ForCustomer(lending.CustomerID(uuid.MustParse(customer.id)))
	uri := "https://" + a.name("receiver") + ".example"
	set := func(uri string) func(*world) { return func(w *world) { w.Customers[ci].Receiver = uri } }
	switch a.random.IntN(3) {
	case 0:
		return command{
			route: webhookGroup + "update-webhook-uri", apply: set(uri),
			call: func(ctx context.Context, c *lending.Client) error {
				return c.Webhooks.UpdateURI(ctx, target, uri)
			},
		}
	case 1:
		return command{
			route: webhookGroup + "unregister", apply: set(""),
			call: func(ctx context.Context, c *lending.Client) error {
				return c.Webhooks.Unregister(ctx, target, lending.WebhookSubscription{WebhookURI: uri})
			},
		}
	}
	return command{
		route: webhookGroup + "register", apply: set(uri),
		call: func(ctx context.Context, c *lending.Client) error {
			return c.Webhooks.Register(ctx, target, lending.WebhookSubscription{WebhookURI: uri})
		},
		check: func(ctx context.Context, c *lending.Client) (bool, error) {
			saved, err := c.Webhooks.Subscription(ctx, target)
			happened, err := found(err)
			return happened && saved.WebhookURI == uri, err
		},
	}
}

// step is what brings an application one step closer to a withdrawal.
func (a *actor) step(at applicationAt, s applicationState) command {
	unsigned := slices.IndexFunc(s.Applicants, func(p applicantState) bool { return !p.Signed })
	switch {
	case len(s.Accounts) == 0:
		return a.bankData(at, s)
	case s.Runs == 0:
		return a.process(at, s)
	case s.Company == "":
		return a.company(at, s)
	case len(s.Applicants) == 0:
		return a.applicant(at, s)
	case s.Primary == "":
		return a.primary(at, s)
	case unsigned >= 0:
		return a.sign(at, s, unsigned)
	case s.Loan == nil:
		return a.anything(at, s)
	case s.Calculation == 0:
		return a.calculate(at, s)
	case a.begun[s.Loan.id] == nil:
		return a.begin(at, s)
	}
	return a.confirm(at, s)
}

func (a *actor) anything(at applicationAt, s applicationState) command {
	all := []func(applicationAt, applicationState) command{
		a.bankData, a.process, a.company, a.applicant, a.secondApplicant, a.primary, a.calculate, a.rename, a.move,
		a.restart,
		a.customerData, a.document, a.statement, a.message, a.link, a.cancel, a.traceless,
	}
	if len(s.Applicants) > 0 {
		all = append(all, func(at applicationAt, s applicationState) command {
			return a.sign(at, s, a.random.IntN(len(s.Applicants)))
		})
	}
	if len(s.Requirements) > 0 {
		all = append(all, a.requirement)
	}
	if s.Loan != nil {
		all = append(all, a.begin, a.begin, a.resend, a.creditLine) //nolint:gocritic // twice as likely
		if a.begun[s.Loan.id] != nil {
			all = append(all, a.confirm, a.confirm) //nolint:gocritic // twice as likely
		}
	}
	return all[a.random.IntN(len(all))](at, s)
}

func (s applicationState) applicationID() lending.ApplicationID {
	return lending.ApplicationID(uuid.MustParse(s.id))
}

func (s applicationState) loanID() lending.LoanID { return lending.LoanID(uuid.MustParse(s.Loan.id)) }

func (a *actor) bankData(at applicationAt, s applicationState) command {
	number := a.name("account")
	data := fake.AccountsWith(fake.Booked("2026-08-03", "Invoice", "12500.00"))
	accounts := data.Extra.(fake.BankData)
	accounts.Accounts[0].AccountNumber = number
	return at.on(applicationGroup+"add-or-update-banking-data/{applicationId}",
		func(ctx context.Context, c *lending.Client) error {
			return second(c.Applications.AddOrUpdateBankingData(ctx, s.applicationID(), data, nil))
		}, func(s *applicationState) {
			s.Accounts = append(s.Accounts, number)
			if s.Status == lendingtest.StatusCreated {
				s.Status = lendingtest.StatusBankingData
			}
		})
}

func (a *actor) process(at applicationAt, s applicationState) command {
	c := at.on(fake.ProcessRoute, func(ctx context.Context, c *lending.Client) error {
		return second(c.Applications.Process(ctx, s.applicationID()))
	}, func(s *applicationState) {
		s.Runs++
		s.Offer = min(len(s.Accounts)*12_500_00, 250_000_00)
		if len(s.Requirements) == 0 {
			s.Requirements = make([]requirementState, 2)
		}
		if s.Status == lendingtest.StatusCreated || s.Status == lendingtest.StatusBankingData {
			s.Status = lendingtest.StatusOfferReady
		}
	})
	if s.Runs == 0 {
		c.check = func(ctx context.Context, c *lending.Client) (bool, error) {
			_, err := c.Applications.Offer(ctx, s.applicationID(), nil)
			return found(err)
		}
	}
	return c
}

func (a *actor) company(at applicationAt, s applicationState) command {
	name := a.name("company")
	return at.on(approvalGroup+"add-company-details/{applicationId}",
		func(ctx context.Context, c *lending.Client) error {
			return c.Approval.AddCompanyDetails(ctx, s.applicationID(),
				lending.CompanyDataRequest{Extra: catalog.Unpublished{"name": name}})
		}, func(s *applicationState) {
			s.Company = `{"name":"` + name + `"}`
			if s.Status == lendingtest.StatusOfferReady {
				s.Status = lendingtest.StatusInApproval
			}
		})
}

func (a *actor) applicant(at applicationAt, s applicationState) command {
	first := a.name("applicant")
	return at.on(approvalGroup+"add-primary-applicant-details/{applicationId}",
		func(ctx context.Context, c *lending.Client) error {
			return c.Approval.AddPrimaryApplicantDetails(ctx, s.applicationID(),
				lending.PrimaryApplicantRequest{Extra: catalog.Unpublished{"firstName": first}})
		}, func(s *applicationState) {
			if len(s.Applicants) == 0 {
				s.Applicants = make([]applicantState, 1)
			}
			s.Applicants[0].First = first
		})
}

func (a *actor) secondApplicant(at applicationAt, s applicationState) command {
	first := a.name("applicant")
	c := at.on(approvalGroup+"add-secondary-applicant-details/{applicationId}",
		func(ctx context.Context, c *lending.Client) error {
			return c.Approval.AddSecondaryApplicantDetails(ctx, s.applicationID(),
				lending.SecondaryApplicantRequest{Extra: catalog.Unpublished{"firstName": first}})
		}, func(s *applicationState) { s.Applicants = append(s.Applicants, applicantState{First: first}) })
	c.check = func(ctx context.Context, c *lending.Client) (bool, error) {
		list, err := c.Approval.Applicants(ctx, s.applicationID())
		return len(list) > len(s.Applicants), err
	}
	return c
}

func (a *actor) primary(at applicationAt, s applicationState) command {
	id := fmt.Sprintf("account-%d", 1+a.random.IntN(len(s.Accounts)+1)) // the last there is not
	return at.on(approvalGroup+"set-primary-bank-account/{applicationId}/{id}",
		func(ctx context.Context, c *lending.Client) error {
			return c.Approval.SetPrimaryBankAccount(ctx, s.applicationID(), id)
		}, func(s *applicationState) { s.Primary = id })
}

func (a *actor) sign(at applicationAt, s applicationState, i int) command {
	image := lending.SignatureImage([]byte("\x89PNG"))
	return at.on(approvalGroup+"sign-contract/{applicationId}/{applicantId}",
		func(ctx context.Context, c *lending.Client) error {
			return c.Approval.SignContract(ctx, s.applicationID(),
				lending.ApplicantID(uuid.MustParse(s.Applicants[i].id)),
				&lending.SignaturesRequest{MIMEType: "image/png", Signature: image, Signature2: image})
		}, func(s *applicationState) {
			s.Applicants[i].Signed = true
			if !slices.ContainsFunc(s.Applicants, func(p applicantState) bool { return !p.Signed }) {
				s.Loan, s.Status = &loanState{Available: s.Offer}, lendingtest.StatusLoanOpened
			}
		})
}

func (a *actor) rename(at applicationAt, s applicationState) command {
	name := a.name("renamed") + " & Söhne"
	return at.on(changingGroup+"update-application-name/{applicationId}",
		func(ctx context.Context, c *lending.Client) error {
			return second(c.Applications.UpdateName(ctx, s.applicationID(), name))
		}, func(s *applicationState) { s.Name = name })
}

func (a *actor) move(at applicationAt, s applicationState) command {
	name, zip := a.name("moved"), a.name("zip")
	return at.on(changingGroup+"update-application-name-and-zip-code/{applicationId}",
		func(ctx context.Context, c *lending.Client) error {
			return second(c.Applications.UpdateNameAndZipCode(ctx, s.applicationID(), name, zip))
		}, func(s *applicationState) { s.Name, s.Zip = name, zip })
}

func (a *actor) restart(at applicationAt, s applicationState) command {
	data := lending.ApplicationData{Name: a.name("restarted"), ZipCode: a.name("zip"), StartDate: catalog.Start}
	return at.on(changingGroup+"update-application-data/{applicationId}",
		func(ctx context.Context, c *lending.Client) error {
			return second(c.Applications.UpdateData(ctx, s.applicationID(), data))
		}, func(s *applicationState) { s.Name, s.Zip = data.Name, data.ZipCode })
}

func (a *actor) customerData(at applicationAt, s applicationState) command {
	data := lending.CustomerData{
		FirstName: a.name("first"), LastName: "L", Address: "1 Main St.", State: "CA", City: a.name("city"),
		SSN: lending.NewSecret("123-45-6789"), Mobile: "415-555-0100", DateOfBirth: catalog.Born,
	}
	return command{
		route: changingGroup + "update-customer-data/{applicationId}",
		call: func(ctx context.Context, c *lending.Client) error {
			return second(c.Applications.UpdateCustomerData(ctx, s.applicationID(), data))
		},
		apply: func(w *world) {
			w.Customers[at.customer].First, w.Customers[at.customer].City = data.FirstName, data.City
		},
	}
}

func (a *actor) file(kind string) lending.Document {
	return lending.Document{
		Name:    a.name(kind) + ".pdf",
		Content: strings.NewReader(strings.Repeat("%PDF", 1+a.random.IntN(20_000))),
	}
}

func (a *actor) statement(at applicationAt, s applicationState) command {
	file := a.file("statement")
	return at.on(applicationGroup+"submit-bankstatement-document/{applicationId}",
		func(ctx context.Context, c *lending.Client) error {
			return c.Applications.SubmitBankStatement(ctx, s.applicationID(), file)
		}, func(s *applicationState) { s.Documents = append(s.Documents, file.Name) })
}

func (a *actor) document(at applicationAt, s applicationState) command {
	file := a.file("document")
	return at.on(approvalGroup+"submit-document/{applicationId}", func(ctx context.Context, c *lending.Client) error {
		return c.Approval.SubmitDocument(ctx, s.applicationID(), "Other", file)
	}, func(s *applicationState) { s.Documents = append(s.Documents, file.Name) })
}

func (a *actor) requirement(at applicationAt, s applicationState) command {
	file, i := a.file("required"), a.random.IntN(len(s.Requirements))
	wanted := s.Requirements[i]
	return at.on(approvalGroup+"submit-required-document/{applicationId}",
		func(ctx context.Context, c *lending.Client) error {
			return c.Approval.SubmitRequiredDocument(ctx, s.applicationID(),
				lending.RequirementID(uuid.MustParse(wanted.id)), wanted.fileType, file)
		}, func(s *applicationState) {
			s.Documents = append(s.Documents, file.Name)
			s.Requirements[i].Submitted = true
		})
}

func (a *actor) message(at applicationAt, s applicationState) command {
	text := a.name("message")
	c := at.on("POST /api/Communication/post-messages/{applicationId}",
		func(ctx context.Context, c *lending.Client) error {
			return c.Communication.Post(ctx, s.applicationID(),
				&lending.CommunicationRequest{Extra: catalog.Unpublished{"message": text}})
		}, func(s *applicationState) { s.Messages = append(s.Messages, text) })
	c.check = func(ctx context.Context, c *lending.Client) (bool, error) {
		list, err := c.Communication.Messages(ctx, s.applicationID(), nil)
		return len(list) > len(s.Messages), err
	}
	return c
}

func (a *actor) link(at applicationAt, s applicationState) command {
	return at.on(applicationGroup+"send-application-link", func(ctx context.Context, c *lending.Client) error {
		return c.Applications.SendLink(ctx, s.applicationID())
	}, func(s *applicationState) { s.Links++ })
}

func (a *actor) cancel(at applicationAt, s applicationState) command {
	if a.random.IntN(4) > 0 {
		return a.message(at, s) // not much happens to an application that is cancelled
	}
	return at.on(applicationGroup+"cancel-application/{applicationId}",
		func(ctx context.Context, c *lending.Client) error {
			return c.Applications.Cancel(ctx, s.applicationID())
		}, func(s *applicationState) { s.Status = lendingtest.StatusCancelled })
}

// traceless are commands of which the service keeps nothing.
func (a *actor) traceless(at applicationAt, s applicationState) command {
	switch a.random.IntN(3) {
	case 0:
		return at.on(applicationGroup+"quick-test/{applicationId}", func(ctx context.Context, c *lending.Client) error {
			return second(c.Applications.QuickTest(ctx, s.applicationID(), nil))
		}, nil)
	case 1:
		return at.on(calculationGroup+"application-loc-calculation",
			func(ctx context.Context, c *lending.Client) error {
				return second(c.Calculation.LineOfCredit(ctx, s.applicationID(),
					&lending.CalculationRequest{Amount: "1000", Terms: 6}))
			}, nil)
	}
	return at.on(changingGroup+"application-offer/{applicationId}", func(ctx context.Context, c *lending.Client) error {
		return second(c.Applications.Offer(ctx, s.applicationID(), &lending.OfferOptions{Force: true}))
	}, nil)
}

func (a *actor) calculate(at applicationAt, s applicationState) command {
	amount := 100_00 + a.random.IntN(2_000_00)
	return at.on(calculationGroup+"application-invoice-calculation",
		func(ctx context.Context, c *lending.Client) error {
			return second(c.Calculation.Invoice(ctx, s.applicationID(), calculation(amount)))
		}, func(s *applicationState) { s.Calculation = amount })
}

func calculation(cents int) *lending.CalculationRequest {
	return &lending.CalculationRequest{Amount: json.Number(lendingtest.Cents(cents).String()), Terms: 6}
}

func (a *actor) begin(at applicationAt, s applicationState) command {
	return at.on(loanGroup+"make-withdrawal-invoice/{loanId}", func(ctx context.Context, c *lending.Client) error {
		begun, err := c.Loans.WithdrawInvoice(ctx, s.loanID(),
			lending.InvoiceWithdrawalRequest{Calculation: *calculation(max(s.Calculation, 1))})
		if err == nil {
			a.begun[s.Loan.id] = begun
		}
		return err
	}, func(s *applicationState) { s.Loan.OTPs++ })
}

func (a *actor) resend(at applicationAt, s applicationState) command {
	return at.on(loanGroup+"resend-withdrawal-otp/{loanId}", func(ctx context.Context, c *lending.Client) error {
		return second(c.Loans.ResendWithdrawalOTP(ctx, s.loanID()))
	}, func(s *applicationState) { s.Loan.OTPs++ })
}

func (a *actor) creditLine(at applicationAt, s applicationState) command {
	return at.on(loanGroup+"make-withdrawal-line-of-credit/{loanId}",
		func(ctx context.Context, c *lending.Client) error {
			return second(c.Loans.WithdrawLineOfCredit(ctx, s.loanID(),
				lending.LineOfCreditWithdrawalRequest{Extra: catalog.Unpublished{"amount": 100}}))
		}, func(s *applicationState) { s.Loan.OTPs++ })
}

// confirm moves money. Without a success the withdrawal stays begun, and the next confirmation
// tries to move the money again.
func (a *actor) confirm(at applicationAt, s applicationState) command {
	begun, otp := a.begun[s.Loan.id], a.service.OTP(s.Loan.id)
	if a.random.IntN(4) == 0 {
		otp = "000000"
	}
	amount := 0
	for _, digit := range strings.ReplaceAll(begun.Amount.String(), ".", "") {
		amount = amount*10 + int(digit-'0')
	}
	c := at.on(loanGroup+"confirm-withdrawal-invoice/{loanId}", func(ctx context.Context, c *lending.Client) error {
		_, err := c.Loans.ConfirmInvoiceWithdrawal(ctx, *begun, lending.WithdrawInvoiceRequestData{
			DateUTC: time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC), OTP: lending.NewSecret(otp),
		})
		if err == nil {
			delete(a.begun, s.Loan.id)
		}
		return err
	}, func(s *applicationState) {
		s.Loan.Available -= amount
		s.Loan.Balance += amount
		s.Loan.Withdrawn = append(s.Loan.Withdrawn, amount)
	})
	c.check = func(ctx context.Context, c *lending.Client) (bool, error) {
		page, err := c.Loans.Withdrawals(ctx, s.loanID(), nil)
		if err != nil {
			return false, err
		}
		return page.TotalCount > len(s.Loan.Withdrawn), nil
	}
	return c
}
