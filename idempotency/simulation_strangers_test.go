package idempotency_test

import (
	"errors"
	"net/http"
	"syscall"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

// A stranger uses the key "customer" for another service, through the same store. In a namespace of
// its own the stranger's customer is created once. Without a namespace the key belongs to the fleet.
const strangersNamespace = "sandbox"

// strangersNowAndThen calls as a stranger until end, with the faults of the fleet. A killed
// stranger is followed by another one.
func (s *schedule) strangersNowAndThen(end <-chan struct{}) {
	random := s.newCaller(s.newMember(600), "strangers").random
	for id := 601; ; id++ {
		select {
		case <-end:
			return
		case <-time.After(time.Duration(random.Int64N(int64(time.Minute)))):
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			c := s.newCaller(s.newMember(id), "stranger")
			_ = s.strange(c, strangersNamespace)
			if m := s.customer(); m != nil && s.executions(m) > 0 {
				_ = s.strange(c, "")
			}
		}()
		<-done
	}
}

// strangersEnd has the strangers come to their end without faults.
func (s *schedule) strangersEnd() {
	c := s.newCaller(s.newMember(3000), "stranger")
	if s.customer() != nil {
		if err := s.strange(c, ""); !errors.Is(err, idempotency.ErrOtherAccount) {
			s.violate("another service", c, "without a namespace: %v", err)
		}
	}
	for range 2 {
		for range 12 {
			if s.strange(c, strangersNamespace) == nil {
				break
			}
			bubble.Elapse(s.maxLateness)
		}
	}
	if n := s.sandbox.Executed(fake.CreateRoute); n != 1 {
		s.violate("another service", c, "the stranger's customer was created %d times", n)
	}
}

func (s *schedule) customer() *simulated {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.commands["customer"]
}

// strange makes a call of a stranger with the key of the fleet.
func (s *schedule) strange(c *caller, namespace string) error {
	var entries store.Store = c.p
	if s.encrypted {
		entries, _ = store.NewEncrypted(entries, make([]byte, 32))
	}
	log := fake.Must(idempotency.NewLog(entries, &idempotency.Options{MaxLateness: s.maxLateness, Namespace: namespace}))
	client := fake.Must(lending.New("https://sandbox.example", lending.WithIdempotency(log),
		lending.WithTokenSource(lending.StaticToken(s.sandbox.Token(lendingtest.Username))),
		lending.WithHTTPClient(&http.Client{Transport: wire.RoundTripper(func(r *http.Request) (*http.Response, error) {
			return s.toSandbox(c, r)
		})})))
	defer client.Close()
	ctx, cancel := c.within()
	defer cancel()
	before := s.sandbox.Executed(fake.CreateRoute)
	_, err := client.Applications.CreateCustomer(withKey(ctx, "customer"), fake.Ada())
	c.note("customer of %q: %v", namespace, err)
	switch executed := s.sandbox.Executed(fake.CreateRoute); {
	case namespace == "" && (err == nil || executed > before):
		s.violate("another service", c, "uses the key of the fleet: %v", err)
	case executed > 1:
		s.violate("another service", c, "the stranger's customer was created %d times", executed)
	case err == nil:
		s.count("stranger done")
	}
	return err
}

// toSandbox brings a request of a stranger to its service, or loses the request or the response.
func (s *schedule) toSandbox(c *caller, r *http.Request) (*http.Response, error) {
	c.point("before the sandbox")
	lost := c.chance(s.sendFaults)
	if lost && c.random.IntN(2) == 0 {
		return nil, syscall.ECONNRESET
	}
	resp, err := s.sandbox.Transport().RoundTrip(r)
	c.point("after the sandbox")
	if lost && err == nil {
		_ = resp.Body.Close()
		return nil, syscall.ECONNRESET
	}
	return resp, err
}
