package lendingtest_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lendingapi/lending-go/lendingtest"
)

// What the package doc says of the model, beyond the interface.

func TestBankAccountsAreUpdatedByNumber(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.offered()
	before := r.get(approval + "get-all-bank-accounts/" + id).list()
	r.post("/api/Application/add-or-update-banking-data/"+id, `{"accounts":[{"accountNumber":"000123","balance":"5"},{"accountNumber":"2","balance":"6"}]}`).ok()
	after := r.get(approval + "get-all-bank-accounts/" + id).list()
	assert.Len(t, after, 2)
	assert.Equal(t, before[0]["id"], after[0]["id"])
	assert.Equal(t, "5", after[0]["balance"])
	assert.NotEqual(t, after[0]["id"], after[1]["id"])
}

func TestPrimaryApplicantIsReplaced(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id, applicant := r.approved()
	r.post(approval+"add-primary-applicant-details/"+id, `{"firstName":"Zoe"}`).ok()
	all := r.get(approval + "get-all-applicants/" + id).list()
	assert.Len(t, all, 1)
	assert.Equal(t, []any{applicant, "Zoe", ""}, []any{all[0]["id"], all[0]["firstName"], all[0]["lastName"]})
}

func TestForceRenewsAnExpiredOfferOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	path := "/api/Application/application-offer/" + r.offered()
	before := r.get(path).object()
	r.Advance(time.Minute)
	assert.Equal(t, before, r.get(path+"?force=true").object())
}

func TestUpdateCustomerData(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.application()
	r.get("/api/Application/update-customer-data/" + id + "?firstname=A&lastname=L&address=1+Main&state=NY&city=Rye&ssn=123-45-6789&mobile=555-010-0100&dateOfBirth=1980-01-02").ok()
	c := r.Snapshot().Customers[0]
	assert.Equal(t, []string{"A", "L", "1 Main", "NY", "Rye", "123-45-6789", "5550100100", "1980-01-02"},
		[]string{c.FirstName, c.LastName, c.Address, c.State, c.City, c.SSN, c.MobileNumber, c.DateOfBirth.Format(time.DateOnly)})
	reply := r.get("/api/Customer/get-customer-by-id/" + c.ID)
	assert.Equal(t, "Rye", reply.object()["city"])
	assert.NotContains(t, reply.body, "6789")
}

// readerFunc acts in the middle of a body.
type readerFunc func()

func (f readerFunc) Read([]byte) (int, error) { f(); return 0, io.EOF }

func TestOfferExpiresDuringAnUpload(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.offered()
	body := io.MultiReader(strings.NewReader(`"eA`), readerFunc(func() { r.ExpireOffer(id) }), strings.NewReader(`=="`))
	r.send(http.MethodPost, approval+"submit-document/"+id+"?fileName=a&fileType=b", body).refused(bad, "OfferExpired")
	assert.Empty(t, r.Snapshot().Applications[0].Documents)
}

func TestAdministratorMayActForAnyPartner(t *testing.T) {
	t.Parallel()
	r := newRig(t).as(lendingtest.AdministratorUsername)
	assert.Empty(t, r.get("/api/Application/get-partner-applications/"+unknownID).list())
}

func TestLoanControlTellsSubscribers(t *testing.T) {
	t.Parallel()
	r, receiver, _ := subscribed(t, "WB_Loan_Enabled_Or_Disabled", "WB_Loan_Closed")
	loan := r.AddLoan(lendingtest.Loan{})
	r.SetLoanEnabled(loan.ID, false)
	r.CloseLoan(loan.ID)
	r.wait()
	assert.Equal(t, []string{"WB_Loan_Enabled_Or_Disabled", "WB_Loan_Closed"}, receiver.events())
	assert.Equal(t, "false", r.get("/api/Loan/is-loan-enabled/"+loan.ID).ok())
	assert.Equal(t, "true", r.get("/api/Loan/is-loan-closed/"+loan.ID).ok())
}
