package gateways_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"text/template"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/stretchr/testify/require"
)

// certificate is of every gateway, for 127.0.0.1.
var certificate = func() tls.Certificate {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	return server.TLS.Certificates[0]
}()

// product is a gateway that can be installed.
type product struct {
	program string
	args    []string // a template
	reload  func(g *gateway) error
}

func signal(s syscall.Signal) func(*gateway) error {
	return func(g *gateway) error { return g.command.Process.Signal(s) }
}

var products = map[string]product{
	"nginx":   {"nginx", []string{"-e", "{{.Dir}}/error.log", "-c", "{{.Dir}}/main"}, signal(syscall.SIGHUP)},
	"haproxy": {"haproxy", []string{"-W", "-f", "{{.Dir}}/main", "-f", "{{.Conf}}"}, signal(syscall.SIGUSR2)},
	"apache2": {"apache2", []string{"-D", "FOREGROUND", "-f", "{{.Dir}}/main"}, signal(syscall.SIGUSR1)},
	"caddy": {"caddy", []string{"run", "--adapter", "caddyfile", "--config", "{{.Dir}}/main"}, func(g *gateway) error {
		reload := exec.Command("caddy", "reload", "--force", "--adapter", "caddyfile", "--config", g.Dir+"/main",
			"--address", "unix/"+g.Dir+"/admin")
		if out, err := reload.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}},
}

// gateway is a running gateway. Its exported fields are those of the templates.
type gateway struct {
	*testing.T
	product

	Dir, Conf, Modules string
	Listen             string // host and port
	A, B               string // the instances of the service
	Requests, Streams  int    // of a connection
	Seconds            int    // the read timeout, unless the configuration has another
	Port               string // to which a proxy connects
	User               string // of a proxy
	Limit              int    // of a body
	Buffering          string // of requests: on or off

	command *exec.Cmd
}

// start starts the product with a configuration, such as nginx/default, before the instances of the service.
func start(t *testing.T, configuration string, o *origin, changes ...func(*gateway)) *gateway {
	t.Helper()
	name, _, _ := strings.Cut(configuration, "/")
	_, port, _ := net.SplitHostPort(o.a.address)
	g := &gateway{
		T: t, product: products[name], Dir: t.TempDir(), Listen: freeAddress(), A: o.a.address, B: o.b.address,
		Modules: "/usr/lib/apache2/modules", Requests: 1000, Streams: 128, Seconds: 60, Port: port, User: "partner",
	}
	g.Conf = g.Dir + "/conf"
	for _, change := range changes {
		change(g)
	}
	if _, err := exec.LookPath(g.program); err != nil {
		t.Skip(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	require.NoError(t, err)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})
	key = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})
	for file, content := range map[string][]byte{
		"cert.pem": cert, "key.pem": key, "both.pem": append(cert, key...),
		"main": g.render("testdata/" + name + "/main"), "conf": g.render("testdata/" + configuration + ".conf"),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(g.Dir, file), content, 0o600))
	}
	g.run()
	t.Cleanup(func() {
		g.kill()
		if log, _ := os.ReadFile(g.Dir + "/output"); t.Failed() {
			t.Logf("%s: %.2000s", configuration, log)
		}
	})
	return g
}

func (g *gateway) render(file string) []byte {
	g.Helper()
	text, err := os.ReadFile(file)
	require.NoError(g, err)
	return []byte(g.fill(string(text)))
}

func (g *gateway) fill(text string) string {
	g.Helper()
	var filled bytes.Buffer
	require.NoError(g, template.Must(template.New("").Parse(text)).Execute(&filled, g))
	return filled.String()
}

// run starts the program, and returns when it accepts connections.
func (g *gateway) run() {
	g.Helper()
	var args []string
	for _, arg := range g.args {
		args = append(args, g.fill(arg))
	}
	output, err := os.OpenFile(g.Dir+"/output", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(g, err)
	defer output.Close()
	g.command = exec.Command(g.program, args...)
	g.command.Stdout, g.command.Stderr = output, output
	g.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(g, g.command.Start())
	require.Eventually(g, g.listens, 20*time.Second, 10*time.Millisecond, "the gateway does not start: %s/output", g.Dir)
}

// kill ends the program and its workers at once, and returns when nothing listens.
func (g *gateway) kill() {
	_ = syscall.Kill(-g.command.Process.Pid, syscall.SIGKILL)
	_ = g.command.Wait()
	for n := 0; n < 10_000 && g.listens(); n++ {
		<-time.After(time.Millisecond)
	}
}

func (g *gateway) listens() bool {
	conn, err := new(net.Dialer).DialContext(context.Background(), "tcp", g.Listen)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

var identifier = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// arrivals returns the lines for mutations in the gateway's own log, by the identifier in their path. A line names
// connection and number of the request. haproxy logs no request that it resets with REFUSED_STREAM: there the
// executions alone tell of a second send.
func (g *gateway) arrivals() map[string][]string {
	lines := map[string][]string{}
	log, err := os.ReadFile(g.Dir + "/access.log")
	if err != nil {
		log, err = os.ReadFile(g.Dir + "/output")
	}
	require.NoError(g, err)
	for line := range strings.Lines(string(log)) {
		id := identifier.FindString(line)
		if id != "" && !strings.Contains(line, statusPath) && !slices.Contains(lines[id], line) {
			lines[id] = append(lines[id], line)
		}
	}
	return lines
}

// client returns a client of the service behind the gateway.
func (g *gateway) client(opts ...lending.Option) *lending.Client {
	g.Helper()
	return newClient(g.T, "https://"+g.Listen, opts...)
}

func newClient(t *testing.T, address string, opts ...lending.Option) *lending.Client {
	t.Helper()
	client, err := lending.New(address, append([]lending.Option{
		lending.WithTLS(trust()), lending.WithTokenSource(lending.StaticToken("t")),
	}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// trust returns settings of TLS that accept the gateways.
func trust() *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(certificate.Leaf)
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

// lastPort is below the range from which the system takes the ports of clients.
var lastPort atomic.Int32

func freeAddress() string {
	for {
		address := fmt.Sprintf("127.0.0.1:%d", 10_000+(int(lastPort.Add(1))+os.Getpid()*100)%20_000)
		if listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address); err == nil {
			_ = listener.Close()
			return address
		}
	}
}
