// Package onboarding tries a worker that takes customers from nothing to a confirmed
// withdrawal: the service loses answers, the worker is killed and started again, and the
// service says how often each command was done.
package onboarding

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lendingapi/lending-go/lendingtest"
)

// The commands of a worker, in their order. Of some nobody wants two; done twice, the others
// do no harm.
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
	Withdraw          = "POST /api/Loan/make-withdrawal-invoice/{loanId}"                             // sends a one-time password
	Confirm           = "POST /api/Loan/confirm-withdrawal-invoice/{loanId}"                          // once: money moves
)

// PhonePath is where the trial shows, below the address of the service, the one-time
// password that a customer would read on a phone: the id of the loan follows.
const PhonePath = "/phone/"

// Trial is a service in this process and a worker, or a fleet of them, in processes of their
// own.
type Trial struct {
	Customers []string      // the e-mail addresses of those whom the workers are to take along
	Lost      float64       // the share of requests whose response is lost or cut, executed or not: below 0.3
	Held      time.Duration // commands are held up, and executed late, by less than that
	Fleet     int           // how many workers there are at a time; one if it is 0
	Kills     int           // how often a worker is killed, unless all is done before: evenly over the commands
	Life      time.Duration // it is killed within that, at random
	Approval  bool          // the workers go through the approval, which opens the loan; else processing does
	ReadLag   time.Duration // reads show writes so late

	// Worker returns the command that starts a worker for the service at address. The
	// worker ends when all is done; its standard input ends with this process.
	Worker func(address string) *exec.Cmd

	// Killed is called between a worker and the next, for example to kill what the log is
	// in, too; nil for nothing.
	Killed func()

	// Tell is called now and then; nil if nobody wants to know.
	Tell func(Progress)
}

// Progress is how far a trial has come.
type Progress struct {
	Elapsed   time.Duration
	Confirmed int // withdrawals
	Kills     int // of the worker
	Lost      int // answers
	Done      bool
}

// Result is what the service has counted.
type Result struct {
	Progress
	State    lendingtest.Snapshot
	InDoubt  []string                  // the keys of which a worker did not know what became of them
	Reviewed []string                  // those of them that a person looked up
	executed map[string]map[string]int // by route and by customer
}

// Of says how often the command of a route was executed, how often of that too often for a
// customer, and for how many customers not often enough.
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

// Run lets workers work, each followed by the next, until all is done.
func (t Trial) Run(ctx context.Context) (Result, error) {
	r := &run{Trial: t, service: lendingtest.New(lendingtest.WithReadLag(t.ReadLag)), start: time.Now(), opened: map[string]bool{}}
	defer r.service.Close()
	r.plan()
	if !t.Approval {
		r.service.Watch(r.openLoans)
	}
	mux := http.NewServeMux()
	mux.Handle("/", r.service)
	mux.HandleFunc("GET "+PhonePath+"{loan}", func(w http.ResponseWriter, q *http.Request) {
		_, _ = w.Write([]byte(r.service.OTP(q.PathValue("loan"))))
	})
	r.books.serve(mux, r.service)
	server := httptest.NewServer(mux)
	defer server.Close()
	if err := r.fleet(ctx, server.URL); err != nil {
		return Result{}, err
	}
	if err := r.service.Wait(ctx); err != nil { // for what is executed late
		return Result{}, err
	}
	r.done = true
	r.tell()
	result := Result{Progress: r.progress(), executed: map[string]map[string]int{}, State: r.service.Snapshot()}
	result.InDoubt, result.Reviewed = r.books.result()
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
	done    bool
	lost    atomic.Int64
	books   books

	mu     sync.Mutex // held while Killed and Tell are called
	doomed int        // workers that are killed, or about to be
	kills  int

	loans  sync.Mutex
	opened map[string]bool // by application
}

// plan has some of the requests go wrong: after a number that go well one loses its response, or
// a part of it, and a command is held up, which ends with its caller, as what is late does not.
func (r *run) plan() {
	if r.Lost == 0 {
		return
	}
	shown := func() { r.lost.Add(1) }
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

// openLoans opens the loan of an application that has been processed: what comes between is
// for people to do.
func (r *run) openLoans(e lendingtest.Event) {
	request := e.Late
	if request == nil {
		request = e.Request
	}
	if request == nil || request.Route != Process || !request.Executed {
		return
	}
	r.loans.Lock()
	defer r.loans.Unlock()
	if id := path.Base(request.Path); !r.opened[id] {
		r.opened[id] = true
		r.service.AddLoan(lendingtest.Loan{ApplicationID: id})
	}
}

// fleet has workers live until all is done. If one gives up, all do.
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

// due reports whether a worker is to be killed. It counts on that being done.
func (r *run) due() bool {
	executed, wanted := 0, 0
	for _, route := range routes {
		n := r.service.Executed(route)
		executed += n
		if r.Approval || n > 0 {
			wanted += len(r.Customers)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	due := r.doomed < r.Kills && r.doomed*wanted <= r.Kills*executed
	if due {
		r.doomed++
	}
	return due
}

func (r *run) killed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kills++; r.Killed != nil {
		r.Killed()
	}
}

// life starts a worker and returns whether it has done all before it was killed.
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
		_ = worker.Process.Kill() // SIGKILL: it hears nothing of it
	}
	for {
		select {
		case err := <-ended:
			switch {
			case err == nil: // perhaps with its last breath
				return true, nil
			case ctx.Err() != nil:
				return false, ctx.Err()
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
			r.tell()
			if death == nil && r.due() {
				death = time.After(rand.N(r.Life))
			}
		}
	}
}

func (r *run) progress() Progress {
	return Progress{time.Since(r.start), r.service.Executed(Confirm), r.kills, int(r.lost.Load()), r.done}
}

func (r *run) tell() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Tell != nil {
		r.Tell(r.progress())
	}
}
