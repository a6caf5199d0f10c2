package idempotency_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

// model is the entry of a real mutation, from which a test makes others with other ids.
type model struct {
	entry store.Entry
	ids   []string
}

// copied returns the entry under another key and with other ids.
func (p model) copied(key string, ids ...string) store.Entry {
	var swap []string
	for i, id := range p.ids {
		swap = append(swap, id, ids[i])
	}
	with := strings.NewReplacer(swap...)
	var data map[string]any
	fake.Must(0, json.Unmarshal([]byte(with.Replace(string(p.entry.Data))), &data))
	if response, ok := data["response"].(map[string]any); ok {
		text, _ := response["body"].(string)
		body := fake.Must(base64.StdEncoding.DecodeString(text))
		response["body"] = base64.StdEncoding.EncodeToString([]byte(with.Replace(string(body))))
	}
	return store.Entry{Key: ":" + key, State: p.entry.State, Data: fake.Must(json.Marshal(data))}
}

// TestAuditFindsTheDifferencesOfADay has 10,000 withdrawals of 500 loans of 50 customers, with 10 differences of
// each kind. The audit finds these and no other, and reads each list once, and again where it differs.
func TestAuditFindsTheDifferencesOfADay(t *testing.T) {
	inBooks(t, func(b *books) {
		t := b.T
		b.service.Fail(confirmRoute, lendingtest.Fault{ResetBefore: true})
		b.withdrawals++
		_, err := b.confirm(b.client)
		require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
		load := func(key string, ids ...string) model { return model{fake.Must(loaded(b.entries, ":order/"+key)), ids} }
		made := b.service.Snapshot().Loans[0].Withdrawals[0].ID
		createCustomer := load("customer", b.customer.String())
		createApplication := load("application-0", b.customer.String(), b.applications[0].String())
		confirm, open := load("confirm-1", b.loan.String(), made), load("confirm-3", b.loan.String())

		entries, wanted := store.NewMemory(), map[string]int{}
		save := func(e store.Entry) { require.NoError(t, entries.Save(t.Context(), e)) }
		plant := func(kind idempotency.DifferenceKind, owner string) { wanted[string(kind)+" "+owner]++ }
		var loans, customers []string
		for c := range 50 {
			customer := b.service.AddCustomer(lendingtest.Customer{Email: fmt.Sprintf("c%d@example.com", c)}).ID
			customers = append(customers, customer)
			save(createCustomer.copied(fmt.Sprint(c, "/customer"), customer))
			for a := range 10 {
				application := b.service.AddApplication(lendingtest.Application{CustomerID: customer}).ID
				key := fmt.Sprint(c, "/", a)
				save(createApplication.copied(key+"/application", customer, application))
				loan := b.service.AddLoan(lendingtest.Loan{CustomerID: customer, ApplicationID: application}).ID
				loans = append(loans, loan)
				for w := range 20 {
					id := uuid.NewString()
					save(confirm.copied(fmt.Sprint(key, "/confirm-", w), loan, id))
					b.service.UpdateLoan(loan, func(l *lendingtest.Loan) {
						l.Withdrawals = append(l.Withdrawals, lendingtest.Withdrawal{ID: id, Amount: 100})
					})
				}
			}
		}
		for i := range 10 {
			loan := func(kind int) string { return loans[7*i+100*kind] }
			b.service.UpdateLoan(loan(0), func(l *lendingtest.Loan) { l.Withdrawals = l.Withdrawals[1:] })
			plant(idempotency.Missing, loan(0))

			b.service.UpdateLoan(loan(1), func(l *lendingtest.Loan) {
				l.Withdrawals = append(l.Withdrawals, lendingtest.Withdrawal{ID: uuid.NewString(), Amount: 100})
			})
			plant(idempotency.Unexplained, loan(1))

			b.service.UpdateLoan(loan(2), func(l *lendingtest.Loan) {
				save(confirm.copied(fmt.Sprint("again/", i), loan(2), l.Withdrawals[0].ID))
			})
			plant(idempotency.Shared, loan(2))

			save(open.copied(fmt.Sprint("open/", i), loan(3)))
			plant(idempotency.Open, loan(3))
		}
		bubble.Elapse(25 * time.Hour)

		log := fake.Must(idempotency.NewLog(entries, nil))
		reads, before, most := 0, live(), uint64(0)
		b.watch = func() {
			if reads++; reads%100 == 0 {
				most = max(most, live())
			}
		}
		found := map[string]int{}
		for d, err := range log.Audit(t.Context(), idempotency.AuditOptions{
			From: time.Now().Add(-48 * time.Hour), To: time.Now(), Client: b.client,
		}) {
			require.NoError(t, err)
			found[string(d.Kind)+" "+d.ID] += max(d.Count, 1)
		}
		assert.Equal(t, wanted, found)
		result := fake.Must(log.Audited(t.Context()))
		owners := len(loans) + len(customers)
		assert.Equal(t, owners, result.Owners)
		assert.Equal(t, 10_000+500+50+20, result.Keys)
		assert.LessOrEqual(t, reads, owners*12/10)
		assert.Less(t, most-min(most, before), uint64(64<<20))
		t.Logf("%d reads of %d owners, %d KiB", reads, owners, (most-min(most, before))>>10)
	})
}

// live returns the size of the live heap.
func live() uint64 {
	runtime.GC()
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	return now.HeapAlloc
}
