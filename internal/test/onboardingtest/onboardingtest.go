// Package onboardingtest kills a worker at random while it uses an idempotency store: see package
// onboarding.
package onboardingtest

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lendingapi/lending-go/examples/order"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/longrun"
	"github.com/lendingapi/lending-go/internal/test/onboarding"
	"github.com/lendingapi/lending-go/lendingtest"
)

var (
	customers = flag.Int("onboardings", 20, "how many customers the kill test of a log takes along")
	kills     = flag.Int("workerkills", 8, "how often the kill test of a log kills its worker")
	lost      = flag.Float64("lostresponses", 0.1, "the share of the responses that the kill test of a log loses or cuts")
	lag       = flag.Duration("readlag", 100*time.Millisecond, "how late reads show writes in the kill test of a log")
)

const (
	workerVariable = "LENDING_ONBOARDINGTEST_WORKER" // address of the service, for the worker process
	storeVariable  = "LENDING_ONBOARDINGTEST_STORE"  // location of the log
	howVariable    = "LENDING_ONBOARDINGTEST_HOW"    // number of orders, lag of reads, and status of a missing customer
	movesVariable  = "LENDING_ONBOARDINGTEST_MOVES"  // the addresses of a moving service
)

const (
	held   = 100 * time.Millisecond // the longest delay of a late command
	margin = 300 * time.Millisecond // of MaxLateness beyond held and the lag of reads
	life   = 120 * time.Millisecond // the longest life of a worker
)

// Opened is the store of a log, and the lock of its orders.
type Opened struct {
	store.Store

	Lock  func(ctx context.Context, order string) (unlock func(), err error) // nil for a single replica
	Close func() error
}

// Worker does the work of a process that [Kill] has started, with the store that open opens. The
// package's TestMain calls Worker. In any other process Worker returns false.
func Worker(open func(entries string) (Opened, error)) (code int, isWorker bool) {
	address := os.Getenv(workerVariable)
	if address == "" {
		return 0, false
	}
	onboarding.EndWithParent()
	if err := child(address, open); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1, true
	}
	return 0, true
}

func child(address string, open func(entries string) (Opened, error)) error {
	var n, missing int
	var lag time.Duration
	if _, err := fmt.Sscan(os.Getenv(howVariable), &n, (*int64)(&lag), &missing); err != nil {
		return err
	}
	entries, err := open(os.Getenv(storeVariable))
	if err != nil {
		return err
	}
	opts := &idempotency.Options{MaxLateness: held + lag + margin, SafeToRepeat: order.SafeToRepeat}
	for base := range strings.FieldsSeq(os.Getenv(movesVariable)) {
		former := idempotency.Account{BaseURL: base, Username: lendingtest.AdministratorUsername}
		opts.Formerly = append(opts.Formerly, former)
	}
	log, err := idempotency.NewLog(entries, opts)
	if err == nil {
		err = work(context.Background(), address, n, missing, log, entries.Lock)
	}
	if failed := entries.Close(); err == nil {
		err = failed
	}
	return err
}

// How is how the workers of [Kill] run.
type How struct {
	Replicas int    // workers at the same time
	Between  func() // called from time to time, for example to restart the server of the log; may be nil
	// Up to two thirds of the kills, every second worker is the program Earlier, or uses the first
	// address of a moving service.
	Earlier string // "" for the program of today
	Moves   bool
	// Open opens the log after the end, for an audit.
	Open func(entries string) (Opened, error)
	// Framework is of lendingtest.WithFramework.
	Framework string
}

// many is a number of customers for which some keys need a person.
const many = 100

// Kill runs a worker with its log in store through the whole approval, and kills the worker many
// times. Responses are lost or cut, and reads are late. The test fails if a command is missing
// at the end, although its call succeeded, or if a command ran twice that must not.
//
// Replicas of the worker share the store, and carry the orders out as in AGENTS.md. A person ends
// the doubts of each fourth order.
func Kill(t *testing.T, entries string, how How) {
	t.Helper()
	if how.Replicas > 1 && longrun.Wanted() && *customers < proven {
		*customers, *kills, *lost = proven, proven/4, 0.15
	}
	var killed, started, earlier, refused atomic.Int64
	_, emails := order.Orders(*customers)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute+3*time.Duration(*customers)*time.Second)
	defer cancel()
	var audited audit
	result, err := onboarding.Trial{
		Customers: emails, Lost: *lost, Held: held, Kills: *kills, Life: life, ReadLag: *lag, Fleet: how.Replicas,
		Framework: how.Framework,
		Killed: func() {
			if killed.Add(1)%4 == 2 && how.Between != nil {
				how.Between()
			}
		},
		Ended: func(ctx context.Context, address string) (err error) {
			audited, err = auditOf(ctx, address, entries, how)
			return err
		},
		Refused: func(said string) bool {
			isNewer := strings.Contains(said, "update this replica")
			if isNewer {
				refused.Add(1)
			}
			return isNewer
		},
		Worker: func(address string) *exec.Cmd {
			program, base, missing := os.Args[0], address, http.StatusNoContent
			if how.Framework == "2.3" {
				missing = http.StatusNotFound
			}
			moved := strings.Replace(address, "127.0.0.1", "localhost", 1)
			switch isNext := started.Add(1)%2 == 0 || 3*killed.Load() > 2*int64(*kills); {
			case isNext && how.Moves:
				base = moved
			case !isNext && how.Earlier != "":
				program = how.Earlier
				earlier.Add(1)
			}
			worker := exec.Command(program, "-test.run=^$")
			worker.Env = append(os.Environ(), workerVariable+"="+base, storeVariable+"="+entries,
				howVariable+fmt.Sprintf("=%d %d %d", *customers, *lag, missing))
			if how.Moves {
				worker.Env = append(worker.Env, movesVariable+"="+address+" "+moved)
			}
			return worker
		},
	}.Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	if err := result.Count(&table, *customers); err != nil {
		t.Errorf("done twice, or said to be done and missing: %v", err)
	}
	t.Logf("%d onboardings in %s, the worker killed %d times, %d responses lost or cut, reads %s late%s",
		*customers, result.Elapsed.Round(time.Millisecond), result.Kills, result.Lost, *lag, table.String())
	t.Logf("%d of %d workers were of the earlier build, and %d ended at a value of the newer build",
		earlier.Load(), started.Load(), refused.Load())
	audited.agrees(t, result)
	t.Logf("persons looked up %d keys %v", len(result.Reviewed), result.Reviewed)
	t.Logf("all orders ended %s after the last fault, kill or verdict", result.After.Round(time.Millisecond))
	if result.After > time.Minute {
		t.Errorf("an order ended %s after the last fault, kill or verdict", result.After)
	}
	if *customers >= many && len(result.Reviewed) == 0 {
		t.Error("no key needed a person: this test shows nothing")
	}
	needed := slices.DeleteFunc(result.Reviewed, func(key string) bool {
		id, _, _ := strings.Cut(key, "/")
		return persons(order.Order{ID: id})
	})
	t.Logf("persons were needed for %d keys of orders with checks of the partner", len(needed))
	if *customers >= many && len(needed)*100 > mostPersons*len(emails) {
		t.Errorf("persons were needed for %v of %d orders", needed, len(emails))
	}
}

// proven is the number of orders of a long run with replicas: the proof of the documentation.
const proven = 240

// mostPersons is the largest number of keys for a person in 100 orders with checks of the partner.
const mostPersons = 5
