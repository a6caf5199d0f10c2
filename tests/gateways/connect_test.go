package gateways_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/lendingapi/lending-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// proxied returns a client that reaches the first instance of the service through the proxy. To net/http 0.0.0.0 is
// no address of the loopback network.
func (o *origin) proxied(t *testing.T) *lending.Client {
	t.Helper()
	return newProxied(t, strings.Replace(o.a.address, "127.0.0.1", "0.0.0.0", 1))
}

func newProxied(t *testing.T, address string) *lending.Client {
	t.Helper()
	settings := trust()
	settings.ServerName = "example.com" // of the certificate
	return newClient(t, "https://"+address, lending.WithTLS(settings))
}

func startProxy(t *testing.T, o *origin, changes ...func(*gateway)) *gateway {
	t.Helper()
	return start(t, "apache2/connect", o, append(changes, func(g *gateway) { g.Listen = proxyAddress })...)
}

// TestProxy sends calls and documents through a proxy by CONNECT. The proxy sees no request, so the service counts
// what arrives: no mutation twice, whatever happens to the proxy.
func TestProxy(t *testing.T) {
	protocols := []string{"HTTP/1.1", "HTTP/2"}
	results := map[[2]string]*tally{}
	for _, protocol := range protocols {
		for _, f := range faults {
			if document == "" && f.name != killed {
				continue
			}
			sum := &tally{twice: map[string]int{}}
			results[[2]string{protocol, f.name}] = sum
			for _, callers := range sizes(16, 1, 48) {
				t.Run(strings.Join([]string{protocol, f.name}, "/"), func(t *testing.T) {
					o := newOrigin(t, f.idle, func(i *instance) { i.secure = protocol })
					g := startProxy(t, o, func(g *gateway) { g.Seconds = 1 })
					client := o.proxied(t)
					r := f.load(t, g, o, client, callers)
					assert.Empty(t, r.twice)
					assert.Zero(t, r.wrong, "%s", r.examples)
					if f.name != killed {
						assert.Zero(t, r.failedReads, "%s", r.examples)
					}
					requireTunnels(t, g, client)
					sum.add(r)
				})
			}
		}
		t.Run(protocol+"/uploads", func(t *testing.T) {
			o := newOrigin(t, 0, func(i *instance) { i.secure = protocol })
			g := startProxy(t, o)
			client := o.proxied(t)
			for _, size := range sizes(1<<20, 15<<20) {
				require.NoError(t, submit(t, client, o, size, nil))
				require.Error(t, submit(t, client, o, size, g.kill))
				g.run()
				require.NoError(t, submit(t, client, o, size, nil))
			}
			requireTunnels(t, g, client)
		})
	}
	write(t, "proxy", grid("protocol", protocols, results, (*tally).perTenThousand))
}

// requireTunnels holds that requests went through the proxy, which logs a tunnel at its end.
func requireTunnels(t *testing.T, g *gateway, client *lending.Client) {
	t.Helper()
	client.Close()
	require.Eventually(t, func() bool {
		log, err := os.ReadFile(g.Dir + "/access.log")
		require.NoError(t, err)
		return strings.Contains(string(log), "CONNECT ")
	}, 10*time.Second, time.Millisecond)
}

// TestProxyRefuses holds the words for a proxy that does not connect, and that nothing was sent.
func TestProxyRefuses(t *testing.T) {
	o := newOrigin(t, 0)
	for _, test := range []struct {
		name, address string
		change        func(*gateway)
		want          string
	}{
		{"port", "0.0.0.0:1", func(*gateway) {}, "403 Forbidden"},
		{"user", "0.0.0.0:1", func(g *gateway) { g.Port, g.User = "1", "another" }, "407 Proxy Authentication Required"},
		{"name", "lending.invalid:1", func(g *gateway) { g.Port = "1" }, "502 Bad Gateway"},
		{"service", "0.0.0.0:1", func(g *gateway) { g.Port = "1" }, "503 Service Unavailable"},
	} {
		t.Run(test.name, func(t *testing.T) {
			startProxy(t, o, test.change)
			want := "the proxy " + proxyAddress + " answered " + test.want + "; check HTTPS_PROXY"
			requireRefusal(t, newProxied(t, test.address), want)
		})
	}
	t.Run("no proxy", func(t *testing.T) {
		requireRefusal(t, o.proxied(t), "the proxy cannot be reached: cannot connect to "+proxyAddress)
	})
	assert.Empty(t, o.executed)
}

// requireRefusal holds that mutations and documents are not sent, with the words of want.
func requireRefusal(t *testing.T, client *lending.Client, want string) {
	t.Helper()
	id := lending.ApplicationID(uuid.New())
	document := lending.Document{Name: "a.pdf", Content: strings.NewReader("a")}
	for _, err := range []error{
		client.Applications.Cancel(t.Context(), id), client.Approval.SubmitDocument(t.Context(), id, "Other", document),
	} {
		require.Error(t, err)
		assert.Contains(t, err.Error(), want+": not sent")
		assert.NotContains(t, err.Error(), "secret")
		assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
	}
}

// TestProxyWithAbsurdLength has a proxy whose response to CONNECT claims a body of 2^63-1 bytes.
func TestProxyWithAbsurdLength(t *testing.T) {
	for _, test := range []struct{ status, want string }{
		{"200 OK", ""},
		{"403 Forbidden", "the proxy " + proxyAddress + " answered 403 Forbidden; check HTTPS_PROXY"},
		{"407 Proxy Authentication Required", "answered 407 Proxy Authentication Required; check HTTPS_PROXY"},
		{"502 Bad Gateway", "answered 502 Bad Gateway; check HTTPS_PROXY"},
	} {
		t.Run(test.status, func(t *testing.T) {
			o := newOrigin(t, 0, func(i *instance) { i.secure = "HTTP/2" })
			answerConnects(t, "HTTP/1.1 "+test.status+"\r\nContent-Length: 9223372036854775807\r\n\r\n", o.a.address)
			client := o.proxied(t)
			if test.want == "" {
				require.NoError(t, client.Applications.Cancel(t.Context(), lending.ApplicationID(uuid.New())))
				require.NoError(t, submit(t, client, o, 1<<20, nil))
				return
			}
			requireRefusal(t, client, test.want)
			assert.Empty(t, o.executed)
		})
	}
}

// answerConnects is a proxy that answers each CONNECT with head, and then connects to the service.
func answerConnects(t *testing.T, head, service string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", proxyAddress)
	require.NoError(t, err)
	var all sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				reader := bufio.NewReader(conn)
				if _, err := http.ReadRequest(reader); err != nil {
					return
				}
				_, _ = io.WriteString(conn, head)
				tunnel, err := new(net.Dialer).DialContext(t.Context(), "tcp", service)
				if err != nil {
					return
				}
				all.Go(func() {
					_, _ = io.Copy(tunnel, reader)
					_ = tunnel.Close()
				})
				_, _ = io.Copy(conn, tunnel)
			})
		}
	})
}
