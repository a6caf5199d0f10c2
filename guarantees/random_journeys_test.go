package guarantees_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/seeds"
	"github.com/lendingapi/lending-go/lendingtest"
)

// LENDING_TEST_JOURNEYS=5000 makes 5,000 journeys, and LENDING_TEST_SEED=7 begins with seed 7. A
// failure prints its seed. The calls of a journey and their faults follow from the seed; the turns
// of its actors do not.
const (
	journeysVariable = "LENDING_TEST_JOURNEYS"
	fewJourneys      = 60
	callsOfAJourney  = 80
)

// TestRandomJourneys makes random calls at a service that fails at random, and compares the
// outcome of each call with the service. A mutation with outcome done ran once. A mutation that
// was rejected or not sent did not run. No mutation ran twice.
func TestRandomJourneys(t *testing.T) {
	t.Parallel()
	count, first := seeds.FromEnvironment(t, journeysVariable, fewJourneys), seeds.FromEnvironment(t, seeds.Variable, 1)
	all := tally{counts: map[string]int{}}
	routes := catalog.Routes(t)
	var wires sync.WaitGroup
	atOnce := make(chan struct{}, 32) // over sockets the pause before a repeated read is real
	for seed := first; seed < first+count; seed++ {
		j := &journey{
			seed: seed, wire: []string{"memory", "http", "memory", "http2"}[seed%4], actors: []int{1, 1, 3}[seed%3],
			tally: &all, routes: routes, done: map[string]int{}, maybe: map[string]int{},
		}
		if j.wire == "memory" {
			synctest.Test(t, func(t *testing.T) { j.report(t, j.run()) })
			continue
		}
		atOnce <- struct{}{}
		wires.Go(func() {
			defer func() { <-atOnce }()
			j.report(t, j.run())
		})
	}
	wires.Wait()
	t.Logf("%d journeys from seed %d: %v", count, first, all.counts)
	if count >= fewJourneys {
		for _, n := range []string{"success", "unknown", "not sent", "rejected", "done", "checked", "withdrawn", "read"} {
			assert.Positive(t, all.counts[n], "no journey had a call that was %s", n)
		}
	}
}

// tally counts over all journeys.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (y *tally) count(of string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.counts[of]++
}

// journey is a service, a client, and the actors that share both.
type journey struct {
	seed    int
	wire    string // memory, http or http2
	actors  int
	tally   *tally
	routes  map[string]catalog.Route
	service *lendingtest.Service
	client  *lending.Client

	mu    sync.Mutex
	lines []string
	done  map[string]int // by route: the certain executions
	maybe map[string]int // by route: the possible further executions
}

func (j *journey) report(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("journey over %s with %d actors: %v\nto repeat: %s=1 %s=%d go test -run TestRandomJourneys ./guarantees\n"+
			"the last calls:\n%s", j.wire, j.actors, err, journeysVariable, seeds.Variable, j.seed,
			strings.Join(j.lines[max(0, len(j.lines)-12):], "\n"))
	}
}

// run makes the journey, and returns the first mistake of each actor.
func (j *journey) run() error {
	stop := j.connect()
	defer stop()
	failed := make([]error, j.actors)
	var all sync.WaitGroup
	for i := range j.actors {
		a := &actor{
			random: rand.New(rand.NewPCG(uint64(j.seed), uint64(i))), service: j.service, client: j.client,
			domain: fmt.Sprintf("actor%d.example", i), begun: map[string]*lending.InvoiceWithdrawal{},
		}
		all.Go(func() {
			for turn := 0; turn < callsOfAJourney/j.actors && failed[i] == nil; turn++ {
				failed[i] = j.turn(a)
			}
		})
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	for _, route := range j.service.Routes() {
		executed, least, most := j.service.Executed(route), j.done[route], j.done[route]+j.maybe[route]
		if most > 0 && !strings.Contains(route, "/application-offer/") && (executed < least || executed > most) {
			return fmt.Errorf("%s was executed %d times, the client knows of %d to %d", route, executed, least, most)
		}
	}
	return nil
}

// connect starts the service and makes a client that signs in.
func (j *journey) connect() (stop func()) {
	address, options, closeService := "https://lending.example", []lending.Option(nil), func() {}
	if j.wire == "memory" {
		j.service = lendingtest.New()
		options = append(options, lending.WithHTTPClient(&http.Client{Transport: j.service.Transport()}))
		closeService = j.service.Close
	} else {
		server := lendingtest.NewServer(map[string][]lendingtest.Option{"http2": {lendingtest.WithHTTP2()}}[j.wire]...)
		j.service, address, closeService = server.Service, server.URL, server.Close
	}
	j.service.SetDeliveryMode(lendingtest.DeliveryMode{Off: true})
	j.client = fake.Must(lending.New(address, append(options, lending.WithCredentials(fake.Credentials(j.service)))...))
	return func() { j.client.Close(); closeService() }
}

// turn lets an actor make a call.
func (j *journey) turn(a *actor) error {
	switch a.random.IntN(30) {
	case 0:
		j.service.RevokeTokens()
	case 1:
		j.service.ExpireTokens()
	case 2:
		if j.wire == "memory" {
			bubble.Elapse(time.Duration(a.random.IntN(90)) * time.Minute)
		}
	}
	before := a.observe()
	if a.random.IntN(4) == 0 && len(a.own.Customers) > 0 {
		return j.read(a)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c := a.next(ctx)
	route := j.routes[c.method].Method + " " + j.routes[c.method].Path
	fault := "no fault"
	if a.random.IntN(5) < 2 {
		fault = j.fail(a, route, cancel)
	}
	executed, arrived := j.service.Executed(route), j.service.Arrived(route)
	err := c.call()
	executed, arrived = j.service.Executed(route)-executed, j.service.Arrived(route)-arrived
	j.note(a, route, fault, err)
	happened := a.observe() != before
	if wrong := j.judge(c, route, happened, err); wrong != "" {
		return fmt.Errorf("%s: outcome %s (%w), but %s", c.method, lending.OutcomeOf(err), err, wrong)
	}
	if j.actors > 1 {
		return nil
	}
	j.service.ClearFaults()
	outcome := lending.OutcomeOf(err)
	least, most := 0, 0
	switch {
	case outcome == lending.OutcomeDone || happened:
		least, most = 1, 1
	case outcome == lending.OutcomeUnknown:
		most = 1
	}
	if executed < least || executed > most || arrived > 1 {
		return fmt.Errorf("%s: outcome %s (%w), but it arrived %d times and ran %d times",
			c.method, outcome, err, arrived, executed)
	}
	if outcome == lending.OutcomeUnknown && c.check != nil {
		return j.check(c, executed == 1)
	}
	return nil
}

// judge compares the outcome with the records at the service.
func (j *journey) judge(c command, route string, happened bool, err error) (wrong string) {
	outcome := lending.OutcomeOf(err)
	j.mu.Lock()
	switch {
	case outcome == lending.OutcomeDone || happened:
		j.done[route]++
	case outcome == lending.OutcomeUnknown && c.invisible:
		j.maybe[route]++
	}
	j.mu.Unlock()
	if err == nil {
		j.tally.count("success")
	} else {
		j.tally.count(outcome.String())
	}
	if happened && strings.Contains(route, "/confirm-withdrawal-invoice/") {
		j.tally.count("withdrawn")
	}
	if signedOut(err) {
		_ = j.client.Session().SignIn(context.Background())
	}
	switch {
	case happened && (outcome == lending.OutcomeNotSent || outcome == lending.OutcomeRejected):
		return "the records have changed"
	case !happened && outcome == lending.OutcomeDone && !c.invisible:
		return "the records have not changed"
	}
	return ""
}

// signedOut reports whether a call had no token, or a refused token. After a failed sign-in, or a
// second refusal soon after the first, the client waits before it signs in again unless
// [lending.Session.SignIn] asks for a sign-in.
func signedOut(err error) bool {
	return errors.Is(err, lending.ErrUnauthorized) || err != nil && lending.OutcomeOf(err) == lending.OutcomeNotSent
}

// check makes the read that the error names, and compares its result.
func (j *journey) check(c command, happened bool) error {
	found, err := c.check()
	if signedOut(err) {
		_ = j.client.Session().SignIn(context.Background())
		found, err = c.check()
	}
	if err != nil || found != happened {
		return fmt.Errorf("%s: the check says happened %t (%w), and the service %t", c.method, found, err, happened)
	}
	j.tally.count("checked")
	return nil
}

func (j *journey) note(a *actor, route, fault string, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf("  %s %s, %s: %v", a.domain, route, fault, err))
}

const signInPage = "<!DOCTYPE html><title>Sign in</title>"

// fail plans a fault for the next call of a route, and sometimes also a fault for the sign-in. The
// fault "cancelled" calls cancel, which ends the context of the call.
func (j *journey) fail(a *actor, route string, cancel context.CancelFunc) (name string) {
	n, page := 1+a.random.IntN(30), []byte(signInPage)
	problem := []byte(`{"errors":{"":["no"]}}`)
	faults := []struct {
		name  string
		fault lendingtest.Fault
	}{
		{"reset before", lendingtest.Fault{ResetBefore: true}},
		{"reset after", lendingtest.Fault{ResetAfter: true}},
		{"reset after", lendingtest.Fault{ResetAfter: true}},
		{"5xx", lendingtest.Fault{Status: 500 + a.random.IntN(5)}},
		{"5xx, executed", lendingtest.Fault{Status: 500 + a.random.IntN(5), Executes: true}},
		{"5xx, cut", lendingtest.Fault{Status: 502, Executes: true, CutBody: n}},
		{"5xx, HTML", lendingtest.Fault{Status: 502, Body: page, ContentType: "text/html"}},
		{"5xx, empty", lendingtest.Fault{Status: 503, Body: []byte{}}},
		{"408, executed", lendingtest.Fault{Status: 408, Executes: true}},
		{"429", lendingtest.Fault{Status: 429, RetryAfter: time.Second}},
		{"429, cut", lendingtest.Fault{Status: 429, CutBody: -1}},
		{"401", lendingtest.Fault{Status: 401, Body: []byte{}}},
		{"400 of a host", lendingtest.Fault{Status: 400, Body: problem, ContentType: "application/problem+json"}},
		{"403", lendingtest.Fault{Status: 403}},
		{"413", lendingtest.Fault{Status: 413, Body: page, ContentType: "text/html"}},
		{"200, HTML", lendingtest.Fault{Status: 200, Body: page, ContentType: "text/html"}},
		{"200, HTML, executed", lendingtest.Fault{Status: 200, Executes: true, Body: page, ContentType: "application/json"}},
		{"redirect", lendingtest.Fault{Status: 302, Header: http.Header{"Location": {"/login"}}, Body: []byte{}}},
		{"cut response", lendingtest.Fault{CutBody: n}},
		{"no body", lendingtest.Fault{CutBody: -1}},
		{"cancelled", lendingtest.Fault{Reached: cancel, DelayBefore: time.Hour}},
	}
	if j.actors > 1 { // the call of another actor could meet the last fault, and wait for an hour
		faults = faults[:len(faults)-1]
	}
	chosen := pick(a, faults)
	j.service.Fail(route, chosen.fault)
	if a.random.IntN(8) > 0 {
		return chosen.name
	}
	signIn := pick(a, []string{fake.LoginRoute, fake.TwoFactorRoute, fake.RefreshRoute})
	j.service.RevokeTokens()
	j.service.Fail(signIn, pick(a, []lendingtest.Fault{{ResetAfter: true}, {Status: 503}, {CutBody: n}}))
	return chosen.name + ", and at " + signIn
}

// transient are the faults that a read survives.
var transient = []lendingtest.Fault{
	{ResetBefore: true},
	{ResetAfter: true},
	{Status: http.StatusInternalServerError},
	{Status: http.StatusServiceUnavailable, Body: []byte{}},
	{Status: http.StatusBadGateway, Body: []byte(signInPage), ContentType: "text/html"},
	{Status: http.StatusTooManyRequests, Body: []byte{}},
	{CutBody: 1},
	{CutBody: -1},
}

// read makes a read, perhaps with a transient fault, and compares the result with the records.
func (j *journey) read(a *actor) error {
	method, call := a.read(pick(a, a.own.Customers))
	route := j.routes[method].Method + " " + j.routes[method].Path
	fault := lendingtest.Fault{}
	rare := map[bool]int{true: 3, false: 8}[j.wire == "memory"] // over sockets the pause before the repetition is real
	if a.random.IntN(rare) == 0 {
		fault = pick(a, transient)
		fault.Times = 1 + a.random.IntN(2)
		if j.wire == "memory" && fault.Status == http.StatusTooManyRequests {
			fault.RetryAfter = time.Minute / 2
		}
		j.service.Fail(route, fault)
	}
	got, want, err := call()
	j.note(a, route, fmt.Sprint(fault.Status), err)
	j.tally.count("read")
	if j.actors == 1 {
		j.service.ClearFaults()
	}
	switch {
	case err == nil && got != want:
		return fmt.Errorf("%s says %s, not %s", route, got, want)
	case signedOut(err):
		_ = j.client.Session().SignIn(context.Background())
	case err != nil && j.actors == 1: // the faults of another actor can be too many, or of another kind
		return fmt.Errorf("%s has failed: %w", route, err)
	}
	return nil
}

// read chooses a read. Its call returns what the service says, and what its records say.
func (a *actor) read(customer lendingtest.Customer) (method string, call func() (got, want string, err error)) {
	c, ctx, applications := a.client, context.Background(), a.applicationsOf(customer)
	if len(applications) == 0 || a.random.IntN(4) == 0 {
		return "Applications.ListByCustomer", func() (string, string, error) {
			list, err := c.Applications.ListByCustomer(ctx, lending.CustomerID(uuid.MustParse(customer.ID)))
			return fmt.Sprint(len(list)), fmt.Sprint(len(applications)), err
		}
	}
	application := pick(a, applications)
	id, loan := lending.ApplicationID(uuid.MustParse(application.ID)), a.loanOf(application)
	switch {
	case loan != nil && a.random.IntN(2) == 0:
		page := &lending.PagedOptions{Take: 1 + a.random.IntN(3)}
		return "Loans.Withdrawals", func() (string, string, error) {
			count := 0
			for _, err := range c.Loans.AllWithdrawals(ctx, lending.LoanID(uuid.MustParse(loan.ID)), page) {
				if err != nil {
					return "", "", err
				}
				count++
			}
			return fmt.Sprint(count), fmt.Sprint(len(loan.Withdrawals)), nil
		}
	case a.random.IntN(2) == 0:
		return "Communication.Messages", func() (string, string, error) {
			list, err := c.Communication.Messages(ctx, id, nil)
			return fmt.Sprint(len(list)), fmt.Sprint(len(application.Messages)), err
		}
	}
	return "Applications.Status", func() (string, string, error) {
		status, err := c.Applications.Status(ctx, id)
		return status, application.Status, err
	}
}
