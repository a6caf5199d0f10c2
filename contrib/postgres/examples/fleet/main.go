// Fleet opens an account for each of twelve orders in three replicas of a program. All three are
// killed while a mutation is in flight, and three others continue. The replicas share a token
// and an idempotency log in PostgreSQL: a person enters a single code, and at the end the
// service has exactly twelve of everything.
//
// The program needs Go and an installed PostgreSQL server, and starts a server of its own in a
// temporary folder. The main process runs the service and takes the orders. It also starts
// itself as the replicas, and kills them. Take replica.go over into your program.
//
//	go -C contrib/postgres run ./examples/fleet
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/internal/test/pgtest"
	"github.com/lendingapi/lending-go/lendingtest"

	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
)

const (
	orders   = 12
	replicas = 3

	loginRoute       = "POST /api/Authenication/login"
	customerRoute    = "POST /api/Application/create-customer"
	applicationRoute = "POST /api/Application/create-application"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	var err error
	if len(os.Args) == 4 && os.Args[1] == "replica" {
		go endWith(os.Stdin)
		err = work(ctx, os.Args[2], os.Args[3])
	} else {
		err = run(ctx, os.Stdout)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

// endWith ends this replica process when its parent ends.
func endWith(input io.Reader) {
	_, _ = io.Copy(io.Discard, input)
	os.Exit(2)
}

func run(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cluster, err := pgtest.New() // use your own database instead
	if err != nil {
		return err
	}
	defer cluster.Close()
	pool, err := pgxpool.New(ctx, cluster.URL("postgres"))
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := errors.Join(lendingpostgres.Migrate(ctx, pool, nil), takeOrders(ctx, pool)); err != nil {
		return err
	}
	service := lendingtest.New()
	defer service.Close()
	server := httptest.NewServer(withPhone(service))
	defer server.Close()
	say(out, "The embedded service and a PostgreSQL server are running: nothing leaves this machine.")

	// The service creates five applications normally, and the fleet is killed during the sixth.
	reached, ended := make(chan struct{}), make(chan struct{})
	service.Fail(applicationRoute, lendingtest.Fault{Times: 5})
	service.Fail(applicationRoute, lendingtest.Fault{Reached: func() { close(reached); <-ended }, ResetAfter: true})
	first, err := start(ctx, server.URL, cluster.URL("postgres"))
	if err != nil {
		return err
	}
	say(out, "%d replicas work on %d orders.", replicas, orders)
	select {
	case <-reached:
	case <-ctx.Done():
		return ctx.Err()
	}
	first.kill()
	close(ended)
	say(out, "All are killed, while the service executes a command of theirs. %d others go on.", replicas)
	second, err := start(ctx, server.URL, cluster.URL("postgres"))
	if err != nil {
		return err
	}
	return errors.Join(second.wait(), count(ctx, out, service, pool))
}

// takeOrders inserts the orders.
func takeOrders(ctx context.Context, pool *pgxpool.Pool) error {
	if _, err := pool.Exec(ctx, "CREATE TABLE orders (name text PRIMARY KEY, email text NOT NULL, done boolean NOT NULL DEFAULT false)"); err != nil {
		return err
	}
	for n := range orders {
		name := fmt.Sprint("order-", n+1)
		if _, err := pool.Exec(ctx, "INSERT INTO orders VALUES ($1, $2)", name, name+"@example.com"); err != nil {
			return err
		}
	}
	return nil
}

const phonePath = "/phone"

// withPhone adds a page with the code that a person reads from a phone.
func withPhone(service *lendingtest.Service) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", service)
	mux.HandleFunc("GET "+phonePath, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, service.TwoFactorCode(lendingtest.Username))
	})
	return mux
}

type fleet []*exec.Cmd

func start(ctx context.Context, service, database string) (fleet, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var started fleet
	for range replicas {
		replica := exec.CommandContext(ctx, self, "replica", service, database) //nolint:gosec // this very program
		replica.Stderr = os.Stderr
		if _, err := replica.StdinPipe(); err != nil { // the pipe ends with this process
			return nil, err
		}
		if err := replica.Start(); err != nil {
			return nil, err
		}
		started = append(started, replica)
	}
	return started, nil
}

// kill sends SIGKILL, so the replicas cannot clean up.
func (f fleet) kill() {
	for _, replica := range f {
		_ = replica.Process.Kill()
	}
	_ = f.wait()
}

// wait waits until all replicas have ended.
func (f fleet) wait() error {
	failed := make([]error, len(f))
	var waiting sync.WaitGroup
	for i, replica := range f {
		waiting.Go(func() { failed[i] = replica.Wait() })
	}
	waiting.Wait()
	return errors.Join(failed...)
}

// count prints the records in the service, and fails unless each order has exactly the expected
// records.
func count(ctx context.Context, out io.Writer, service *lendingtest.Service, pool *pgxpool.Pool) error {
	there := service.Snapshot()
	var left int
	if err := pool.QueryRow(ctx, "SELECT count(*) FROM orders WHERE NOT done").Scan(&left); err != nil {
		return err
	}
	say(out, "\n%-26s  wanted  there", "")
	var failed error
	for _, row := range []struct {
		name          string
		wanted, there int
	}{
		{"sign-ins", 1, service.Arrived(loginRoute)},
		{"codes sent to a phone", 1, len(service.Sent())},
		{"customers", orders, len(there.Customers)},
		{"applications", orders, len(there.Applications)},
		{"customers created", orders, service.Executed(customerRoute)},
		{"applications created", orders, service.Executed(applicationRoute)},
		{"orders that are not done", 0, left},
	} {
		say(out, "%-26s  %6d  %5d", row.name, row.wanted, row.there)
		if row.there != row.wanted {
			failed = errors.Join(failed, fmt.Errorf("%s: %d instead of %d", row.name, row.there, row.wanted))
		}
	}
	return failed
}

func say(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
