package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go"
)

// money withdraws the amount from the loan, once.
func (p *prober) money(ctx context.Context) error {
	return p.steps(ctx, []step{
		{"withdrawal", fmt.Sprintf("Starting a withdrawal of %s: the service sends a one-time password.", p.o.Withdraw), p.start},
		{"wrong one-time password", "Confirming with a wrong one-time password.", func(ctx context.Context, _ bool) error {
			p.ask(ctx, "wrong one-time password", answer, func(ctx context.Context) error {
				_, err := p.client.Loans.ConfirmInvoiceWithdrawal(ctx, *p.run.Withdrawal, p.confirmation("wrong"))
				return err
			})
			return nil
		}},
		{"confirmation", "Confirming with your one-time password: this moves the money, once.", p.confirm},
	})
}

func (p *prober) confirmation(password string) lending.WithdrawInvoiceRequestData {
	return lending.WithdrawInvoiceRequestData{DateUTC: p.run.Started, OTP: lending.NewSecret(password)}
}

// start starts the withdrawal. It has no key: a second one-time password does no harm.
func (p *prober) start(ctx context.Context, _ bool) error {
	loan, err := p.client.Loans.Get(ctx, p.o.Loan)
	if err != nil {
		return err
	}
	calculation := lending.CalculationRequest{Amount: p.o.Withdraw, Terms: 6}
	if _, err := p.client.Calculation.Invoice(ctx, loan.ApplicationID, &calculation); err != nil {
		return err
	}
	withdrawal, err := p.client.Loans.WithdrawInvoice(ctx, p.o.Loan, lending.InvoiceWithdrawalRequest{Calculation: calculation})
	if err != nil {
		return err
	}
	p.run.Withdrawal = withdrawal
	return p.made("withdrawal", p.o.Loan)
}

// confirm moves the money. If an earlier run has begun it, its password may have expired.
func (p *prober) confirm(ctx context.Context, again bool) error {
	if again {
		p.t.Logf("  asking the service for a new one-time password")
		_, _ = p.client.Loans.ResendWithdrawalOTP(ctx, p.o.Loan) // refused if the money has moved
	}
	withdrawals, transactions, err := p.counts(ctx)
	if err != nil {
		return err
	}
	password, err := p.o.OTP(ctx)
	if err != nil {
		return err
	}
	var confirmed *lending.GuidApiResponse
	var r lending.Response
	err = p.mutate(lending.CaptureResponse(ctx, &r), "confirmation", func(ctx context.Context) (err error) {
		confirmed, err = p.client.Loans.ConfirmInvoiceWithdrawal(ctx, *p.run.Withdrawal, p.confirmation(password))
		return err
	})
	if err != nil {
		if lending.OutcomeOf(err) == lending.OutcomeRejected {
			p.fact("confirmation", fmt.Sprint("refused with ", r.StatusCode))
		}
		return err
	}
	p.fact("confirmation", "accepted")
	p.fact("confirmation answers", uuidForm(confirmed.Raw()))
	if again {
		p.unseen("withdrawal listed", "the run was interrupted")
		return nil
	}
	more, moved := 0, 0
	err = p.lag(ctx, "get-withdrawals", again, func() bool {
		w, t, err := p.counts(ctx)
		more, moved = w-withdrawals, t-transactions
		return err == nil && more > 0
	})
	p.fact("withdrawal listed", fmt.Sprintf("%d more withdrawals, %d more transactions", more, moved))
	return err
}

// counts returns the numbers of withdrawals and transactions.
func (p *prober) counts(ctx context.Context) (withdrawals, transactions int, err error) {
	w, err1 := p.client.Loans.Withdrawals(ctx, p.o.Loan, nil)
	t, err2 := p.client.Loans.TransactionsPaged(ctx, p.o.Loan, nil)
	if err := errors.Join(err1, err2); err != nil {
		return 0, 0, err
	}
	return w.TotalCount, t.TotalCount, nil
}

// uuidForm tells where a response has a UUID.
func uuidForm(raw json.RawMessage) string {
	var text string
	var object map[string]json.RawMessage
	isUUID := func(raw json.RawMessage) bool { return json.Unmarshal(raw, &text) == nil && uuid.Validate(text) == nil }
	if isUUID(raw) {
		return "a UUID"
	}
	if json.Unmarshal(raw, &object) != nil {
		return "another form"
	}
	for _, member := range object {
		if isUUID(member) {
			return "a UUID in an object"
		}
	}
	return "an object without a UUID"
}
