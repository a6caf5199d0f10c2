// Onboarding carries out ten orders, from a new customer to a confirmed withdrawal, in a worker
// process. The worker is killed again and again, and the service drops 20 % of its responses. At
// the end the service has exactly ten of everything.
//
// The program needs only Go. The main process runs the service. It starts itself as the worker,
// kills the worker with SIGKILL at random moments, and starts the next until all orders are
// done. Then the main process counts the records in the service. Take worker.go over into your
// program, and package internal/test/partner, which carries an order out.
//
//	go -C contrib/bolt run ./examples/onboarding
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/internal/test/onboarding"
	"github.com/lendingapi/lending-go/internal/test/partner"

	lendingbolt "github.com/lendingapi/lending-go/contrib/bolt"
)

// The embedded service executes nothing later than held, so a short maxLateness is enough here.
// The limit of the real service is not published: MaxLateness is 5 minutes by default.
const (
	held        = 150 * time.Millisecond
	maxLateness = 500 * time.Millisecond
)

const customers = 10

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	var err error
	if len(os.Args) == 4 && os.Args[1] == "worker" {
		go endWith(os.Stdin)
		err = work(ctx, os.Args[2], os.Args[2]+onboarding.PhonePath, os.Args[3])
	} else {
		err = run(ctx, os.Stdout)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "onboarding:", err)
		os.Exit(1)
	}
}

// endWith ends this worker process when its parent ends.
func endWith(input io.Reader) {
	_, _ = io.Copy(io.Discard, input)
	os.Exit(2)
}

func run(ctx context.Context, out io.Writer) error {
	directory, err := os.MkdirTemp("", "onboarding")
	if err != nil {
		return err
	}
	defer os.RemoveAll(directory)
	emails, err := writeOrders(directory)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	say(out, "The embedded service is running, and a worker at it: nothing leaves this machine.")
	result, err := onboarding.Trial{
		Customers: emails, Lost: 0.2, Held: held, Kills: 15, Life: 200 * time.Millisecond, Approval: true,
		Worker: func(address string) *exec.Cmd { return exec.Command(self, "worker", address, directory) }, //nolint:gosec,noctx // this very program, which the trial kills
		Tell:   onboarding.Show(out, customers),
	}.Run(ctx)
	if err != nil {
		return err
	}
	return errors.Join(result.Count(out, customers), checkLog(ctx, out, directory))
}

// checkLog returns an error if a mutation is in doubt.
func checkLog(ctx context.Context, out io.Writer, directory string) error {
	store, err := lendingbolt.OpenIdempotencyStore(filepath.Join(directory, "log"), nil)
	if err != nil {
		return err
	}
	defer store.Close()
	log, err := idempotency.NewLog(store, nil)
	if err != nil {
		return err
	}
	inDoubt, err := log.Keys(ctx, idempotency.Filter{States: idempotency.InDoubtStates()})
	if err != nil {
		return err
	}
	if len(inDoubt) > 0 {
		return fmt.Errorf("%d mutations are in doubt, %s first", len(inDoubt), inDoubt[0].Key)
	}
	say(out, "The log has nothing left in doubt.")
	return nil
}

// writeOrders writes the partner's table of orders, and returns the customers' email addresses.
func writeOrders(directory string) (emails []string, err error) {
	orders := make([]partner.Order, customers)
	for i := range orders {
		email := fmt.Sprintf("customer-%d@example.com", i+1)
		emails = append(emails, email)
		orders[i] = partner.Order{ID: fmt.Sprintf("order-%d", i+1), Email: email, Amount: "2500.00", Asked: time.Now()}
	}
	text, err := json.Marshal(orders)
	if err != nil {
		return nil, err
	}
	return emails, os.WriteFile(filepath.Join(directory, "orders.json"), text, 0o600)
}

func say(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
