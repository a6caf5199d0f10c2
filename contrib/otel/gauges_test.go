package lendingotel_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/backoff"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	lendingotel "github.com/lendingapi/lending-go/contrib/otel"
)

// gauges registers the gauges of sources and returns a function that collects them as text.
func gauges(t *testing.T, sources lendingotel.Sources) (collect func() ([]string, error)) {
	t.Helper()
	tel := newTelemetry()
	registration, err := lendingotel.Gauges(sources, tel.providers()...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = registration.Unregister() })
	return func() (lines []string, err error) {
		var got metricdata.ResourceMetrics
		err = tel.reader.Collect(t.Context(), &got)
		for _, m := range got.ScopeMetrics[0].Metrics {
			lines = append(append(lines, linesOf[int64](m)...), linesOf[float64](m)...)
		}
		slices.Sort(lines)
		return lines, err
	}
}

func linesOf[N int64 | float64](m metricdata.Metrics) (lines []string) {
	gauge, _ := m.Data.(metricdata.Gauge[N])
	for _, p := range gauge.DataPoints {
		lines = append(lines, fmt.Sprint(m.Name, " ", p.Attributes.Encoded(attribute.DefaultEncoder()), " ", p.Value))
	}
	return lines
}

// TestGauges reads all gauges, and holds that each alert of docs/operating.md names a gauge and a state as
// Prometheus shows them: an alert of another name would never fire.
func TestGauges(t *testing.T) {
	text, err := os.ReadFile("../../docs/operating.md")
	require.NoError(t, err)
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		entries, inbox := store.NewMemory(), webhook.NewMemoryInbox()
		log := fake.Must(idempotency.NewLog(entries, nil))
		require.NoError(t, entries.Save(t.Context(), store.Entry{Key: ":order-42", State: store.NeedsReview}))
		fake.Must(log.AuditDaily(t.Context(), fake.SignIn(t, service, nil))) // the audit below is of a part of its period
		for _, name := range []lending.EventName{"dead", "running", "waiting"} {
			require.NoError(t, inbox.Put(t.Context(), &webhook.Event{Name: name}))
			if name != "waiting" {
				entry := fake.Must(inbox.Take(t.Context()))
				if name == "dead" {
					require.NoError(t, inbox.DeadLetter(t.Context(), entry, nil))
				}
			}
			<-time.After(time.Minute)
		}
		signedIn, fresh := fake.SignIn(t, service, nil).Session(), fake.SignIn(t, service, nil).Session()
		wrong := fake.SignIn(t, service, func(c *lending.Credentials) { c.Password = lending.NewSecret("wrong") }).Session()
		token := fake.Must(signedIn.Token(t.Context()))
		require.Error(t, wrong.SignIn(t.Context()))
		for _, err := range log.Audit(t.Context(), idempotency.AuditOptions{
			From: time.Now().Add(-time.Hour), To: time.Now(), Client: fake.SignIn(t, service, nil),
		}) {
			require.NoError(t, err)
		}
		<-time.After(time.Minute)
		lines, err := gauges(t, lendingotel.Sources{
			Log: log, Inboxes: map[string]webhook.DeadLetters{"webhooks": inbox},
			Sessions: map[string]*lending.Session{"fresh": fresh, "signed in": signedIn, "wrong": wrong},
		})()
		require.NoError(t, err)
		require.Equal(t, []string{
			"lending.idempotency.audit_age  240",
			"lending.idempotency.differences lending.kind=missing 0",
			"lending.idempotency.differences lending.kind=open 0",
			"lending.idempotency.differences lending.kind=shared 0",
			"lending.idempotency.differences lending.kind=unexplained 0",
			"lending.idempotency.differences lending.kind=unread 1",
			"lending.idempotency.mutations lending.state=in_doubt 0",
			"lending.idempotency.mutations lending.state=needs_review 1",
			"lending.idempotency.mutations lending.state=sent 0",
			"lending.idempotency.oldest_age lending.state=in_doubt 0",
			"lending.idempotency.oldest_age lending.state=needs_review 240",
			"lending.idempotency.oldest_age lending.state=sent 0",
			"lending.inbox.events lending.source=webhooks,lending.state=dead_letter 1",
			"lending.inbox.events lending.source=webhooks,lending.state=running 1",
			"lending.inbox.events lending.source=webhooks,lending.state=waiting 1",
			"lending.inbox.oldest_age lending.source=webhooks,lending.state=dead_letter 240",
			"lending.inbox.oldest_age lending.source=webhooks,lending.state=waiting 120",
			"lending.ready lending.source=fresh 1", "lending.ready lending.source=idempotency 1",
			"lending.ready lending.source=signed in 1", "lending.ready lending.source=webhooks 1",
			"lending.ready lending.source=wrong 1",
			"lending.session.sign_in_needed lending.source=fresh 0",
			"lending.session.sign_in_needed lending.source=signed in 0",
			"lending.session.sign_in_needed lending.source=wrong 1",
			"lending.session.token_life lending.source=fresh 0",
			fmt.Sprint("lending.session.token_life lending.source=signed in ", time.Until(token.Expires).Seconds()),
			"lending.session.token_life lending.source=wrong 0",
		}, lines)
		expression := regexp.MustCompile(`expr: (lending_\w+?)(_seconds)?(?:\{lending_state="(\w+)"\})? `)
		alerts := expression.FindAllStringSubmatch(string(text), -1)
		require.Len(t, alerts, strings.Count(string(text), "expr: "))
		for _, alert := range alerts {
			name := strings.ReplaceAll(alert[1], "_", `[._]`)
			require.Regexp(t, `(?m)^`+name+` .*`+alert[3], strings.Join(lines, "\n"), alert[0])
			isTime := strings.HasSuffix(alert[1], "_age") || strings.HasSuffix(alert[1], "_life")
			require.Equal(t, alert[2] != "", isTime, alert[0])
		}
	})
}

// A source without a name of its own would hide another that failed.
func TestGaugesNeedNamesOfTheirOwn(t *testing.T) {
	inboxes := func(name string) map[string]webhook.DeadLetters {
		return map[string]webhook.DeadLetters{name: webhook.NewMemoryInbox()}
	}
	log := fake.Must(idempotency.NewLog(store.NewMemory(), nil))
	for name, sources := range map[string]lendingotel.Sources{
		"service":     {Inboxes: inboxes("service"), Sessions: map[string]*lending.Session{"service": nil}},
		"idempotency": {Log: log, Inboxes: inboxes("idempotency")},
	} {
		_, err := lendingotel.Gauges(sources, newTelemetry().providers()...)
		require.EqualError(t, err, fmt.Sprintf("lendingotel: Sources: two sources have the name %q; rename one", name))
	}
}

// countedBy calls a function in place of its counts.
type countedBy struct {
	*webhook.MemoryInbox

	count func(context.Context) error
}

func (c countedBy) Counts(ctx context.Context) (webhook.InboxCounts, error) {
	return webhook.InboxCounts{}, c.count(ctx)
}

// Two readers of a provider, for example an exporter and an endpoint for Prometheus, can collect at the same time. The
// first reader waits for half a second.
func TestGaugesOfTwoReadersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		readers := []*metric.ManualReader{metric.NewManualReader(), metric.NewManualReader()}
		provider := metric.NewMeterProvider(metric.WithReader(readers[0]), metric.WithReader(readers[1]))
		slow := func(ctx context.Context) error { return backoff.Sleep(ctx, time.Second) }
		_, err := lendingotel.Gauges(lendingotel.Sources{Inboxes: map[string]webhook.DeadLetters{
			"slow": countedBy{webhook.NewMemoryInbox(), slow},
		}}, lendingotel.WithMeterProvider(provider))
		require.NoError(t, err)
		first := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
			defer cancel()
			first <- readers[0].Collect(ctx, new(metricdata.ResourceMetrics))
		}()
		synctest.Wait()
		require.NoError(t, readers[1].Collect(t.Context(), new(metricdata.ResourceMetrics)))
		require.Error(t, <-first)
	})
}

// A store that is down or hangs does not affect the gauges of other sources.
func TestGaugesOfABrokenStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := make(chan struct{})
		defer close(hangs)
		var failures, reads atomic.Int32
		fail := func(context.Context) error { failures.Add(1); return errors.New("a failure") }
		hang := func(context.Context) error { reads.Add(1); <-hangs; return nil }
		collect := gauges(t, lendingotel.Sources{Inboxes: map[string]webhook.DeadLetters{
			"fails": countedBy{webhook.NewMemoryInbox(), fail},
			"hangs": countedBy{webhook.NewMemoryInbox(), hang},
			"works": webhook.NewMemoryInbox(),
		}})
		for range 2 {
			start := time.Now()
			lines, err := collect()
			require.ErrorContains(t, err, "lendingotel: gauges of fails: a failure")
			require.ErrorContains(t, err, "lendingotel: gauges of hangs: ")
			require.LessOrEqual(t, time.Since(start), 2*time.Second)
			require.Subset(t, lines, []string{
				"lending.ready lending.source=fails 0", "lending.ready lending.source=hangs 0",
				"lending.ready lending.source=works 1",
				"lending.inbox.events lending.source=works,lending.state=waiting 0",
			})
			require.NotContains(t, fmt.Sprint(lines), "source=hangs,")
		}
		require.EqualValues(t, 2, failures.Load())
		require.EqualValues(t, 1, reads.Load(), "each read of a store that hangs would leave a goroutine")
	})
}
