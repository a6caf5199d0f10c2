package lendingtest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lendingapi/lending-go/lendingtest"
)

// The lists of a customer, a partner and an e-mail address show the present owner of a record, in
// order of creation.
func TestListsFollowTheOwner(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ids := func(path string) (all []any) {
		for _, row := range r.get(path).list() {
			all = append(all, row["id"])
		}
		return all
	}
	one, two := r.AddCustomer(lendingtest.Customer{Email: "One@example.com"}), r.AddCustomer(lendingtest.Customer{})
	var apps [3]lendingtest.Application
	var loans [3]lendingtest.Loan
	for i := range apps {
		apps[i] = r.AddApplication(lendingtest.Application{CustomerID: one.ID})
		loans[i] = r.AddLoan(lendingtest.Loan{ApplicationID: apps[i].ID})
	}
	give := func(i int, customer, partner string) {
		r.UpdateApplication(apps[i].ID, func(a *lendingtest.Application) { a.CustomerID, a.PartnerID = customer, partner })
		r.UpdateLoan(loans[i].ID, func(l *lendingtest.Loan) { l.CustomerID = customer })
	}
	other := r.AddAccount(lendingtest.Account{})
	give(0, two.ID, other.PartnerID)
	give(1, two.ID, lendingtest.PartnerID)
	give(1, one.ID, lendingtest.PartnerID)
	const (
		applications = "/api/Application/get-customer-applications/"
		partner      = "/api/Application/get-partner-applications/"
		loansOf      = "/api/Loan/get-customer-loans/"
		byEmail      = "/api/Customer/get-customer-by-email?email="
	)
	assert.Equal(t, []any{apps[1].ID, apps[2].ID}, ids(applications+one.ID))
	assert.Equal(t, []any{apps[0].ID}, ids(applications+two.ID))
	assert.Equal(t, []any{loans[1].ID, loans[2].ID}, ids(loansOf+one.ID))
	assert.Equal(t, []any{loans[0].ID}, ids(loansOf+two.ID))
	assert.Equal(t, []any{apps[1].ID, apps[2].ID}, ids(partner+lendingtest.PartnerID))
	give(0, one.ID, lendingtest.PartnerID)
	assert.Equal(t, []any{apps[0].ID, apps[1].ID, apps[2].ID}, ids(partner+lendingtest.PartnerID), "as they were created")
	assert.Equal(t, []any{apps[1].ID}, ids(partner+lendingtest.PartnerID+"?skip=1&take=1"))
	assert.Empty(t, ids(applications+two.ID))

	assert.Equal(t, one.ID, r.get(byEmail + "oNE@example.com").object()["id"])
	r.UpdateCustomer(one.ID, func(c *lendingtest.Customer) { c.Email = "new@example.com" })
	assert.Equal(t, one.ID, r.get(byEmail + "NEW@example.com").object()["id"])
	assert.Equal(t, 204, r.get(byEmail+"one@example.com").status)
}

// A subscription of a partner and a subscription of his customer each get the event, once, in
// order of creation; a subscription that has ended gets none.
func TestSubscriptionsFollowTheOwner(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	loan := r.AddLoan(lendingtest.Loan{})
	var subs [3]lendingtest.Subscription
	for i, owner := range []lendingtest.Subscription{
		{CustomerID: loan.CustomerID},
		{PartnerID: lendingtest.PartnerID, CustomerID: loan.CustomerID},
		{PartnerID: lendingtest.PartnerID},
	} {
		owner.WebhookURI = "https://receiver.test/" + strings.Repeat("x", i)
		subs[i] = r.AddSubscription(owner)
	}
	receivers := func() (all []string) {
		before := len(r.Deliveries())
		r.UpdateLoan(loan.ID, func(l *lendingtest.Loan) { l.IsClosed = !l.IsClosed })
		r.wait()
		for _, d := range r.Deliveries()[before:] {
			all = append(all, d.URI)
		}
		return all
	}
	assert.ElementsMatch(t, []string{subs[0].WebhookURI, subs[1].WebhookURI, subs[2].WebhookURI}, receivers())
	r.UpdateSubscription(subs[0].ID, func(s *lendingtest.Subscription) { s.CustomerID = unknownID })
	assert.ElementsMatch(t, []string{subs[1].WebhookURI, subs[2].WebhookURI}, receivers())
	r.post("/api/Webhook/unregister?partnerId="+lendingtest.PartnerID, `{}`).ok()
	assert.Equal(t, []string{subs[1].WebhookURI}, receivers())
}
