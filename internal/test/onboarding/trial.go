// Package onboarding tests a worker that takes customers from nothing to a confirmed withdrawal.
// The service loses responses, the worker is killed and restarted, and the service counts how
// often each command ran.
package onboarding

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lendingapi/lending-go/lendingtest"
)

// The commands of a worker, in order. The commands marked "once" do harm if they run twice.
const (
	CreateCustomer    = "POST /api/Application/create-customer"                                       // once
	CreateApplication = "POST /api/Application/create-application"                                    // once
	BankingData       = "POST /api/Application/add-or-update-banking-data/{applicationId}"            // sets a value
	Process           = "GET /api/Application/process-application/{applicationId}"                    // once
	Company           = "POST /api/ApplicationApproval/add-company-details/{applicationId}"           // once is enough
	Applicant         = "POST /api/ApplicationApproval/add-primary-applicant-details/{applicationId}" // once
	Account           = "POST /api/ApplicationApproval/set-primary-bank-account/{applicationId}/{id}" // sets a value
	Document          = "POST /api/ApplicationApproval/submit-required-document/{applicationId}"      // once for each document
	Sign              = "POST /api/ApplicationApproval/sign-contract/{applicationId}/{applicantId}"   // once
	Calculation       = "POST /api/Calculation/application-invoice-calculation"                       // sets a value
	Withdraw          = "POST /api/Loan/make-withdrawal-invoice/{loanId}"                             // sends an OTP
	Confirm           = "POST /api/Loan/confirm-withdrawal-invoice/{loanId}"                          // once: money moves
)

// PhonePath is the path, below the address of the service, under which a customer reads the
// one-time password. The id of the loan follows.
const PhonePath = "/phone/"

// Trial is a service in this process and some workers in processes of their own.
type Trial struct {
	Customers []string      // e-mail addresses of the customers to onboard
	Lost      float64       // share of requests whose response is lost or cut, executed or not; below 0.3
	Held      time.Duration // commands are delayed by less than this, and run late
	Fleet     int           // workers at the same time; 0 means a single worker
	Kills     int           // kills of workers, spread evenly over the commands
	Life      time.Duration // a worker is killed at random within this time
	ReadLag   time.Duration // reads show writes so late
	Framework string        // of the forms of refusals, for lendingtest.WithFramework

	// Worker returns the command that starts a worker for the service at address. The worker
	// ends when all orders are done. Its standard input ends with this process.
	Worker func(address string) *exec.Cmd

	// Ended is called with the address of the service after the last command, without further faults; nil for nothing.
	Ended func(ctx context.Context, address string) error

	// Refused reports from the output of a worker that gave up whether another worker takes over; nil
	// for never.
	Refused func(said string) bool

	// Killed is called between two workers, for example to kill the server of the log; nil for
	// nothing.
	Killed func()
}

// Result is the counts of the service.
type Result struct {
	Elapsed  time.Duration
	Kills    int // of workers
	Lost     int // lost responses
	State    lendingtest.Snapshot
	After    time.Duration             // from the last fault, kill or verdict of a person to the end
	Reviewed []string                  // keys that a person looked up
	executed map[string]map[string]int // by route and customer
}

// Of returns how often the command of a route ran, how many of these runs were too many for a
// customer, and for how many customers the command ran too rarely.
func (r Result) Of(route string) (executed, beyond, missing int) {
	wanted := 1
	if route == Document {
		wanted = documents
	}
	for _, n := range r.executed[route] {
		executed += n
		beyond += max(0, n-wanted)
		if n < wanted {
			missing++
		}
	}
	return executed, beyond, missing
}

// Run starts workers, each after the end of its predecessor, until all orders are done.
func (t Trial) Run(ctx context.Context) (Result, error) {
	service := lendingtest.New(lendingtest.WithReadLag(t.ReadLag), lendingtest.WithFramework(t.Framework), lendingtest.WithLoopbackReceivers())
	r := &run{Trial: t, service: service, start: time.Now()}
	defer r.service.Close()
	r.plan()
	mux := http.NewServeMux()
	mux.Handle("/", r.service)
	mux.HandleFunc("GET "+PhonePath+"{loan}", func(w http.ResponseWriter, q *http.Request) {
		_, _ = w.Write([]byte(r.service.OTP(q.PathValue("loan"))))
	})
	r.books.serve(mux, r.service, r.hit)
	server := httptest.NewServer(mux)
	defer server.Close()
	if err := r.fleet(ctx, server.URL); err != nil {
		return Result{}, err
	}
	after := time.Since(r.start) - time.Duration(r.trouble.Load())
	if err := r.service.Wait(ctx); err != nil { // for late commands
		return Result{}, err
	}
	if r.Ended != nil {
		r.service.ClearFaults()
		if err := r.Ended(ctx, server.URL); err != nil {
			return Result{}, err
		}
	}
	result := Result{
		Elapsed: time.Since(r.start), After: after, Kills: r.kills, Lost: int(r.lost.Load()), State: r.service.Snapshot(),
		executed: map[string]map[string]int{},
	}
	result.Reviewed = r.books.reviewed()
	for _, route := range routes {
		all, executed := r.service.ExecutedFor(route), map[string]int{}
		for _, customer := range t.Customers {
			executed[customer] = all[customer]
		}
		result.executed[route] = executed
	}
	return result, nil
}

var routes = []string{
	CreateCustomer, CreateApplication, BankingData, Process, Company, Applicant, Account, Document, Sign, Calculation, Withdraw,
	Confirm,
}

type run struct {
	Trial
	service *lendingtest.Service
	start   time.Time
	lost    atomic.Int64
	trouble atomic.Int64 // when the last fault, kill or verdict was, after the start
	books   books

	mu     sync.Mutex // locked while Killed runs
	doomed int        // workers that are killed or about to be killed
	kills  int
}

// plan injects faults into some of the requests. After a number of good requests, a request
// loses its response or a part of it, and a command is delayed. A delayed command ends with its
// caller, a late command does not.
func (r *run) plan() {
	if r.Lost == 0 {
		return
	}
	shown := func() { r.lost.Add(1); r.hit() }
	fail := func(route string, more ...lendingtest.Fault) {
		r.service.Fail(route, lendingtest.Fault{Times: 1 + int(rand.ExpFloat64()*(1/r.Lost-3))})
		more = append(
			more,
			lendingtest.Fault{Reached: shown, ResetAfter: true},
			lendingtest.Fault{Reached: shown, ResetBefore: true},
			lendingtest.Fault{Reached: shown, CutBody: -1},
			lendingtest.Fault{Reached: shown, CutBody: 1 + rand.N(20)},
			lendingtest.Fault{Reached: shown, Status: http.StatusServiceUnavailable, Executes: true},
		)
		r.service.Fail(route, more[rand.N(len(more))])
	}
	for range len(r.Customers) {
		for _, route := range routes {
			fail(route, lendingtest.Fault{Reached: shown, Late: 1 + rand.N(r.Held)})
			r.service.Fail(route, lendingtest.Fault{DelayBefore: rand.N(r.Held)})
		}
		for range 4 {
			fail("*") // the reads
		}
	}
}

// fleet runs workers until all orders are done. If a worker gives up, all workers end.
func (r *run) fleet(ctx context.Context, address string) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var fleet sync.WaitGroup
	for range max(1, r.Fleet) {
		fleet.Go(func() {
			for done := false; !done; {
				var err error
				if done, err = r.life(ctx, address); err != nil {
					stop(err)
					return
				}
			}
		})
	}
	fleet.Wait()
	return context.Cause(ctx)
}

// due reports whether to kill a worker now. If so, due counts the kill.
func (r *run) due() bool {
	executed, wanted := 0, len(routes)*len(r.Customers)
	for _, route := range routes {
		executed += r.service.Executed(route)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	due := r.doomed < r.Kills && r.doomed*wanted <= r.Kills*executed
	if due {
		r.doomed++
	}
	return due
}

// hit notes the time of a fault, a kill or a verdict.
func (r *run) hit() { r.trouble.Store(int64(time.Since(r.start))) }

func (r *run) killed() {
	r.hit()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kills++; r.Killed != nil {
		r.Killed()
	}
}

// life starts a worker and reports whether the worker did all orders before its kill.
func (r *run) life(ctx context.Context, address string) (done bool, err error) {
	worker := r.Worker(address)
	var said bytes.Buffer
	worker.Stdout, worker.Stderr = &said, &said
	input, err := worker.StdinPipe()
	if err != nil {
		return false, err
	}
	defer input.Close()
	if err := worker.Start(); err != nil {
		return false, err
	}
	ended := make(chan error, 1)
	go func() { ended <- worker.Wait() }()
	var death <-chan time.Time
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	killed := false
	kill := func() {
		killed = true
		_ = worker.Process.Kill() // SIGKILL: the worker cannot react
	}
	for {
		select {
		case err := <-ended:
			switch {
			case err == nil: // the worker may have finished just before the kill
				return true, nil
			case ctx.Err() != nil:
				return false, ctx.Err()
			case !killed && r.Refused != nil && r.Refused(said.String()):
				return false, nil
			case !killed:
				return false, fmt.Errorf("the worker gave up: %w: %s", err, said.String())
			}
			r.killed()
			return false, nil
		case <-death:
			kill()
		case <-ctx.Done():
			kill()
		case <-tick.C:
			if death == nil && r.due() {
				death = time.After(rand.N(r.Life))
			}
		}
	}
}

// EndWithParent ends this worker process when its parent process ends.
func EndWithParent() {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(2)
	}()
}
