// Package onboardingtest kills a worker at random while it uses an idempotency store, and
// compares the result with a worker without a store: see package onboarding.
package onboardingtest

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/onboarding"
)

var (
	orders = flag.Int("onboardings", 20, "how many customers the kill test of a log takes along; from 100 on as many without a log, to compare")
	kills  = flag.Int("workerkills", 8, "how often the kill test of a log kills its worker")
)

const (
	workerVariable = "LENDING_ONBOARDINGTEST_WORKER" // address of the service, for the worker process
	storeVariable  = "LENDING_ONBOARDINGTEST_STORE"  // location of the log, or of the files
	howVariable    = "LENDING_ONBOARDINGTEST_HOW"    // number of orders, and whether there is a log
)

const (
	concurrency = 6                      // orders per worker
	patience    = time.Second            // for a try of an order, and so for a lease
	held        = 100 * time.Millisecond // the longest delay of a late command
	maxLateness = 500 * time.Millisecond
	life        = 120 * time.Millisecond // the longest life of a worker
)

// Worker does the work of a process that [Kill] has started, with the store that open opens. The
// package's TestMain calls Worker. In any other process Worker returns false.
func Worker(open func(entries string) (store.Store, func() error, error)) (code int, isWorker bool) {
	address := os.Getenv(workerVariable)
	if address == "" {
		return 0, false
	}
	go func() { // the parent process has ended
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(2)
	}()
	if err := child(address, open); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1, true
	}
	return 0, true
}

func child(address string, open func(entries string) (store.Store, func() error, error)) error {
	var n int
	var keyed bool
	if _, err := fmt.Sscan(os.Getenv(howVariable), &n, &keyed); err != nil {
		return err
	}
	place, ctx := os.Getenv(storeVariable), context.Background()
	if !keyed {
		return work(ctx, address, n, place, nil)
	}
	entries, stop, err := open(place)
	if err != nil {
		return err
	}
	log, err := idempotency.NewLog(entries, &idempotency.Options{MaxLateness: maxLateness})
	if err == nil {
		err = work(ctx, address, n, "", log)
	}
	if failed := stop(); err == nil {
		err = failed
	}
	return err
}

// Size returns the number of customers and the number of kills, from the flags. From [Many]
// customers on, Kill also runs a worker without a log.
func Size() (customers, workerKills int) { return *orders, *kills }

// Many is a number of customers for which a worker without a log certainly repeats a command.
const Many = 100

// once has the commands that must not run twice.
var once = [...]string{onboarding.CreateCustomer, onboarding.CreateApplication, onboarding.Process, onboarding.Confirm}

// Kill runs a worker with its log in store, and kills the worker many times. The test fails if a
// command is missing at the end, or if a command ran twice that must not. With many customers
// Kill compares the result with a worker that has no log.
//
// If between is not nil, Kill calls it from time to time, for example to restart the server of
// the log.
func Kill(t *testing.T, entries string, between func()) {
	t.Helper()
	with := try(t, entries, true, between)
	for _, route := range once {
		if _, beyond, missing := with.Of(route); beyond > 0 || missing > 0 {
			t.Errorf("%s: %d too many, missing for %d customers", route, beyond, missing)
		}
	}
	if *orders < Many {
		return
	}
	without := try(t, t.TempDir(), false, nil)
	if _, beyond, _ := without.Of(onboarding.CreateApplication); beyond == 0 {
		t.Error("nothing was done twice without a log either: this test shows nothing")
	}
}

func try(t *testing.T, entries string, keyed bool, between func()) onboarding.Result {
	t.Helper()
	killed := 0
	customers := make([]string, *orders)
	for n := range customers {
		customers[n] = email(n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute+time.Duration(*orders)*time.Second)
	defer cancel()
	result, err := onboarding.Trial{
		Customers: customers, Lost: 0.1, Held: held, Kills: *kills, Life: life,
		Killed: func() {
			if killed++; between != nil && killed%4 == 2 {
				between()
			}
		},
		Worker: func(address string) *exec.Cmd {
			worker := exec.Command(os.Args[0], "-test.run=^$")
			worker.Env = append(os.Environ(), workerVariable+"="+address, storeVariable+"="+entries, howVariable+fmt.Sprintf("=%d %t", *orders, keyed))
			return worker
		},
	}.Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	how := "without a log"
	if keyed {
		how = "with a log"
	}
	var beyond [len(once)]int
	for i, route := range once {
		_, beyond[i], _ = result.Of(route)
	}
	t.Logf("%d onboardings %s in %s, the worker killed %d times, %d answers lost; done once too often: %d customers, %d applications, %d processings, %d withdrawals",
		*orders, how, result.Elapsed.Round(time.Millisecond), result.Kills, result.Lost, beyond[0], beyond[1], beyond[2], beyond[3])
	return result
}
