package lendingtest

import "net/http"

func (c *call) soon() (any, error) {
	return nil, problemOf(http.StatusNotImplemented, "Soon", "This route follows.")
}

type pending struct{}

func (c *call) addCompany() (any, error) { return c.soon() }

func (c *call) addPrimaryApplicant() (any, error) { return c.soon() }

func (c *call) addSecondaryApplicant() (any, error) { return c.soon() }

func (c *call) contracts() (any, error) { return c.soon() }

func (c *call) contractDetails() (any, error) { return c.soon() }

func (c *call) applicants() (any, error) { return c.soon() }

func (c *call) bankAccounts() (any, error) { return c.soon() }

func (c *call) primaryBankAccount() (any, error) { return c.soon() }

func (c *call) setPrimaryBankAccount() (any, error) { return c.soon() }

func (c *call) signContract() (any, error) { return c.soon() }

func (c *call) requiredDocuments() (any, error) { return c.soon() }

func (c *call) createCustomers() (any, error) { return c.soon() }

func (c *call) createApplications() (any, error) { return c.soon() }

func (c *call) calculationSlider() (any, error) { return c.soon() }

func (c *call) lineOfCreditCalculation() (any, error) { return c.soon() }

func (c *call) invoiceCalculation() (any, error) { return c.soon() }

func (c *call) messages() (any, error) { return c.soon() }

func (c *call) postMessage() (any, error) { return c.soon() }

func (c *call) getLoan() (any, error) { return c.soon() }

func (c *call) customerLoans() (any, error) { return c.soon() }

func (c *call) transactions() (any, error) { return c.soon() }

func (c *call) transactionsPaged() (any, error) { return c.soon() }

func (c *call) withdrawals() (any, error) { return c.soon() }

func (c *call) loanContracts() (any, error) { return c.soon() }

func (c *call) totalBalance() (any, error) { return c.soon() }

func (c *call) repaymentBalances() (any, error) { return c.soon() }

func (c *call) withdrawLineOfCredit() (any, error) { return c.soon() }

func (c *call) withdrawInvoice() (any, error) { return c.soon() }

func (c *call) resendOTP() (any, error) { return c.soon() }

func (c *call) confirmWithdrawal() (any, error) { return c.soon() }

func (c *call) isEnabled() (any, error) { return c.soon() }

func (c *call) isClosed() (any, error) { return c.soon() }

func (c *call) earlyRepayment() (any, error) { return c.soon() }

func (c *call) registerWebhook() (any, error) { return c.soon() }

func (c *call) unregisterWebhook() (any, error) { return c.soon() }

func (c *call) updateAllWebhooks() (any, error) { return c.soon() }

func (c *call) webhookHandler() (any, error) { return c.soon() }

func (c *call) simulateWebhook() (any, error) { return c.soon() }

func (c *call) registeredWebhooks() (any, error) { return c.soon() }

func (c *call) subscription() (any, error) { return c.soon() }

func (c *call) allSubscriptions() (any, error) { return c.soon() }

func (c *call) updateWebhookURI() (any, error) { return c.soon() }
