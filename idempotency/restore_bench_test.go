package idempotency_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	partner "github.com/lendingapi/lending-go/examples/order"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

// listed is a store whose list has the entries of all only.
type listed struct {
	store.Store
	all []store.Entry
}

func (l *listed) List(_ context.Context, f store.Filter) ([]store.Entry, error) {
	from, _, err := f.After.At()
	return l.all[from:min(int(from)+f.Limit, len(l.all))], err
}

// BenchmarkRestored has 10,000 orders in a log, and a restoration in force. It measures the first question of a process
// and its memory, for each entry, and the next questions.
func BenchmarkRestored(b *testing.B) {
	service, entries := lendingtest.New(), &listed{Store: store.NewMemory()}
	defer service.Close()
	process := func(entries store.Store) *partner.Partner {
		log := fake.Must(idempotency.NewLog(entries, nil))
		client := fake.Must(lending.New("https://lending.example", lending.WithIdempotency(log),
			lending.WithHTTPClient(&http.Client{Transport: service.Transport()}),
			lending.WithTokenSource(lending.StaticToken(service.Token(lendingtest.Username)))))
		return &partner.Partner{Client: client, Log: log, Ask: func(
			_ context.Context, _ partner.Order, loan lending.LoanID, _ int,
		) (lending.Secret, error) {
			return lending.NewSecret(service.OTP(loan.String())), nil
		}}
	}
	first := process(entries.Store)
	orders, _ := partner.Orders(1)
	order := orders[0]
	order, err := first.Onboard(b.Context(), order)
	require.NoError(b, err)
	var models []model
	isUUID := regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	done := store.Filter{Prefix: ":", States: []store.State{store.Done}, Limit: 100}
	for entry, err := range store.All(b.Context(), entries.Store, done) {
		require.NoError(b, err)
		answer := fake.Must(first.Log.Lookup(b.Context(), entry.Key[1:])).Answer()
		models = append(models, model{entry, isUUID.FindAllString(string(entry.Data)+string(answer), -1)})
	}
	var applications []lending.ApplicationID
	for i := range 10_000 {
		fresh := map[string]string{}
		for _, m := range models {
			var ids []string
			for _, id := range m.ids {
				if fresh[id] == "" {
					fresh[id] = uuid.NewString()
				}
				ids = append(ids, fresh[id])
			}
			e := m.copied(fmt.Sprint(i, m.entry.Key), ids...)
			e.Age, e.Position = 24*time.Hour, store.PositionAt(uint64(len(entries.all)+1), e.Key)
			entries.all = append(entries.all, e)
		}
		applications = append(applications, fake.Must(lending.ParseApplicationID(fresh[order.Application.String()])))
	}
	restarted := process(entries)
	require.NoError(b, restarted.Log.Restored(b.Context(), copyOfAnHourAgo()))
	ask := func(i int) {
		ctx := withKey(b.Context(), fmt.Sprint("lost/", i))
		err := restarted.Client.Applications.SendLink(ctx, applications[i%len(applications)])
		require.ErrorIs(b, err, idempotency.ErrNeedsReview)
	}
	before, at, n := live(), time.Now(), float64(len(entries.all))
	ask(0)
	reading := time.Since(at)
	kept := live() - before
	for i := 1; b.Loop(); i++ {
		ask(i)
	}
	b.ReportMetric(float64(reading.Nanoseconds())/n, "ns/entry")
	b.ReportMetric(float64(kept)/n, "B/entry")
}
