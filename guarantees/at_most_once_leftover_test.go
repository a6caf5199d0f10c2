package guarantees_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"path"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// leftovers is a service that answers with the last element of the path, and then once
// more, with a forged one.
type leftovers struct {
	url      string
	pause    time.Duration // before the forged one; below 0 it comes with the next request
	arrivals atomic.Int32
}

func newLeftovers(t *testing.T, pause time.Duration) *leftovers {
	t.Helper()
	log.SetOutput(io.Discard) // net/http prints surplus data of a segment
	s := &leftovers{pause: pause}
	s.url = "http://" + wire.ListenRaw(t, s.serve)
	return s
}

var forgedID = uuid.MustParse("66666666-6666-4666-8666-666666666666")

func (s *leftovers) serve(conn net.Conn) {
	var late sync.WaitGroup
	defer conn.Close()
	defer late.Wait()
	said := func(id string) string { return wire.RawReply(200, nil, `"`+id+`"`) }
	for reader, before := bufio.NewReader(conn), ""; ; {
		r, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		s.arrivals.Add(1)
		answer, forged := said(path.Base(r.URL.Path)), said(forgedID.String())
		switch {
		case s.pause < 0:
			_, _ = io.WriteString(conn, before+answer)
			before = forged
		case s.pause == 0:
			_, _ = io.WriteString(conn, answer+forged)
		default:
			_, _ = io.WriteString(conn, answer)
			late.Add(1)
			time.AfterFunc(s.pause, func() {
				defer late.Done()
				_, _ = io.WriteString(conn, forged)
			})
		}
	}
}

// A mutation never takes surplus bytes after the response to another call for its own response,
// whenever they arrive.
func TestMutationTakesNoLeftoverAnswer(t *testing.T) {
	for _, pause := range []time.Duration{
		-1, 0, 50 * time.Microsecond, 200 * time.Microsecond, time.Millisecond,
		3 * time.Millisecond,
	} {
		t.Run(fmt.Sprint(pause), func(t *testing.T) {
			t.Parallel()
			service := newLeftovers(t, pause)
			client := wire.NewClient(t, service.url, withToken)
			const times = 400
			taken := map[string]int{}
			for range times / 2 {
				_, _ = client.Applications.Status(t.Context(), catalog.Application) // puts a connection into the pool
				for _, test := range []struct {
					name    string
					command func(context.Context, uuid.UUID) (uuid.UUID, error)
				}{
					{"GET", func(ctx context.Context, id uuid.UUID) (uuid.UUID, error) {
						offer, err := client.Applications.Process(ctx, lending.ApplicationID(id))
						return uuid.UUID(offer), err
					}},
					{"POST", func(ctx context.Context, id uuid.UUID) (uuid.UUID, error) {
						return client.Loans.ResendWithdrawalOTP(ctx, lending.LoanID(id))
					}},
				} {
					want := uuid.New()
					got, err := test.command(t.Context(), want)
					require.NoError(t, err)
					if got != want {
						taken[test.name]++
					}
				}
			}
			assert.Empty(t, taken, "answers to others that were taken, of %d", times)
			assert.GreaterOrEqual(t, service.arrivals.Load(), int32(times))
		})
	}
}

// TestMutationOverHTTP2TakesNoLeftoverAnswer has a service answer each stream twice, the second
// time with a forged answer: at once, or with the next request. The mutations share connections.
func TestMutationOverHTTP2TakesNoLeftoverAnswer(t *testing.T) {
	for _, isLate := range []bool{false, true} {
		t.Run(fmt.Sprint("late ", isLate), func(t *testing.T) {
			const times = 400
			var connections, arrivals atomic.Int32
			client := wire.NewClient(t, listenHTTP2(t, func(c *h2Conn, stream uint32) bool {
				if stream == 1 {
					connections.Add(1)
				} else if isLate {
					c.respond(stream-2, `"`+forgedID.String()+`"`)
				}
				c.respond(stream, `"`+numbered(arrivals.Add(1)).String()+`"`)
				if !isLate {
					c.respond(stream, `"`+forgedID.String()+`"`)
				}
				return true
			}), withToken)
			for i := range int32(times / 2) {
				offer, err := client.Applications.Process(t.Context(), catalog.Application)
				require.NoError(t, err)
				require.Equal(t, numbered(2*i+1), uuid.UUID(offer))
				id, err := client.Loans.ResendWithdrawalOTP(t.Context(), catalog.Loan)
				require.NoError(t, err)
				require.Equal(t, numbered(2*i+2), id)
			}
			assert.EqualValues(t, times, arrivals.Load())
			t.Logf("%d connections", connections.Load())
			assert.Less(t, connections.Load(), int32(times), "calls share a connection, if the machine is fast enough")
		})
	}
}

// TestCheckOverHTTP2TakesNoLeftoverAnswer has a service execute mutations with a key and lose the
// responses. At the next call it answers the check, and forges a late "not found" for the streams
// before it: the log must not send the mutation again.
func TestCheckOverHTTP2TakesNoLeftoverAnswer(t *testing.T) {
	var posts, reads atomic.Int32
	found := `{"id":"` + catalog.Application.String() + `","userId":"` + catalog.Customer.String() + `"}`
	address := listenHTTP2(t, func(c *h2Conn, stream uint32) bool {
		forge := func() {
			for before := stream; before > 2; before -= 2 {
				c.fail(before-2, "404")
			}
		}
		forge()
		if len(c.bodies[stream]) > 0 {
			posts.Add(1)
			c.write(frameReset, 0, stream, []byte{0, 0, 0, codeInternal})
		} else {
			reads.Add(1)
			c.respond(stream, found)
		}
		forge()
		return true
	})
	log := fake.Must(idempotency.NewLog(agedStore{store.NewMemory()}, nil))
	client := wire.NewClient(t, address, lending.WithIdempotency(log), withToken)
	const times = 50
	for i := range times {
		ctx := idempotency.WithCheck(lending.WithIdempotencyKey(t.Context(), fmt.Sprint("key-", i)),
			func(ctx context.Context) (idempotency.Verdict, error) {
				_, err := client.Applications.Get(ctx, catalog.Application)
				switch {
				case err == nil:
					return idempotency.Happened(nil), nil
				case lending.IsNotFound(err):
					return idempotency.NotHappened(), nil
				}
				return idempotency.Verdict{}, err
			})
		call := func() error {
			return client.Approval.AddCompanyDetails(ctx, catalog.Application,
				lending.CompanyDataRequest{Extra: map[string]int{"order": i}})
		}
		require.ErrorIs(t, call(), lending.ErrOutcomeUnknown)
		assert.Equal(t, lending.OutcomeDone, lending.OutcomeOf(call()))
	}
	assert.EqualValues(t, times, posts.Load())
	assert.GreaterOrEqual(t, reads.Load(), int32(times))
}

// numbered returns the n-th id.
func numbered(n int32) uuid.UUID {
	return uuid.MustParse(fmt.Sprintf("00000000-0000-4000-8000-%012d", n))
}

// TestReadWithoutKeepAliveTakesNoLeftoverAnswer holds what WithHTTPClient says of a
// transport without kept connections.
func TestReadWithoutKeepAliveTakesNoLeftoverAnswer(t *testing.T) {
	for _, pause := range []time.Duration{-1, 0, 200 * time.Microsecond} {
		t.Run(fmt.Sprint(pause), func(t *testing.T) {
			service := newLeftovers(t, pause)
			client := benchmarkClient(t, service.url, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}})
			for range 100 {
				got, err := client.Applications.Status(t.Context(), catalog.Application)
				require.NoError(t, err)
				require.Equal(t, catalog.Application.String(), got)
			}
		})
	}
}

// A check never uses a connection with an earlier request: a left-over "not found" would have the
// mutation sent again.
func TestCheckHasItsOwnConnection(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	used, checks := map[string]int{}, 0
	client := wire.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path != "/api/Loan/get-loan/"+catalog.Loan.String() {
			checks++
			assert.Zero(t, used[r.RemoteAddr], "%s on a connection that was used", r.URL.Path)
		}
		used[r.RemoteAddr]++
		wire.Answer(http.StatusNotFound, `{"title":"Not Found"}`)(w, r)
	}, lending.WithIdempotency(fake.Must(idempotency.NewLog(store.NewMemory(), nil))))
	warm := func() { _, _ = client.Loans.Get(t.Context(), catalog.Loan) }
	for i := range 10 {
		warm()
		_, err := catalog.Calls["Applications.CreateCustomer"](lending.WithIdempotencyKey(t.Context(),
			fmt.Sprint("order-", i)), client)
		require.Error(t, err)
	}
	assert.Equal(t, 20, checks, "a check before each mutation, and the mutation")
	assert.Less(t, len(used), 30, "other reads share connections, unless the machine stands still between them")
}
