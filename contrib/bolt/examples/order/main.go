// Order carries out ten orders, from a new customer to a confirmed withdrawal, in a backend with
// idempotency keys, webhooks and the operator's page. The backend is killed again and again, and the
// service drops 20 % of its responses. At the end the service has exactly ten of everything.
//
// The program needs only Go. The main process runs the service. It starts itself as the backend,
// kills the backend with SIGKILL at random moments, and starts the next until all orders are done.
// Then the main process counts the records in the service. Take backend.go over into your program,
// and package examples/order, which carries an order out.
//
//	go -C contrib/bolt run ./examples/order
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"time"

	"github.com/lendingapi/lending-go/examples/order"
	"github.com/lendingapi/lending-go/internal/test/onboarding"
)

const customers = 10

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	var err error
	if len(os.Args) == 5 && os.Args[1] == "worker" {
		onboarding.EndWithParent()
		err = work(ctx, os.Args[2], os.Args[3], os.Args[4])
	} else {
		err = run(ctx, os.Stdout)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "order:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	directory, err := os.MkdirTemp("", "order")
	if err != nil {
		return err
	}
	defer os.RemoveAll(directory)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	fmt.Fprintln(out, "The embedded service is running, and a backend at it: nothing leaves this machine.")
	listen, err := freePort()
	if err != nil {
		return err
	}
	_, emails := order.Orders(customers)
	err = onboarding.Trial{
		Customers: emails, Kills: 15,
		Worker: func(address string) *exec.Cmd { return exec.Command(self, "worker", address, directory, listen) }, //nolint:gosec,noctx // this very program, which the trial kills
	}.Demo(ctx, out)
	if err != nil {
		return err
	}
	keys, closeLog, err := openLog(directory)
	if err != nil {
		return err
	}
	return errors.Join(onboarding.NothingInDoubt(ctx, out, keys), closeLog())
}

// freePort returns an address on which the backend can listen.
func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // ends at once
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}
