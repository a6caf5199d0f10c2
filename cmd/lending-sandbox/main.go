// Sandbox runs the lending service on a port, for tests of a front end or of a client in any
// language. Its records are in memory.
// Identifiers, codes and tokens are new at each start; -seed makes them repeatable.
//
//	go run ./cmd/lending-sandbox
//
// The API is below /api, as in the interface. The page at / shows the requests, the "sent"
// codes, the customers with their applications and loans, and the webhook deliveries as they
// happen, the newest fifty of each. The program prints every request, and every mutation
// executed after its caller has gone.
//
// The sandbox listens on this machine only, unless -public is given. A public sandbox answers to
// addresses and to the names of -host, and prints a token for its page.
//
// With -control another program controls the sandbox at /_control/: plans faults, reads codes,
// counts executed mutations, and opens further services for testers
// who share the sandbox. lendingtest/CONTROL.md describes the requests; the forms of the page send
// them, too. After a reset the identifiers start again, so clear the identifiers in the client's
// stores, above all in its idempotency log.
//
// With -tls the sandbox serves https and writes
// its certificate to the file.
package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/lendingtest/control"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "lending-sandbox:", err)
		os.Exit(1)
	}
}

// settings are the values of the flags.
type settings struct {
	addr   string
	public bool
	log    bool
	origin string

	hosts []string // further host names of a public sandbox and of the certificate

	control bool
	token   string // for the control, and for the page of a public sandbox

	receivers []string // host:port that may receive webhooks over http

	certificate string // file for the certificate, for https

	readLag time.Duration

	seed uint64 // of identifiers, codes and tokens; 0 means random

	framework string // generation of the framework whose forms refusals have, "" for the service's own

	known string // service.json of lending-probe
}

func (s settings) scheme() string {
	if s.certificate != "" {
		return "https"
	}
	return "http"
}

func parse(args []string, out io.Writer) (s settings, err error) {
	flags := flag.NewFlagSet("lending-sandbox", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&s.addr, "addr", "127.0.0.1:8080", "address to listen on")
	flags.BoolVar(&s.public, "public", false, "allow an address that other machines can reach")
	flags.BoolVar(&s.log, "log", true, "print every request")
	flags.Func("host", "a further host name for a public sandbox and its certificate, for example that of a container; repeatable", func(name string) error {
		s.hosts = append(s.hosts, name)
		return nil
	})
	flags.StringVar(&s.origin, "origin", "", "origin of a web page that may call the API, for example http://localhost:3000")
	flags.Func("receiver", "host:port that may receive webhooks over http, for example host.docker.internal:3000; repeatable", func(hostPort string) error {
		s.receivers = append(s.receivers, hostPort)
		return checkHostPort(hostPort)
	})
	flags.BoolVar(&s.control, "control", false, "let other programs control the sandbox at /_control/; with -public they need the printed token")
	flags.StringVar(&s.token, "control-token", "", "like -control, with this token instead of a random token")
	flags.StringVar(&s.certificate, "tls", "", "serve https, and write the certificate to this file, for example sandbox.pem; clients must trust the file")
	flags.DurationVar(&s.readLag, "read-lag", 0, "delay the effect of mutations on reads, like a service that reads from replicas")
	flags.Uint64Var(&s.seed, "seed", 0, "make identifiers, codes and tokens the same in each run; 0 makes new ones at each start")
	flags.StringVar(&s.framework, "framework", "", "refuse in the forms of ASP.NET Core 2.3 or 10, in place of the service's own record")
	flags.StringVar(&s.known, "service", "", "answer like the real service, as in this service.json of lending-probe")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if flags.NArg() > 0 { // flag.Parse stops here and would ignore the flags that follow
		return s, fmt.Errorf("%q is not a flag; flags begin with a hyphen", flags.Arg(0))
	}
	if err := checkOrigin(s.origin); err != nil {
		return s, err
	}
	if s.framework != "" && s.framework != "2.3" && s.framework != "10" {
		return s, errors.New("-framework wants 2.3 or 10")
	}
	if s.seed > math.MaxUint32 {
		return s, fmt.Errorf("-seed wants a number up to %d", uint32(math.MaxUint32))
	}
	if s.seed == 0 { // so a token or identifier of another run is invalid in this run
		var random [4]byte
		_, _ = rand.Read(random[:]) // never fails
		s.seed = uint64(binary.LittleEndian.Uint32(random[:]))
	}
	s.control = s.control || s.token != ""
	if s.public && s.token == "" {
		s.token = rand.Text()
	}
	return s, nil
}

func checkHostPort(value string) error {
	if host, port, err := net.SplitHostPort(value); err != nil || host == "" || port == "" {
		return errors.New("want host:port, for example 192.0.2.7:3000")
	}
	return nil
}

// checkOrigin rejects an origin that no browser sends, because it would never match.
func checkOrigin(origin string) error {
	u, err := url.Parse(origin)
	if origin == "" || err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Scheme+"://"+u.Host == origin && u.Host != "" {
		return nil
	}
	return fmt.Errorf("-origin %q is not an origin: want scheme, host and port only, for example http://localhost:3000", origin)
}

// run serves until ctx ends, and then until the requests in progress are done.
func run(ctx context.Context, args []string, out io.Writer, opts ...lendingtest.Option) error {
	s, err := parse(args, out)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	if s.known != "" {
		option, err := taught(s.known)
		if err != nil {
			return err
		}
		opts = append(opts, option)
	}
	opts = append(opts, lendingtest.WithFramework(s.framework))
	if s.readLag > 0 { // replaces the lags of -service
		opts = append(opts, lendingtest.WithReadLag(s.readLag))
	}
	listener, err := listen(ctx, s)
	if err != nil {
		return err
	}
	printer := log.New(out, "", 0) // a line at a time, from any goroutine
	opts = append(opts, lendingtest.WithHTTPReceivers(s.receivers...))
	if !s.public { // other machines could make this machine call services that only it can reach
		opts = append(opts, lendingtest.WithLoopbackReceivers())
	}
	if s.certificate != "" {
		host, _, _ := net.SplitHostPort(s.addr)
		config, err := certify(s.certificate, append(s.hosts, host))
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		listener = tls.NewListener(listener, config)
	}
	p := s.site(printer, opts)
	defer p.service.Close()
	defer p.services.Close()
	printer.Print(greeting(callable(listener.Addr()), s))
	err = serve(ctx, listener, p)
	printer.Print("The sandbox has stopped.")
	return err
}

// site returns the site of a sandbox. Its control opens further services, each with identifiers of its own.
func (s settings) site(printer *log.Logger, opts []lendingtest.Option) *site {
	opened := uint64(0)
	fresh := func(path string, services *control.Services) *site {
		p := &site{set: s, path: path, services: services}
		own := []lendingtest.Option{lendingtest.WithSeed(uint32((s.seed + opened) & math.MaxUint32))}
		opened++
		if s.log {
			own = append(own, lendingtest.WithWatcher(func(r lendingtest.Request, late bool) {
				if late {
					printer.Print(lateLine(r, p.service.Now()))
				} else {
					printer.Print(s.line(r))
				}
			}))
		}
		p.service = lendingtest.New(slices.Concat(opts, own)...)
		p.control = control.New(p.service, &control.Options{Token: s.token, Services: services})
		return p
	}
	services := &control.Services{}
	services.Open = func(path string) (http.Handler, func()) { // called for one service at a time
		p := fresh(path, nil)
		return p.handler(), p.service.Close
	}
	return fresh("", services)
}

// taught reads the file of -service. A service that panics because of the file makes an error of it.
func taught(file string) (option lendingtest.Option, err error) {
	learnt, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	defer func() {
		if text := recover(); text != nil {
			err = fmt.Errorf("%s: %v", file, text)
		}
	}()
	option = lendingtest.WithService(learnt)
	lendingtest.New(option).Close()
	return option, nil
}

// listen opens the port. Without -public the address must be loopback, because every visitor can
// read the codes.
func listen(ctx context.Context, s settings) (net.Listener, error) {
	addr, err := net.ResolveTCPAddr("tcp", s.addr)
	if err != nil {
		return nil, err
	}
	if !s.public && !addr.IP.IsLoopback() {
		return nil, fmt.Errorf("other machines can reach %s, and the sandbox shows all codes: add -public to allow this", s.addr)
	}
	var config net.ListenConfig
	return config.Listen(ctx, "tcp", addr.String())
}

func serve(ctx context.Context, listener net.Listener, p *site) error {
	server := &http.Server{
		Handler:           p.handler(),
		ReadHeaderTimeout: 10 * time.Second,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(patience); err != nil {
		err = errors.Join(err, server.Close())
		return fmt.Errorf("some requests were cut off: %w", err)
	}
	return nil
}

// callable returns an address that clients can use and that the certificate can name, also if
// the sandbox listens on all addresses.
func callable(addr net.Addr) string {
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return net.JoinHostPort("localhost", strconv.Itoa(tcp.Port))
	}
	return addr.String()
}

// quote returns text as a single word of the shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// greeting describes the address of the sandbox and how to sign in.
func greeting(addr string, s settings) string {
	base, curl := s.scheme()+"://"+addr, "curl -s"
	text := "The sandbox is at " + base + "/\n"
	if s.public {
		text += "WARNING: other machines may reach it. Anyone who does can sign in and have this machine\n" +
			"post webhooks to addresses of their choice. The page needs this token as the password:\n  " + s.token + "\n"
	}
	if s.certificate != "" {
		curl += " --cacert " + quote(s.certificate)
		text += fmt.Sprintf(`
Its certificate is in %[1]s, new at each start. To trust it
  curl --cacert %[1]s
  Node: NODE_EXTRA_CA_CERTS=%[1]s
  Python: SSL_CERT_FILE=%[1]s
  Go: tls.Config{RootCAs: pool}, after pool.AppendCertsFromPEM of the file
`, quote(s.certificate))
	}
	if s.control {
		header := ""
		if s.token != "" {
			header = ` -H ` + quote(`Authorization: Bearer `+s.token)
		}
		text += fmt.Sprintf(`
Other programs steer it at %s/_control/, see lendingtest/CONTROL.md
  %s%s %[1]s/_control/snapshot
`, base, curl, header)
	}
	return text + fmt.Sprintf(`
Accounts
  %s  %s  with two-factor sign-in: the code is on the page
  %s    %s    webhook administrator

Sign in from a trusted device, which needs no code:
  %s %s/api/Authenication/login -H 'Content-Type: application/json' \
    -d '{"username":"%s","password":"%s","trustedDeviceToken":"%s"}'
`,
		lendingtest.Username, lendingtest.Password, lendingtest.AdministratorUsername, lendingtest.AdministratorPassword,
		curl, base, lendingtest.Username, lendingtest.Password, lendingtest.TrustedDeviceToken)
}
