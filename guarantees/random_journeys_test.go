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

	"github.com/stretchr/testify/assert"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/seeds"
	"github.com/lendingapi/lending-go/lendingtest"
)

// The random journeys. LENDING_TEST_JOURNEYS=5000 makes so many of them, and
// LENDING_TEST_SEED=7 begins with that one: a failure prints its seed. The calls of a
// journey and their faults follow from the seed; how its actors take turns does not.
const (
	journeysVariable = "LENDING_TEST_JOURNEYS"
	fewJourneys      = 60
	callsOfAJourney  = 80
)

// TestRandomJourneys makes random calls at a service that fails at random, and compares the
// outcome of each call with the service. A mutation that is done ran once. A mutation that was
// rejected or not sent did not run. No mutation ran twice.
func TestRandomJourneys(t *testing.T) {
	fake.NeedsControl(t)
	t.Parallel()
	count, first := seeds.FromEnvironment(t, journeysVariable, fewJourneys), seeds.FromEnvironment(t, seeds.Variable, 1)
	var all tally
	var wires sync.WaitGroup
	atOnce := make(chan struct{}, 32) // over sockets a read waits in real time before it is repeated
	for seed := first; seed < first+count; seed++ {
		j := newJourney(seed, &all)
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
	t.Logf("%d journeys from seed %d: %d commands, %d reads, %d outcomes checked, %d withdrawals; outcomes %v",
		count, first, all.commands, all.reads, all.checked, all.withdrawn, all.outcomes)
	if count >= fewJourneys {
		for _, outcome := range []lending.Outcome{
			lending.OutcomeUnknown, lending.OutcomeNotSent,
			lending.OutcomeRejected, lending.OutcomeDone,
		} {
			assert.Positive(t, all.outcomes[outcome.String()], "no journey had the outcome %s", outcome)
		}
		assert.Positive(t, all.outcomes["success"])
		assert.Positive(t, all.checked, "no unknown outcome was told by a read")
		assert.Positive(t, all.withdrawn, "no journey came as far as a withdrawal")
	}
}

// tally counts over all journeys.
type tally struct {
	mu                                  sync.Mutex
	commands, reads, checked, withdrawn int
	outcomes                            map[string]int
}

func (y *tally) count(outcome string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.outcomes == nil {
		y.outcomes = map[string]int{}
	}
	y.outcomes[outcome]++
	y.commands++
}

// journey is a service, a client of it, and the actors who share both.
type journey struct {
	seed    int
	wire    string // memory, http or http2
	actors  int
	tally   *tally
	service *lendingtest.Service
	client  *lending.Client

	mu    sync.Mutex
	lines []string
	done  map[string]int // by route, how often it was executed for certain
	maybe map[string]int // and how often it may have been besides
}

func newJourney(seed int, all *tally) *journey {
	return &journey{
		seed: seed, wire: []string{"memory", "http", "memory", "http2"}[seed%4], actors: []int{1, 1, 3}[seed%3],
		tally: all, done: map[string]int{}, maybe: map[string]int{},
	}
}

func (j *journey) report(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	last := j.lines[max(0, len(j.lines)-12):]
	t.Errorf("journey over %s with %d actors: %v\nto see it again: %s=1 %s=%d go test -run TestRandomJourneys "+
		"./guarantees\nits last calls:\n%s",
		j.wire, j.actors, err, journeysVariable, seeds.Variable, j.seed, strings.Join(last, "\n"))
}

// run makes the journey, and returns the first thing that is wrong.
func (j *journey) run() error {
	stop := j.connect()
	defer stop()
	failed := make([]error, j.actors)
	var all sync.WaitGroup
	for i := range j.actors {
		a := &actor{
			random: rand.New(rand.NewPCG(uint64(j.seed), uint64(i))), service: j.service,
			domain: fmt.Sprintf("actor%d.example", i),
			world:  &world{}, seen: &world{}, begun: map[string]*lending.InvoiceWithdrawal{},
		}
		all.Go(func() {
			for range callsOfAJourney / j.actors {
				if failed[i] = j.turn(a); failed[i] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	for _, route := range j.service.Routes() {
		executed, least, most := j.service.Executed(route), j.done[route], j.done[route]+j.maybe[route]
		if most > 0 && route != changingGroup+"application-offer/{applicationId}" &&
			(executed < least || executed > most) {
			return fmt.Errorf("%s was executed %d times, the client knows of %d to %d", route, executed, least, most)
		}
	}
	return nil
}

// connect starts the service and makes a client that signs in to it.
func (j *journey) connect() (stop func()) {
	var opts []lending.Option
	var server *lendingtest.Server
	address := "https://lending.example"
	switch j.wire {
	case "memory":
		j.service = lendingtest.New()
		opts = append(opts, lending.WithHTTPClient(&http.Client{Transport: j.service.Transport()}))
	case "http":
		server = lendingtest.NewServer()
	default:
		server = lendingtest.NewServer(lendingtest.WithHTTP2())
	}
	if server != nil {
		j.service, address = server.Service, server.URL
	}
	j.service.SetDeliveryMode(lendingtest.DeliveryMode{Off: true})
	opts = append(opts, lending.WithCredentials(lending.Credentials{
		Username: lendingtest.Username, Password: lending.NewSecret(lendingtest.Password),
		TwoFactor: func(context.Context, lending.Challenge) (string, error) {
			return j.service.TwoFactorCode(lendingtest.Username), nil
		},
	}))
	client, err := lending.New(address, opts...)
	if err != nil {
		panic(err)
	}
	j.client = client
	return func() {
		client.Close()
		if server != nil {
			server.Close()
			return
		}
		j.service.Close()
	}
}

// turn lets an actor make one call.
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
	if a.random.IntN(4) == 0 && len(a.seen.Customers) > 0 {
		return j.read(a)
	}
	return j.command(a)
}

// command makes a mutation, perhaps with a fault, and judges the outcome.
func (j *journey) command(a *actor) error {
	c := a.next()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	fault := "no fault"
	if a.random.IntN(5) < 2 {
		fault = j.fail(a, c.route, cancel)
	}
	executed, arrived := j.service.Executed(c.route), j.service.Arrived(c.route)
	err := c.call(ctx, j.client)
	executed, arrived = j.service.Executed(c.route)-executed, j.service.Arrived(c.route)-arrived
	j.note(a, c.route, fault, err)
	if err := j.judge(a, c, err); err != nil {
		return err
	}
	if j.actors == 1 {
		j.service.ClearFaults()
		if err := agrees(executed, err); err != nil {
			return fmt.Errorf("%s: %w", c.route, err)
		}
		if arrived > 1 {
			return fmt.Errorf("%s was sent %d times", c.route, arrived)
		}
	}
	if signedOut(err) {
		_ = j.client.Session().SignIn(context.Background())
	}
	return nil
}

// signedOut reports whether err is of a call that had no token, or one that was
// refused. A sign-in that failed, and a token that was refused soon after the last, are
// not followed by another sign-in at once unless [lending.Session.SignIn] asks for it.
func signedOut(err error) bool {
	return errors.Is(err, lending.ErrUnauthorized) || err != nil && lending.OutcomeOf(err) == lending.OutcomeNotSent
}

// agrees compares what the client says with how often the service has executed.
func agrees(executed int, err error) error {
	outcome := lending.OutcomeOf(err)
	least, most := 0, 0
	switch outcome {
	case lending.OutcomeDone:
		least, most = 1, 1
	case lending.OutcomeUnknown:
		most = 1
	case lending.OutcomeNotSent, lending.OutcomeRejected:
	}
	if executed < least || executed > most {
		return fmt.Errorf("executed %d times, but the outcome is %s: %w", executed, outcome, err)
	}
	return nil
}

// judge holds the records at the service against what the outcome makes of the world.
func (j *journey) judge(a *actor, c command, err error) error {
	outcome := lending.OutcomeOf(err)
	name := outcome.String()
	if err == nil {
		name = "success"
	}
	j.tally.count(name)
	without, with := a.world, a.world
	switch outcome {
	case lending.OutcomeDone:
		with = a.world.after(c.apply)
		without = with
	case lending.OutcomeUnknown:
		with = a.world.after(c.apply)
	case lending.OutcomeNotSent, lending.OutcomeRejected:
	}
	seen := observe(j.service, a.domain)
	happened := seen.text() == with.text() && outcome != lending.OutcomeRejected && outcome != lending.OutcomeNotSent
	if !happened && seen.text() != without.text() {
		return fmt.Errorf("%s: outcome %s (%w), but the service has\n%s\nand not\n%s", c.route, outcome, err,
			seen.text(), with.text())
	}
	j.mu.Lock()
	switch {
	case happened && outcome == lending.OutcomeUnknown && with.text() == without.text(): // nothing shows it
		j.maybe[c.route]++
	case happened:
		j.done[c.route]++
	}
	j.mu.Unlock()
	if outcome == lending.OutcomeUnknown && c.check != nil && j.actors == 1 {
		if err := j.check(c, happened); err != nil {
			return err
		}
	}
	if happened {
		a.world = with
		if strings.HasSuffix(c.route, "/confirm-withdrawal-invoice/{loanId}") {
			j.tally.mu.Lock()
			j.tally.withdrawn++
			j.tally.mu.Unlock()
		}
	}
	a.seen = seen
	return nil
}

// check makes the read that the error names, and holds it against what happened.
func (j *journey) check(c command, happened bool) error {
	j.service.ClearFaults()
	found, err := c.check(context.Background(), j.client)
	if signedOut(err) {
		_ = j.client.Session().SignIn(context.Background())
		found, err = c.check(context.Background(), j.client)
	}
	if err != nil {
		return fmt.Errorf("%s: it cannot be told: %w", c.route, err)
	}
	if found != happened {
		return fmt.Errorf("%s: the read that tells says %t, and it is %t", c.route, found, happened)
	}
	j.tally.mu.Lock()
	defer j.tally.mu.Unlock()
	j.tally.checked++
	return nil
}

// found is the answer of a read that fails where there is nothing.
func found(err error) (bool, error) {
	if lending.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

func (j *journey) note(a *actor, route, fault string, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf("  %s %s, %s: %v", a.domain, route, fault, err))
}
