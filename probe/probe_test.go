package probe

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/leak"
	"github.com/lendingapi/lending-go/lendingtest"
)

func TestMain(m *testing.M) { leak.Main(m) }

var update = flag.Bool("update", false, "write assumed.json anew")

// log is a Reporter with the lines so far.
type log struct {
	testing.TB
	ctx            context.Context
	mu             sync.Mutex
	told, reported []string
}

func (l *log) Context() context.Context {
	if l.ctx != nil {
		return l.ctx
	}
	return l.TB.Context()
}

func (l *log) Logf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = append(l.told, fmt.Sprintf(format, args...))
}

func (l *log) Errorf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reported = append(l.reported, fmt.Sprintf(format, args...))
}

// all is the whole output of a run.
func (l *log) all(r Result) string {
	var out strings.Builder
	r.Print(&out)
	text, err := json.Marshal(r.Service)
	require.NoError(l, err)
	return strings.Join(l.told, "\n") + strings.Join(l.reported, "\n") + out.String() + string(text)
}

// canaries are 40 values of records.
type canaries struct{ made []string }

func (c *canaries) next() string {
	c.made = append(c.made, fmt.Sprintf("Canary%03d", len(c.made)))
	return c.made[len(c.made)-1]
}

// seeded adds a customer with five applications, of which the first has led to a loan.
func seeded(service *lendingtest.Service, c *canaries) (loan string) {
	const id = "5f1c7a90-2f7b-4e0a-9b66-7c8d9e0f1a2b" // for records whose id the service does not set
	day := lendingtest.Timestamp{Time: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	person := lendingtest.Applicant{ID: id, FirstName: c.next(), LastName: c.next(), Email: c.next() + "@example.com"}
	customer := service.AddCustomer(lendingtest.Customer{
		FirstName: c.next(), LastName: c.next(), Email: c.next() + "@example.com", MobileNumber: "4155550100",
		Password: c.next(), PartnerID: lendingtest.PartnerID,
	}).ID
	application := ""
	for i := range 5 {
		agent := id
		if i == 1 {
			agent = "" // an agent is optional
		}
		id := service.AddApplication(lendingtest.Application{
			CustomerID: customer, PartnerID: lendingtest.PartnerID, AgentID: agent, BusinessName: c.next(), BusinessZip: "94105",
			ExtraInformation: map[string]string{"years": "7", "note": c.next()}, Status: lendingtest.StatusLoanOpened,
			Accounts: []lendingtest.BankAccount{{
				ID: fmt.Sprint("account-", i), AccountName: c.next(), AccountNumber: c.next(), RoutingNumber: "110000000",
				AccountType: "checking", Balance: "48210.55",
				Transactions: []lendingtest.BankTransaction{{Date: "2026-08-03", Description: c.next(), Amount: "12500.00"}},
			}},
			PrimaryAccountID: fmt.Sprint("account-", i), ContractID: id,
			Offer: &lendingtest.Offer{
				ID: id, ApplicationID: id, Amount: 40600_00, Terms: 12, CreatedUTC: day, ExpiresUTC: day,
			},
			Applicants:   []lendingtest.Applicant{person},
			Requirements: []lendingtest.Requirement{{ID: id, FileType: "BankStatement", Description: c.next()}},
			Messages:     []lendingtest.Message{{Message: c.next(), Sender: "credit desk", CreatedUTC: day}},
		}).ID
		if i == 0 {
			application = id
		}
	}
	var withdrawals []lendingtest.Withdrawal
	for i := range 5 {
		at := lendingtest.Timestamp{Time: day.AddDate(0, 0, i)}
		withdrawals = append(withdrawals, lendingtest.Withdrawal{
			Amount: 2500_00, AdvanceRate: 0.8, Status: "Completed", DateUTC: at, CreatedUTC: at,
		})
	}
	loan = service.AddLoan(lendingtest.Loan{ApplicationID: application, Withdrawals: withdrawals}).ID
	var transactions []lendingtest.Transaction
	for i := range 205 {
		at := lendingtest.Timestamp{Time: day.AddDate(0, 0, i)}
		transactions = append(transactions, lendingtest.Transaction{
			Type: "direct debit", Amount: lendingtest.Cents(1000_00 + i), Description: "Repayment", DateUTC: at,
		})
	}
	service.AddTransactions(loan, transactions...)
	for range enough - 1 { // so that their fields are known
		another := service.AddApplication(lendingtest.Application{CustomerID: customer})
		service.AddLoan(lendingtest.Loan{ApplicationID: another.ID})
	}
	return loan
}

// TestFakeAnswersAsAssumed probes lendingtest: assumed.json is the result.
func TestFakeAnswersAsAssumed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, answersAsAssumed)
}

func answersAsAssumed(t *testing.T) {
	v := newVariant(t)
	v.over(t, (*http.Protocols).SetUnencryptedHTTP2, time.Minute)
	v.change[""] = func(*http.Request, *reply) { bubble.Elapse(time.Millisecond) } // else two events are the same
	options := v.options(t)
	l := &log{TB: t}
	result := Run(l, options)
	require.NoError(t, result.Err)
	result.Service = v.withdraw(t, result.Service, Assumed(), l)
	if *update {
		require.NoError(t, result.Service.Save("assumed.json"))
	} else {
		assert.Empty(t, l.reported, "to write it anew: go test ./probe -run AsAssumed -update")
		assert.Equal(t, slices.Sorted(maps.Keys(Assumed().Facts)), slices.Sorted(maps.Keys(result.Service.Facts)))
	}
	for _, f := range result.Findings {
		if f.State == NotSeen {
			assert.Regexp(t, "^(not measured: |needs probe.Watch)", f.Lines[0], f.Name)
		}
	}
	require.GreaterOrEqual(t, len(v.seeded.made), 40)
	for _, canary := range v.seeded.made {
		assert.NotContains(t, l.all(result), canary)
	}
	assert.Equal(t, 1, v.Executed("POST /api/Loan/confirm-withdrawal-invoice/{loanId}"))
}
