package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
)

// embedded learns from a service in this program, signed in as a user who may read everything.
func (l *learner) embedded(ctx context.Context) error {
	service := lendingtest.NewServer()
	defer service.Close()
	customer, err1 := lending.ParseCustomerID(seed(service.Service))
	partner, err2 := lending.ParsePartnerID(lendingtest.PartnerID)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	fmt.Fprintln(l.out, "Reading from the embedded service: nothing leaves this machine.")
	token := lending.StaticToken(service.Token(lendingtest.AdministratorUsername))
	return l.walk(ctx, service.URL, whose{customer, partner}, lending.WithTokenSource(token))
}

// seed adds a customer with two applications. The first has led to a loan.
func seed(service *lendingtest.Service) (customer string) {
	const id = "5f1c7a90-2f7b-4e0a-9b66-7c8d9e0f1a2b" // for records whose id the service does not set
	day := lendingtest.Timestamp{Time: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	customer = service.AddCustomer(lendingtest.Customer{FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com"}).ID
	service.AddApplication(lendingtest.Application{CustomerID: customer, BusinessName: "Lovelace Looms"})
	application := service.AddApplication(lendingtest.Application{
		CustomerID: customer, AgentID: id, BusinessName: "Lovelace Analytics", ExtraInformation: map[string]string{"years": "7"},
		Accounts: []lendingtest.BankAccount{{
			ID: "account-1", AccountNumber: "000123456789", Balance: "48210.55",
			Transactions: []lendingtest.BankTransaction{{Date: "2026-08-03", Description: "Invoice 1041", Amount: "12500.00"}},
		}},
		PrimaryAccountID: "account-1",
		Offer:            &lendingtest.Offer{ID: id, ApplicationID: id, Amount: 40600_00, Terms: 12, CreatedUTC: day, ExpiresUTC: day},
		ContractID:       id,
		Applicants:       []lendingtest.Applicant{{ID: id, FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com"}},
		Requirements:     []lendingtest.Requirement{{ID: id, FileType: "BankStatement", Description: "Statement of August"}},
	}).ID
	service.UpdateApplication(application, func(a *lendingtest.Application) {
		a.Messages = []lendingtest.Message{{Message: "We need a statement", Sender: "credit desk", CreatedUTC: day}}
	})
	loan := service.AddLoan(lendingtest.Loan{ApplicationID: application}).ID
	service.AddTransactions(loan, lendingtest.Transaction{Type: "direct debit", Amount: 1234_56, Description: "Repayment 1", DateUTC: day})
	service.UpdateLoan(loan, func(l *lendingtest.Loan) {
		l.Withdrawals = []lendingtest.Withdrawal{{Amount: 2500_00, AdvanceRate: 0.8, Status: "completed", DateUTC: day, CreatedUTC: day}}
	})
	service.AddSubscription(lendingtest.Subscription{WebhookURI: "https://partner.example/webhooks", Webhooks: []string{"WB_Loan_Opened"}})
	return customer
}
