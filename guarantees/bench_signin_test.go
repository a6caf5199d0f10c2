package guarantees_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/lendingapi/lending-go"
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
	versus(b, func() error {
		var ok bool
		sink, ok = locked.valid()
		return expect(ok, nil)
	}, func() error {
		var err error
		sink, err = session.Token(ctx)
		return err
	})
}
