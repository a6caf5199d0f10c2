package lendingtest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lendingapi/lending-go/lendingtest"
)

// An execution counts for everything that it concerns: the loan, its application, the
// customer and his e-mail.
func TestExecutedFor(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	customer := r.customer()
	create := `{"customerId":"` + customer + `","businessZip":"10001"}`
	first := r.post("/api/Application/create-application", create).text()
	second := r.post("/api/Application/create-application", create).text()
	const created = "POST /api/Application/create-application"
	assert.Equal(t, map[string]int{customer: 2, "ann@example.com": 2, first: 1, second: 1}, r.ExecutedFor(created))
	assert.Equal(t, map[string]int{customer: 1, "ann@example.com": 1},
		r.ExecutedFor("POST /api/Application/create-customer"))

	r.post("/api/Application/create-customer", ann).refused(bad, invalid, "email DuplicateEmail")
	assert.Equal(t, 1, r.ExecutedFor("POST /api/Application/create-customer")["ann@example.com"],
		"what is refused does not count")
	r.Fail(cancelRoute, lendingtest.Fault{ResetAfter: true})
	_ = r.cancel(first).err
	assert.Equal(t, map[string]int{customer: 1, "ann@example.com": 1, first: 1}, r.ExecutedFor(cancelRoute))

	loan := r.withdrawing()
	r.post("/api/Loan/confirm-withdrawal-invoice/"+loan.ID, confirmation("2500.00", "0.8", r.OTP(loan.ID))).ok()
	const confirm = "POST /api/Loan/confirm-withdrawal-invoice/{loanId}"
	assert.Equal(t, map[string]int{loan.ID: 1, loan.ApplicationID: 1, loan.CustomerID: 1, "customer2@example.com": 1},
		r.ExecutedFor(confirm))
	assert.Len(t, r.ExecutedFor("POST /api/ApplicationApproval/sign-contract/{applicationId}/{applicantId}"), 5,
		"the applicant and the loan, too")

	for _, email := range []string{"ANN@example.com", "nobody@example.com"} {
		r.get("/api/Customer/get-customer-by-email?email=" + email)
	}
	assert.Equal(t, map[string]int{customer: 1, "ann@example.com": 1},
		r.ExecutedFor("GET /api/Customer/get-customer-by-email"))
	assert.Panics(t, func() { r.ExecutedFor("GET /nowhere") })
}

// A request of many customers counts for each of them.
func TestExecutedForBulk(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, b := r.AddCustomer(lendingtest.Customer{}), r.AddCustomer(lendingtest.Customer{})
	const route = "POST /api/ApplicationBulk/create-applications"
	made := r.post("/api/ApplicationBulk/create-applications", `[{"customerId":"`+a.ID+`"},{"customerId":"`+a.ID+
		`"},{"customerId":"`+b.ID+`"}]`).list()
	counted := r.ExecutedFor(route)
	assert.Equal(t, []int{1, 1, 1, 1}, []int{
		counted[a.ID], counted[b.Email], counted[made[0]["id"].(string)],
		r.Executed(route),
	})
	assert.Len(t, counted, 7)
}
