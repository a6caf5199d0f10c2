package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/lendingtest/control"
)

// Each process of the test may have so much memory, in KiB of addresses, and the sandbox
// so much more after the traffic than before: the logs, twice for the collector, and what
// 600 creations a minute leave.
const (
	trafficLimit = 8 << 20
	grownLimit   = 2*128 + 64 // MiB
)

// 500 requests a second come from three processes, and the memory of the sandbox stays within
// its bound. It lasts two seconds, or LENDING_TEST_TRAFFIC, for instance 1m.
func TestTraffic(t *testing.T) {
	lasting := 2 * time.Second
	if text := os.Getenv("LENDING_TEST_TRAFFIC"); text != "" {
		var err error
		lasting, err = time.ParseDuration(text)
		require.NoError(t, err)
	}
	sandbox, out := another(t, "sandbox", "-addr", "127.0.0.1:0", "-log=false", "-control")
	require.NoError(t, sandbox.Start())
	first := make([]byte, 4<<10)
	n, err := out.Read(first)
	require.NoError(t, err)
	go func() { _, _ = io.Copy(io.Discard, out) }()
	url := regexp.MustCompile(`http://[^/]+`).FindString(string(first[:n]))
	steer := control.Dial(url + "/_control/")
	loan, err := steer.AddLoan(t.Context(), lendingtest.Loan{})
	require.NoError(t, err)
	before := resident(t, sandbox.Process.Pid)

	var callers sync.WaitGroup
	var results [3]traffic
	for i := range results {
		callers.Go(func() {
			caller, out := another(t, "caller", url, loan.ApplicationID, lasting.String())
			if assert.NoError(t, caller.Start()) {
				assert.NoError(t, json.NewDecoder(out).Decode(&results[i]))
				assert.NoError(t, caller.Wait())
			}
		})
	}
	callers.Wait()
	var all traffic
	for _, one := range results {
		all.Answered, all.Failed = all.Answered+one.Answered, all.Failed+one.Failed
		all.Slowest = max(all.Slowest, one.Slowest)
	}
	grown := resident(t, sandbox.Process.Pid) - before
	t.Logf("%d requests in %v, %d failed, the slowest took %v; the sandbox has grown from %d by %d MiB", all.Answered,
		lasting, all.Failed, all.Slowest, before, grown)
	assert.Zero(t, all.Failed)
	assert.Greater(t, all.Answered, int(lasting.Seconds()*495))
	assert.Less(t, grown, grownLimit)
	executed, err := steer.Executed(t.Context(), "GET /api/Application/application-status/{applicationId}")
	require.NoError(t, err)
	assert.Greater(t, executed, all.Answered/4, "counts go on")
	require.NoError(t, sandbox.Process.Signal(syscall.SIGTERM))
	require.NoError(t, sandbox.Wait())
}

// another is this test as another process, whose memory is limited.
func another(t *testing.T, role string, args ...string) (*exec.Cmd, io.Reader) {
	t.Helper()
	self, err := filepath.Abs(os.Args[0])
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "sh",
		append([]string{"-c", fmt.Sprintf(`ulimit -v %d; exec "$0" "$@"`, trafficLimit), self}, args...)...)
	cmd.Env = append(os.Environ(), processRole+"="+role)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	return cmd, out
}

// resident is the memory that a process has, in MiB.
func resident(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	require.NoError(t, err)
	found := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(status)
	require.Len(t, found, 2)
	kib, err := strconv.Atoi(string(found[1]))
	require.NoError(t, err)
	return kib >> 10
}
