package guarantees_test

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// faulty is a service with HTTP/2 and random faults. It executes a mutation when the request has
// come, or never.
type faulty struct {
	mu       sync.Mutex
	random   *rand.Rand
	isWell   bool
	executed map[string]int // by key
	faults   map[string]int
	callers  map[string]context.CancelFunc
	conns    map[*tls.Conn]chan struct{} // closed at the end of a connection
	drained  bool
}

// faultyConn is a connection of the service. Only the goroutine of the connection has it.
type faultyConn struct {
	*faulty
	secure *tls.Conn
	held   []uint32 // streams without a response
}

func (s *faulty) serve(conn net.Conn) {
	secure, done := tlsHTTP2(conn).(*tls.Conn), make(chan struct{})
	s.mu.Lock()
	s.conns[secure] = done
	drained := s.drained
	s.mu.Unlock()
	if !drained {
		c := &faultyConn{faulty: s, secure: secure}
		(&h2Conn{conn: secure, request: c.request}).serve()
	}
	_ = secure.Close()
	s.mu.Lock()
	delete(s.conns, secure)
	s.mu.Unlock()
	close(done)
}

// drain returns when nothing that was sent until now can arrive any more.
func (s *faulty) drain() {
	s.mu.Lock()
	s.drained = true
	conns := maps.Clone(s.conns)
	s.mu.Unlock()
	for secure, done := range conns {
		if secure.CloseWrite() != nil { // in the handshake
			_ = secure.NetConn().Close()
		}
		<-done
	}
	s.mu.Lock()
	s.drained = false
	s.mu.Unlock()
}

var joinedFaults = []string{
	"none", "none", "none", "none", "none", "none",
	"RST_STREAM INTERNAL_ERROR", "RST_STREAM INTERNAL_ERROR, executed", "RST_STREAM REFUSED_STREAM",
	"GOAWAY that leaves the stream out", "GOAWAY in two steps", "GOAWAY that counts the stream",
	"FIN", "FIN, executed", "reset", "reset, executed",
	"the caller goes", "the caller goes, executed", "late", "cut, executed", "later than the next",
}

// request reports whether the connection goes on.
func (c *faultyConn) request(h *h2Conn, stream uint32) bool {
	key := strings.Split(string(h.bodies[stream]), `"`)[3] // {"key":"..."}
	c.mu.Lock()
	fault := joinedFaults[c.random.IntN(len(joinedFaults))]
	if c.isWell {
		fault = "none"
	}
	c.faults[fault]++
	late := fault == "late" || fault == "later than the next" || strings.HasPrefix(fault, "cut")
	if fault == "none" || late || strings.HasSuffix(fault, ", executed") || strings.Contains(fault, "steps") {
		c.executed[key]++
	}
	caller := c.callers[key]
	c.mu.Unlock()
	code := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	goAway := func(last, why uint32) { h.write(frameGoAway, 0, 0, append(code(last), code(why)...)) }
	if fault == "later than the next" {
		c.held = append(c.held, stream)
		caller() // the next may never come
		return true
	}
	name, _, _ := strings.Cut(fault, ",")
	switch name {
	case "none":
		h.respond(stream, "true")
	case "RST_STREAM INTERNAL_ERROR":
		h.write(frameReset, 0, stream, code(codeInternal))
	case "RST_STREAM REFUSED_STREAM":
		h.write(frameReset, 0, stream, code(codeRefused))
	case "GOAWAY that leaves the stream out":
		goAway(max(stream, 2)-2, 0) // the streams are odd
		return false
	case "GOAWAY in two steps":
		goAway(1<<31-1, 0)
		h.respond(stream, "true")
		goAway(stream, 0)
		return false
	case "GOAWAY that counts the stream":
		goAway(stream, codeInternal)
		return false
	case "FIN":
		_ = c.secure.NetConn().Close()
		return false
	case "reset":
		reset(c.secure.NetConn())
		return false
	case "the caller goes":
		caller()
	case "late": // later than the caller can wait
		caller()
		h.respond(stream, "true")
	case "cut":
		h.write(frameHeaders, flagEndHeaders, stream, []byte{0x88})
		h.write(frameData, 0, stream, []byte("tr"))
		h.write(frameReset, 0, stream, code(codeInternal))
	}
	for _, earlier := range c.held {
		h.respond(earlier, "true")
	}
	c.held = nil
	return true
}

// agedStore has entries that are old enough to believe a check.
type agedStore struct{ store.Store }

func (s agedStore) Load(ctx context.Context, key string) (*store.Entry, error) {
	entry, err := s.Store.Load(ctx, key)
	if entry != nil {
		entry.Age += time.Hour
	}
	return entry, err
}

// TestKeysOverHTTP2HappenOnce has many callers make mutations with keys over shared connections,
// while streams and connections end in every way. Each caller repeats what has no response. Before
// that all connections end, so that the log may believe its check.
func TestKeysOverHTTP2HappenOnce(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	s := &faulty{
		random: rand.New(rand.NewPCG(seed, 0)), executed: map[string]int{}, faults: map[string]int{},
		callers: map[string]context.CancelFunc{}, conns: map[*tls.Conn]chan struct{}{},
	}
	address := "https://" + wire.ListenRaw(t, s.serve)
	log := fake.Must(idempotency.NewLog(agedStore{store.NewMemory()}, nil))
	client := wire.NewClient(t, address, lending.WithIdempotency(log),
		withToken)
	const callers, each = 16, 20
	open, outcomes := map[string]bool{}, map[lending.Outcome]int{}
	for i := range callers * each {
		open[fmt.Sprintf("key-%d", i)] = true
	}
	rounds := 0
	for ; len(open) > 0; rounds++ {
		require.Less(t, rounds, 10)
		s.isWell = rounds >= 4
		queue := make(chan string, len(open))
		for key := range open {
			queue <- key
		}
		close(queue)
		var mu sync.Mutex
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				for key := range queue {
					err := s.call(t, client, key)
					mu.Lock()
					outcomes[lending.OutcomeOf(err)]++
					if err == nil || lending.OutcomeOf(err) == lending.OutcomeDone {
						delete(open, key)
					}
					mu.Unlock()
				}
			})
		}
		all.Wait()
		s.drain()
	}
	t.Logf("%d rounds, %v, %v", rounds, outcomes, s.faults)
	require.Len(t, s.executed, callers*each)
	for key, n := range s.executed {
		assert.Equal(t, 1, n, key)
	}
}

func (s *faulty) call(t *testing.T, client *lending.Client, key string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(lending.WithIdempotencyKey(t.Context(), key), time.Minute)
	defer cancel()
	s.mu.Lock()
	s.callers[key] = cancel
	s.mu.Unlock()
	ctx = idempotency.WithCheck(ctx, func(context.Context) (idempotency.Verdict, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.executed[key] > 0 {
			return idempotency.Happened(nil), nil
		}
		return idempotency.NotHappened(), nil
	})
	err := client.Approval.AddCompanyDetails(ctx, catalog.Application,
		lending.CompanyDataRequest{Extra: map[string]string{"key": key}})
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Errorf("%s: nobody answers: %v", key, err)
	}
	return err
}
