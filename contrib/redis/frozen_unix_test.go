//go:build unix

package lendingredis_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	lendingredis "github.com/lendingapi/lending-go/contrib/redis"
)

var freezes = flag.Int("freezes", 4, "how many processes TestFrozenProcesses stops with SIGSTOP")

const (
	frozenVariable = "LENDING_TEST_FROZEN_MUTATION" // the service, Redis and the customer of a process that is stopped
	frozenCall     = 300 * time.Millisecond         // deadline of its call
	frozenLateness = 200 * time.Millisecond
	frozenRoute    = "POST /api/Application/create-application"
)

// freezing stops its process within a moment after "sent" is durable.
type freezing struct{ store.Store }

func (f freezing) Save(ctx context.Context, entry store.Entry) error {
	err := f.Store.Save(ctx, entry)
	if err == nil && entry.State == store.Sent {
		begun, pause := time.Now(), rand.N(500*time.Microsecond)
		go func() {
			for time.Since(begun) < pause { //nolint:revive // a timer is too coarse
			}
			_, _ = fmt.Fprintln(os.Stdout, "stopped")
			_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		}()
	}
	return err
}

// TestFrozenProcesses stops processes with SIGSTOP right after "sent" is durable, until their
// deadline and MaxLateness are over. Another process checks the mutation and sends it if
// necessary. The first process goes on, and sends nothing. The remaining risk is a stop between
// the last look at the clock and the system call that writes.
func TestFrozenProcesses(t *testing.T) {
	if where := os.Getenv(frozenVariable); where != "" {
		_, _ = fmt.Fprintln(os.Stdout, lending.OutcomeOf(sendFrozen(t.Context(), strings.Fields(where))))
		return
	}
	t.Parallel() // it waits most of the time
	service := lendingtest.NewServer()
	defer service.Close()
	server := startRedis(t, "--appendonly", "yes")
	entries, err := lendingredis.NewIdempotencyStore(server.client(), "test", nil)
	require.NoError(t, err)
	client, err := frozenClient(service.URL, entries)
	require.NoError(t, err)
	defer client.Close()
	executed := func(customer string) int { return service.ExecutedFor(frozenRoute)[customer] }
	var before, refused, twice atomic.Int64
	var group sync.WaitGroup
	places := make(chan struct{}, 4)
	for n := range *freezes {
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			customer := service.AddCustomer(lendingtest.Customer{Email: fmt.Sprintf("c%d@example.com", n)}).ID
			frozen := exec.Command(os.Args[0], "-test.run=^TestFrozenProcesses$")
			frozen.Env = append(os.Environ(), frozenVariable+"="+service.URL+" "+server.address()+" "+customer)
			output, err := frozen.StdoutPipe()
			if !assert.NoError(t, err) || !assert.NoError(t, frozen.Start()) {
				return
			}
			defer func() { _ = frozen.Wait() }()
			defer func() { _ = frozen.Process.Kill() }()
			said := bufio.NewScanner(output)
			said.Scan() // that it is stopped, unless the machine is too slow and its call has ended
			<-time.After(frozenCall)
			if executed(customer) > 0 {
				before.Add(1)
			}
			for err = createFrozen(t.Context(), client, customer); lending.NextOf(err).Retry && t.Context().Err() == nil; {
				<-time.After(max(10*time.Millisecond, lending.NextOf(err).After))
				err = createFrozen(t.Context(), client, customer)
			}
			assert.NoError(t, err)
			_ = frozen.Process.Signal(syscall.SIGCONT)
			if said.Scan() && said.Text() == lending.OutcomeNotSent.String() {
				refused.Add(1)
			}
			if n := executed(customer); n != 1 {
				twice.Add(1)
			}
		})
	}
	group.Wait()
	t.Logf("%d processes stopped: %d had sent before, %d sent nothing afterwards; %d mutations executed twice",
		*freezes, before.Load(), refused.Load(), twice.Load())
	assert.LessOrEqual(t, twice.Load(), int64(1+*freezes/50))
}

func frozenClient(address string, entries store.Store) (*lending.Client, error) {
	log, err := idempotency.NewLog(entries, &idempotency.Options{MaxLateness: frozenLateness})
	if err != nil {
		return nil, err
	}
	return lending.New(address, lending.WithIdempotency(log), lending.WithCredentials(lending.Credentials{
		Username: lendingtest.AdministratorUsername, Password: lending.NewSecret(lendingtest.AdministratorPassword),
	}))
}

func createFrozen(ctx context.Context, client *lending.Client, customer string) error {
	id, err := lending.ParseCustomerID(customer)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(lending.WithIdempotencyKey(ctx, customer+"/create-application"), frozenCall)
	defer cancel()
	_, err = client.Applications.Create(ctx, lending.ApplicationRequest{
		CustomerID: id, BusinessName: "Engines", BusinessZip: "94105",
	}, nil)
	return err
}

func sendFrozen(ctx context.Context, where []string) error {
	entries, err := lendingredis.NewIdempotencyStore(newRedis(where[1]), "test", nil)
	if err != nil {
		return err
	}
	client, err := frozenClient(where[0], freezing{entries})
	if err != nil {
		return err
	}
	if err := client.Session().SignIn(ctx); err != nil {
		return err
	}
	return createFrozen(ctx, client, where[2])
}
