package guarantees_test

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

// lockedToken guards a cached token with a lock, as most code does. Like the session, it checks the
// expiry with the clock.
type lockedToken struct {
	mu    sync.RWMutex
	token lending.Token
}

func (l *lockedToken) valid() (lending.Token, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.token, time.Now().Before(l.token.Expires)
}

var sink lending.Token // keeps the compiler from removing the measured call

// BenchmarkToken takes a cached token. The session must be no slower than the floor, and allocate
// nothing. The clock takes most of the time in both.
func BenchmarkToken(b *testing.B) {
	service := lendingtest.New()
	defer service.Close()
	client, err := lending.New("http://127.0.0.1",
		lending.WithHTTPClient(&http.Client{Transport: service.Transport()}),
		lending.WithCredentials(lending.Credentials{
			Username: lendingtest.AdministratorUsername,
			Password: lending.NewSecret(lendingtest.AdministratorPassword),
		}))
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	session, ctx := client.Session(), b.Context()
	token, err := session.Token(ctx)
	if err != nil {
		b.Fatal(err)
	}
	locked := &lockedToken{token: token}
	b.Run("sequential", func(b *testing.B) {
		versus(b, func() error {
			var ok bool
			sink, ok = locked.valid()
			return expect(ok, nil)
		}, func() error {
			var err error
			sink, err = session.Token(ctx)
			return err
		})
	})
	for _, test := range []struct {
		name string
		take func()
	}{
		{"session", func() { _, _ = session.Token(ctx) }},
		{"rwmutex", func() { _, _ = locked.valid() }},
	} {
		b.Run("parallel/"+test.name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					test.take()
				}
			})
		})
	}
}

// BenchmarkWaiterLeaves measures how long a caller waits for a hanging sign-in after its own
// deadline.
func BenchmarkWaiterLeaves(b *testing.B) {
	service := lendingtest.New()
	defer service.Close()
	service.Fail(fake.LoginRoute, lendingtest.Fault{DelayBefore: time.Hour, Times: -1})
	client, err := lending.New("http://127.0.0.1",
		lending.WithHTTPClient(&http.Client{Transport: service.Transport()}),
		lending.WithCredentials(lending.Credentials{
			Username: lendingtest.Username,
			Password: lending.NewSecret(lendingtest.Password),
		}))
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	stay, leave := context.WithCancel(b.Context()) // keeps the sign-in alive
	defer leave()
	go func() { _, _ = client.Session().Token(stay) }()
	var late []time.Duration
	for b.Loop() {
		ctx, cancel := context.WithTimeout(b.Context(), 5*time.Millisecond)
		deadline, _ := ctx.Deadline()
		_, _ = client.Session().Token(ctx)
		late = append(late, time.Since(deadline))
		cancel()
	}
	slices.Sort(late)
	b.ReportMetric(float64(late[len(late)/2].Microseconds())/1000, "ms-late-median")
	b.ReportMetric(float64(late[len(late)-1].Microseconds())/1000, "ms-late-most")
}
