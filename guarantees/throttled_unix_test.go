//go:build unix

package guarantees_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/fake"
)

const throttledVariable = "LENDING_TEST_THROTTLED" // the address of the service

// TestThrottledProcessKnowsWhichRequestsLeft has a process run for 20 ms and stand for 180 ms in turn, with a tenth
// of a processor. Some of its 240 mutations meet their deadline. A request that has not left is "not sent", and any
// other arrives.
func TestThrottledProcessKnowsWhichRequestsLeft(t *testing.T) {
	if address := os.Getenv(throttledVariable); address != "" {
		mutateThrottled(t.Context(), address)
		os.Exit(0) // a connection whose handshake ends after Close stays idle for 30 s
	}
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprint("HTTP/2 ", http2), func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			arrived := map[string]int{}
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				arrived[path.Base(r.URL.Path)]++
			}))
			server.Config.ErrorLog, server.EnableHTTP2 = quietLog, http2
			server.StartTLS()
			defer server.Close()
			child := exec.Command(os.Args[0], "-test.run=^TestThrottledProcessKnowsWhichRequestsLeft$")
			child.Env = append(os.Environ(), throttledVariable+"="+server.URL)
			child.Stderr = os.Stderr
			output, err := child.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, child.Start())
			ended := make(chan struct{})
			var throttle sync.WaitGroup
			throttle.Go(func() {
				for {
					<-time.After(20 * time.Millisecond)
					_ = child.Process.Signal(syscall.SIGSTOP)
					<-time.After(180 * time.Millisecond)
					_ = child.Process.Signal(syscall.SIGCONT)
					select {
					case <-ended:
						return
					default:
					}
				}
			})
			outcomes := map[string]string{}
			for lines := bufio.NewScanner(output); lines.Scan(); {
				var id, outcome string
				if n, _ := fmt.Sscanf(lines.Text(), "mutation %s %q", &id, &outcome); n == 2 {
					outcomes[id] = outcome
				}
			}
			close(ended)
			throttle.Wait()
			require.NoError(t, child.Wait())
			server.Close()
			require.Len(t, outcomes, 240)
			counts := map[string]int{}
			for id, outcome := range outcomes {
				counts[fmt.Sprint(outcome, ", arrived ", arrived[id])]++
			}
			t.Log(counts)
			assert.Zero(t, counts["not sent, arrived 1"]+counts["unknown, arrived 0"]+counts["done, arrived 0"], counts)
			assert.NotZero(t, counts["not sent, arrived 0"])
		})
	}
}

// mutateThrottled prints the outcome of each mutation.
func mutateThrottled(ctx context.Context, address string) {
	client := fake.Must(lending.New(address, withToken))
	defer client.Close()
	var all sync.WaitGroup
	for range 24 {
		all.Go(func() {
			for range 10 {
				ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
				id := uuid.New()
				err := client.Approval.AddCompanyDetails(ctx, lending.ApplicationID(id), lending.CompanyDataRequest{})
				cancel()
				_, _ = fmt.Fprintf(os.Stdout, "mutation %s %q\n", id, lending.OutcomeOf(err))
			}
		})
	}
	all.Wait()
	// The server answers after it has read what was written before on the same connection.
	_ = client.Approval.AddCompanyDetails(ctx, lending.ApplicationID(uuid.New()), lending.CompanyDataRequest{})
}
