// Sandbox runs the lending service as a program on a port, so that a front end, or a
// client in any language, can be tried against it. Everything is kept in memory and
// forgotten at the end.
//
//	go run ./examples/sandbox
//
// The API is below /api, as the interface has it. The page at / shows applications,
// loans, the codes that were "sent", and webhook deliveries as they happen; every
// request is printed. It listens on this machine only, unless -public is given.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lendingapi/lending-go/lendingtest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		os.Exit(1)
	}
}

// settings is what the flags say.
type settings struct {
	addr   string
	public bool
	log    bool
	origin string
}

// run serves until ctx ends, then lets the requests being served finish.
func run(ctx context.Context, args []string, out io.Writer, opts ...lendingtest.Option) error {
	var s settings
	flags := flag.NewFlagSet("sandbox", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&s.addr, "addr", "127.0.0.1:8080", "address to listen on")
	flags.BoolVar(&s.public, "public", false, "allow an address that other machines reach")
	flags.BoolVar(&s.log, "log", true, "print every request")
	flags.StringVar(&s.origin, "origin", "", "origin of a web page that may call the API, for example http://localhost:3000")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	listener, err := listen(ctx, s)
	if err != nil {
		return err
	}
	printer := log.New(out, "", 0) // one line at a time, whoever writes
	if s.log {
		opts = append(opts, lendingtest.WithRequestLog(func(r lendingtest.Request) { printer.Print(line(r)) }))
	}
	if !s.public { // others could have this machine call services that only it can reach
		opts = append(opts, lendingtest.WithLoopbackReceivers())
	}
	service := lendingtest.New(opts...)
	defer service.Close()
	printer.Print(greeting(listener.Addr().String(), s.public))
	err = serve(ctx, listener, service, s)
	printer.Print("The sandbox has stopped.")
	return err
}

// listen opens the port, and only a loopback one unless -public is given: whoever
// reaches it can read the codes that it sends.
func listen(ctx context.Context, s settings) (net.Listener, error) {
	addr, err := net.ResolveTCPAddr("tcp", s.addr)
	if err != nil {
		return nil, err
	}
	if !s.public && !addr.IP.IsLoopback() {
		return nil, fmt.Errorf("other machines could reach %s, and the sandbox shows the codes it sends: give -public if that is meant", s.addr)
	}
	var config net.ListenConfig
	return config.Listen(ctx, "tcp", addr.String())
}

func serve(ctx context.Context, listener net.Listener, service *lendingtest.Service, s settings) error {
	server := &http.Server{
		Handler:           handler(service, s, ctx.Done()),
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
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// greeting says where the sandbox is and how to sign in.
func greeting(addr string, public bool) string {
	text := "The sandbox is at http://" + addr + "/\n"
	if public {
		text += "WARNING: other machines may reach it. Whoever does can sign in, read every code,\n" +
			"and have this machine post webhooks to addresses of their choice.\n"
	}
	return text + fmt.Sprintf(`
Accounts
  %s  %s  with two-factor sign-in: the code is on the page
  %s    %s    webhook administrator

Sign in from a trusted device, which needs no code:
  curl -s http://%s/api/Authenication/login -H 'Content-Type: application/json' \
    -d '{"username":"%s","password":"%s","trustedDeviceToken":"%s"}'
`,
		lendingtest.Username, lendingtest.Password, lendingtest.AdministratorUsername, lendingtest.AdministratorPassword,
		addr, lendingtest.Username, lendingtest.Password, lendingtest.TrustedDeviceToken)
}
