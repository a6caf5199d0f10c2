package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/lendingtest"
)

// Each process of the test may have so much memory, in KiB of addresses, and the sandbox
// so much more after the traffic than before: the logs, twice for the collector, and what
// 600 creations a minute leave.
const (
	trafficLimit = 8 << 20
	grownLimit   = 2*128 + 64 // MiB
)

// TestMain is also the other processes of TestTraffic.
func TestMain(m *testing.M) {
	role := os.Getenv("SANDBOX_TRAFFIC")
	if role == "" {
		os.Exit(m.Run())
	}
	if err := play(role, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func play(role string, args []string) error {
	if role == "caller" {
		return callSteadily(args[0], args[1], args[2], os.Stdout)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return run(ctx, args, os.Stdout)
}

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
	control := lendingtest.Dial(url + "/_control/")
	loan, err := control.AddLoan(t.Context(), lendingtest.Loan{})
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
	executed, err := control.Executed(t.Context(), "GET /api/Application/application-status/{applicationId}")
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
	cmd.Env = append(os.Environ(), "SANDBOX_TRAFFIC="+role)
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

// traffic is what a caller has seen.
type traffic struct {
	Answered, Failed int
	Slowest          time.Duration
}

// callSteadily makes 167 requests a second, of which few create something and a fifth have
// a body of 40 KB, and prints what it has seen.
func callSteadily(url, application, lasting string, out io.Writer) error {
	d, err := time.ParseDuration(lasting)
	if err != nil {
		return err
	}
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 50}}
	var user struct{ Token string }
	if err := send(client, "", http.MethodPost, url+"/api/Authenication/login",
		`{"username":"`+lendingtest.Username+`","password":"`+lendingtest.Password+`"`+device+`}`, &user); err != nil {
		return err
	}
	file, text := `"`+strings.Repeat("QUJD", 10_000)+`"`, `{"text":"`+strings.Repeat("x", 40_000)+`"}`
	var mu sync.Mutex
	var seen traffic
	var requests sync.WaitGroup
	begin := time.Now()
	for i := 0; ; i++ {
		method, path, body := http.MethodGet, "/api/Application/application-status/"+application, ""
		switch {
		case i%50 == 7:
			method, path, body = http.MethodPost, "/api/Application/create-customer",
				fmt.Sprintf(`{"firstName":"A","lastName":"B","email":"%d.%d@example.com",`+
					`"password":"Analytical-Engine-1","mobileNumber":"4155550100"}`, os.Getpid(), i)
		case i%10 == 3:
			method, path, body = http.MethodPost, "/api/Application/submit-bankstatement-document/"+application+
				"?fileName=a.pdf", file
		case i%10 == 5:
			method, path, body = http.MethodPost, "/api/Webhook/handler", text
		case i%10 == 9:
			method, path, body = http.MethodPost, "/api/Authenication/login",
				`{"username":"`+lendingtest.Username+`","password":"`+lendingtest.Password+`"`+device+`}`
		}
		requests.Go(func() {
			start := time.Now()
			err := send(client, user.Token, method, url+path, body, nil)
			mu.Lock()
			defer mu.Unlock()
			if seen.Answered++; err != nil {
				seen.Failed++
				fmt.Fprintln(os.Stderr, err)
			}
			seen.Slowest = max(seen.Slowest, time.Since(start))
		})
		due := begin.Add(time.Duration(i+1) * time.Second * 3 / 500)
		if due.Sub(begin) >= d {
			requests.Wait()
			return json.NewEncoder(out).Encode(seen)
		}
		<-time.After(time.Until(due)) // what is late is made up for
	}
}

func send(client *http.Client, token, method, url, body string, result any) error {
	req, err := http.NewRequestWithContext(context.Background(), method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status + ": " + string(bytes.TrimSpace(answer)))
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(answer, result)
}
