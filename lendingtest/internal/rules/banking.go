package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lendingapi/lending-go/internal/assumption"
	"github.com/lendingapi/lending-go/lendingtest/internal/book"
	"github.com/lendingapi/lending-go/lendingtest/record"
)

// bankingData reads this model's BankingDataRequest: at least one account, and amounts as numbers in strings. The body
// is optional.
func (c *Call) bankingData() (accounts []record.BankAccount, present bool) {
	var req struct {
		Accounts []record.BankAccount `json:"accounts"`
	}
	if !c.decode(&req) {
		return nil, false
	}
	if len(req.Accounts) == 0 {
		c.failed.add("accounts", "Required", "At least one bank account is required.")
	}
	for i, a := range req.Accounts {
		at := fmt.Sprintf("accounts[%d].", i)
		c.failed.require(at+"accountNumber", a.AccountNumber != "")
		c.checkAmount(at+"balance", a.Balance)
		for j, t := range a.Transactions {
			c.checkAmount(fmt.Sprintf("%stransactions[%d].amount", at, j), t.Amount)
		}
		req.Accounts[i].Transactions = list(a.Transactions)
	}
	c.valid()
	return req.Accounts, true
}

func (c *Call) checkAmount(field, amount string) {
	if _, ok := record.ParseCents(amount); !ok {
		c.failed.add(field, "InvalidAmount", "The amount is not a number of at most two decimals.")
	}
}

// addBankingData adds accounts, or updates the accounts with a known number. The interface makes
// the body optional: without a body nothing changes and the response is false.
func (c *Call) addBankingData(app *record.Application) any {
	accounts, present := c.bankingData()
	if !present {
		return false
	}
	twice := c.learned(assumption.SameValue, assumption.TwoAccounts)
	for _, a := range accounts {
		upsertAccount(app, a, twice)
	}
	app.BankName = c.query.Get("bankName")
	if app.Status == record.StatusCreated {
		c.SetStatus(app, record.StatusBankingData)
	}
	c.EmitApplication("WB_Bank_Transactions_Refresh", app)
	return true
}

func upsertAccount(app *record.Application, a record.BankAccount, twice bool) {
	i := slices.IndexFunc(app.Accounts, func(b record.BankAccount) bool { return b.AccountNumber == a.AccountNumber })
	if i >= 0 && !twice {
		a.ID = app.Accounts[i].ID
		app.Accounts[i] = a
		return
	}
	a.ID = fmt.Sprintf("account-%d", len(app.Accounts)+1)
	app.Accounts = append(app.Accounts, a)
}

// quickTest reports whether the data would lead to an offer, and stores nothing.
func (c *Call) quickTest(app *record.Application) any {
	accounts, present := c.bankingData()
	if !present {
		accounts = app.Accounts
	}
	_, enough := underwrite(accounts)
	return enough
}

// underwrite computes an offer from bank data: the sum of the credits, rounded down to full
// hundreds, from 5,000 to 250,000. Without transactions there is no offer.
func underwrite(accounts []record.BankAccount) (amount record.Cents, enough bool) {
	for _, a := range accounts {
		for _, t := range a.Transactions {
			enough = true
			if !strings.HasPrefix(t.Amount, "-") {
				credit, _ := record.ParseCents(t.Amount)
				amount += credit
			}
		}
	}
	amount -= amount % 100_00
	return min(max(amount, 5_000_00), 250_000_00), enough
}

// process is the GET that must not be repeated: each run makes a new offer, which replaces the
// offer before.
func (c *Call) process(app *record.Application) any {
	amount, enough := underwrite(app.Accounts)
	if !enough {
		refuse("InsufficientBankingData", "The bank data holds no transactions to make an offer from.")
	}
	if second := c.Learned(assumption.SecondProcessing, ""); second != "" && app.Offer != nil && !expired(c, app) {
		switch second {
		case "200 with another id":
		case assumption.SameOffer:
			return c.otherID("process answers", app.Offer.ID)
		default:
			refuse("SecondProcessing", "The application has an offer.")
		}
	}
	app.ProcessRuns++
	offer := &record.Offer{ID: c.NewID(book.Offer), ApplicationID: app.ID, Amount: amount, Terms: 12, CreatedUTC: c.Stamp()}
	c.renew(offer)
	c.EmitApplication("WB_Application_Current_Process", app)
	c.Decide(app, offer)
	return c.otherID("process answers", offer.ID)
}

func (c *Call) renew(o *record.Offer) {
	o.ExpiresUTC = record.Timestamp{Time: c.Now().Add(book.OfferLifetime)}
}

// applicationOffer returns the offer, expired or not. In this model force renews an expired
// offer; the interface does not document force.
func (c *Call) applicationOffer(app *record.Application) any {
	offer := offerOf(app)
	if c.flag("force") && expired(c, app) {
		c.renew(offer)
	}
	return struct {
		record.Offer
		IsExpired bool `json:"isExpired"`
	}{*offer, expired(c, app)}
}

// offerOf refuses an application without an offer.
func offerOf(app *record.Application) *record.Offer {
	if app.Offer == nil {
		refuse("OfferNotFound", "The application has no offer.")
	}
	return app.Offer
}

func expired(c *Call, app *record.Application) bool {
	return !c.Now().Before(app.Offer.ExpiresUTC.Time)
}

// unexpiredOffer refuses an expired offer. Approval uploads and signing call it.
func unexpiredOffer(c *Call, app *record.Application) {
	refuseCancelled(app)
	if offerOf(app); expired(c, app) {
		refuse("OfferExpired", "The offer has expired.")
	}
}
