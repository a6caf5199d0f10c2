package guarantees_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// BenchmarkRoundTrips sends mutations over TLS through a network with a delay, and reports the
// median time of each in round trips. The row "kept" is net/http, which sends the same request on a kept
// connection. Each row but "first" begins after a call, those "alone" three seconds after it.
func BenchmarkRoundTrips(b *testing.B) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodGet { // the check
			wire.Answer(http.StatusNotFound, `{"title":"Not Found"}`)(w, r)
			return
		}
		wire.Answer(http.StatusOK, `{"id":"`+catalog.Loan.String()+`"}`)(w, r)
	}))
	server.Config.ErrorLog, server.EnableHTTP2 = quietLog, true
	server.StartTLS()
	defer server.Close()
	var orders atomic.Int64
	mutate := func(client *lending.Client) error {
		return second(client.Applications.CreateCustomer(background, catalog.User()))
	}
	keyed := func(client *lending.Client) error {
		ctx := lending.WithIdempotencyKey(background, fmt.Sprint("order-", orders.Add(1)))
		return second(client.Applications.CreateCustomer(ctx, catalog.User()))
	}
	for _, delay := range []time.Duration{time.Millisecond, 20 * time.Millisecond, 80 * time.Millisecond} {
		address := slowNetwork(b, server.Listener.Addr().String(), delay)
		for _, callers := range []int{1, 16} {
			for _, row := range []struct {
				name   string
				call   func(*lending.Client) error
				length int // of a row
				http1  bool
				alone  bool
			}{
				{"kept", nil, 10, true, false},
				{"first", mutate, 1, false, false},
				{"alone", mutate, 1, false, true},
				{"ten in a row", mutate, 10, false, false},
				{"with a key, alone", keyed, 1, false, true},
				{"with a key, ten in a row", keyed, 10, false, false},
				{"h1, alone", mutate, 1, true, true},
				{"h1, ten in a row", mutate, 10, true, false},
				{"h1, with a key, alone", keyed, 1, true, true},
				{"h1, with a key, ten in a row", keyed, 10, true, false},
			} {
				b.Run(fmt.Sprintf("%s/callers=%d/%s", row.name, callers, delay), func(b *testing.B) {
					var took []time.Duration
					for b.Loop() {
						call, done := kept(server, address), func() {}
						if row.call != nil {
							client := clientOver(b, address, row.http1)
							call, done = func() error { return row.call(client) }, client.Close
						}
						if row.name != "first" {
							require.NoError(b, call())
						}
						if row.alone {
							<-time.After(3 * time.Second)
						}
						start := time.Now()
						var all sync.WaitGroup
						for range callers {
							all.Go(func() {
								for range row.length {
									if err := call(); err != nil {
										b.Error(err)
									}
								}
							})
						}
						all.Wait()
						took = append(took, time.Since(start))
						done()
					}
					slices.Sort(took)
					median := float64(took[len(took)/2])
					b.ReportMetric(median/float64(delay)/float64(row.length), "roundtrips")
				})
			}
		}
	}
}

// clientOver returns a client with HTTP/2, or without.
func clientOver(b *testing.B, address string, http1 bool) *lending.Client {
	b.Helper()
	opts := []lending.Option{withToken, lending.WithIdempotency(fake.Must(idempotency.NewLog(store.NewMemory(), nil)))}
	if http1 {
		opts = append(opts, lending.WithoutHTTP2())
	}
	return wire.NewClient(b, "https://"+address, opts...)
}

// kept returns a call of net/http with kept connections.
func kept(server *httptest.Server, address string) func() error {
	transport := server.Client().Transport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost, transport.Protocols = 64, new(http.Protocols)
	transport.Protocols.SetHTTP1(true)
	transport.TLSClientConfig.NextProtos = nil
	body := []byte(`{"firstName":"Ada","lastName":"Lovelace","email":"ada@example.com"}`)
	hc := &http.Client{Transport: transport}
	return func() error {
		return send(hc, http.MethodPost, "https://"+address+"/", bytes.NewReader(body), readWhole)
	}
}

// slowNetwork forwards connections to address with a round trip of the given time. The kernel
// connects at once, so the first bytes of a connection wait for its round trip too.
func slowNetwork(b *testing.B, address string, roundTrip time.Duration) string {
	b.Helper()
	return wire.ListenRaw(b, func(client net.Conn) {
		service, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		defer service.Close()
		go forward(service, client, roundTrip/2, roundTrip)
		forward(client, service, roundTrip/2, 0)
	})
}

// forward copies from one connection to the other, each part after the delay, and the first part
// after the time to connect.
func forward(to, from net.Conn, delay, connect time.Duration) {
	type part struct {
		due  time.Time
		data []byte
	}
	parts := make(chan part, 1000)
	go func() {
		defer close(parts)
		for first := connect; ; first = 0 {
			data := make([]byte, 64<<10)
			n, err := from.Read(data)
			if err != nil {
				return
			}
			parts <- part{time.Now().Add(delay + first), data[:n]}
		}
	}()
	for p := range parts {
		<-time.After(time.Until(p.due))
		_, _ = to.Write(p.data)
	}
	_ = to.(*net.TCPConn).CloseWrite()
}
