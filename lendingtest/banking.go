package lendingtest

import (
	"fmt"
	"slices"
	"strings"
)

// bankingData is this model's BankingDataRequest.
type bankingData struct {
	Accounts []struct {
		AccountName   string `json:"accountName"`
		AccountNumber string `json:"accountNumber"`
		RoutingNumber string `json:"routingNumber"`
		AccountType   string `json:"accountType"`
		Balance       any    `json:"balance"`
		Transactions  []struct {
			Date        string `json:"date"`
			Description string `json:"description"`
			Amount      any    `json:"amount"`
		} `json:"transactions"`
	} `json:"accounts"`
}

// accounts checks the record: at least one account, and amounts as strings.
func (b *bankingData) accounts(f *failures) []BankAccount {
	if len(b.Accounts) == 0 {
		f.add("accounts", "Required", "At least one bank account is required.")
	}
	var all []BankAccount
	for i, a := range b.Accounts {
		at := fmt.Sprintf("accounts[%d].", i)
		if a.AccountNumber == "" {
			f.add(at+"accountNumber", "Required", "The accountNumber field is required.")
		}
		row := BankAccount{
			AccountName: a.AccountName, AccountNumber: a.AccountNumber, RoutingNumber: a.RoutingNumber,
			AccountType: a.AccountType, Balance: amountText(at+"balance", a.Balance, f), Transactions: []BankTransaction{},
		}
		for j, t := range a.Transactions {
			row.Transactions = append(row.Transactions, BankTransaction{
				Date: t.Date, Description: t.Description,
				Amount: amountText(fmt.Sprintf("%stransactions[%d].amount", at, j), t.Amount, f),
			})
		}
		all = append(all, row)
	}
	return all
}

// amountText reads an amount, which must be a number in a string.
func amountText(field string, v any, f *failures) string {
	s, ok := v.(string)
	if !ok {
		f.add(field, "InvalidType", "The amount is not a string.")
	} else if _, ok := parseCents(s); !ok {
		f.add(field, "InvalidAmount", "The amount is not a number of at most two decimals.")
	}
	return s
}

// addBankingData adds accounts, or updates the accounts with a known number. The interface makes
// the body optional: without a body nothing changes and the response is false.
func (c *call) addBankingData(app *Application) (any, error) {
	var req bankingData
	present, err := c.decode(&req)
	if err != nil || !present {
		return false, err
	}
	accounts := req.accounts(&c.failed)
	if len(c.failed) > 0 {
		return nil, c.failed.err()
	}
	for _, a := range accounts {
		c.upsertAccount(app, a)
	}
	app.BankName = c.query.Get("bankName")
	if app.Status == StatusCreated {
		c.setStatus(app, StatusBankingData)
	}
	c.emitApplication("WB_Bank_Transactions_Refresh", app)
	return true, nil
}

func (s *Service) upsertAccount(app *Application, a BankAccount) {
	i := slices.IndexFunc(app.Accounts, func(b BankAccount) bool { return b.AccountNumber == a.AccountNumber })
	if i >= 0 {
		a.ID = app.Accounts[i].ID
		app.Accounts[i] = a
		return
	}
	a.ID = fmt.Sprintf("account-%d", len(app.Accounts)+1)
	app.Accounts = append(app.Accounts, a)
}

// quickTest reports whether the data would lead to an offer, and stores nothing.
func (c *call) quickTest(app *Application) (any, error) {
	var req bankingData
	present, err := c.decode(&req)
	if err != nil {
		return nil, err
	}
	accounts := app.Accounts
	if present {
		accounts = req.accounts(&c.failed)
	}
	_, enough := underwrite(accounts)
	return enough, nil
}

// underwrite computes an offer from bank data: the sum of the credits, rounded down to full
// hundreds, from 5,000 to 250,000. Without transactions there is no offer.
func underwrite(accounts []BankAccount) (amount Cents, enough bool) {
	for _, a := range accounts {
		for _, t := range a.Transactions {
			enough = true
			if !strings.HasPrefix(t.Amount, "-") {
				credit, _ := parseCents(t.Amount)
				amount += credit
			}
		}
	}
	amount -= amount % 100_00
	return min(max(amount, 5_000_00), 250_000_00), enough
}

// process is the GET that must not be repeated: each run makes a new offer, which replaces the
// offer before.
func (c *call) process(app *Application) (any, error) {
	amount, enough := underwrite(app.Accounts)
	if !enough {
		return nil, refuse("InsufficientBankingData", "The bank data holds no transactions to make an offer from.")
	}
	app.ProcessRuns++
	offer := &Offer{ID: c.newID(kindOffer), ApplicationID: app.ID, Amount: amount, Terms: 12, CreatedUTC: Timestamp{c.now()}}
	c.renew(offer)
	c.emitApplication("WB_Application_Current_Process", app)
	if c.decision != (Decision{}) {
		c.review(app, offer)
	} else {
		c.accept(app, offer)
	}
	return offer.ID, nil
}

// accept makes an offer. It needs s.mu.
func (s *Service) accept(app *Application, offer *Offer) {
	app.Offer = offer
	s.prepareContract(app)
	if app.Status == StatusCreated || app.Status == StatusBankingData || app.Status == StatusUnderReview {
		s.setStatus(app, StatusOfferReady)
	}
	s.emitApplication("WB_Application_Ready", app)
}

func (s *Service) prepareContract(app *Application) {
	if app.ContractID == "" {
		app.ContractID = s.newID(kindContract)
		app.Requirements = []Requirement{
			{ID: s.newID(kindRequirement), FileType: "VoidedCheck", Description: "A voided check of the primary account"},
			{ID: s.newID(kindRequirement), FileType: "DriversLicense", Description: "The primary applicant's driver's license"},
		}
	}
}

func (s *Service) renew(o *Offer) { o.ExpiresUTC = Timestamp{s.now().Add(s.cfg.offerLifetime)} }

// applicationOffer returns the offer, expired or not. In this model force renews an expired
// offer; the interface does not document force.
func (c *call) applicationOffer(app *Application) (any, error) {
	force := c.flag("force")
	if app.Offer == nil {
		return nil, refuse("OfferNotFound", "The application has no offer.")
	}
	if force && len(c.failed) == 0 && c.expired(app) {
		c.renew(app.Offer)
	}
	return struct {
		Offer
		IsExpired bool `json:"isExpired"`
	}{*app.Offer, c.expired(app)}, nil
}

func (s *Service) expired(app *Application) bool { return !s.now().Before(app.Offer.ExpiresUTC.Time) }

// unexpiredOffer returns an error for an expired offer. Approval uploads and signing call it.
func (s *Service) unexpiredOffer(app *Application) error {
	if err := app.refuseCancelled(); err != nil {
		return err
	}
	if app.Offer == nil {
		return refuse("OfferNotFound", "The application has no offer.")
	}
	if s.expired(app) {
		return refuse("OfferExpired", "The offer has expired.")
	}
	return nil
}
