//go:build unix

package lendingpostgres_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/stretchr/testify/require"

	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
)

const (
	tokenKey = "lending:token"
	signIn   = "POST /api/Authenication/login"
)

// lifetime is the lifetime of a token. A slow machine gets a longer lifetime. Clients refresh a
// token after 0.60 to 0.75 of its lifetime and use it until 0.90.
const lifetime = 6 * time.Second

// fleet is a service, and the replicas that call the service and share a token.
type fleet struct {
	cluster   *server
	pool      *pgxpool.Pool
	service   *lendingtest.Service
	directory string
	lifetime  time.Duration
	stalls    stalls

	mu        sync.Mutex
	refreshed map[string]int // refreshes by token
	total     int
	last      time.Time // time of the last refresh
}

// ServeHTTP counts the refreshes of each token and returns the two-factor codes that a person
// would read on a phone.
func (f *fleet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/code" {
		_, _ = io.WriteString(w, f.service.TwoFactorCode(lendingtest.Username))
		return
	}
	f.service.ServeHTTP(w, r)
	if strings.HasSuffix(r.URL.Path, "/refresh-token") {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.refreshed[r.Header.Get("Authorization")]++
		f.total++
		f.last = time.Now()
	}
}

func (f *fleet) refreshes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.total
}

// next waits until there are more than before refreshes.
func (f *fleet) next(before int) error {
	return f.eventually("a refresh", func() bool { return f.refreshes() > before })
}

func (f *fleet) eventually(what string, holds func() bool) error {
	for end := time.Now().Add(2 * f.lifetime); !holds(); wait(10 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("%s did not come within two lives of a token", what)
		}
	}
	return nil
}

// at waits until the token has reached this age, in hundredths of its lifetime.
func (f *fleet) at(hundredths int) {
	f.mu.Lock()
	moment := f.last.Add(f.lifetime / 100 * time.Duration(hundredths))
	f.mu.Unlock()
	wait(time.Until(moment))
	f.stalls.saw(time.Since(moment))
}

func wait(d time.Duration) { <-time.After(d) }

// Four processes share a sign-in, and a refresh for each lifetime of the token. Meanwhile the
// server is killed and restarted, refuses connections, and a process freezes in the middle of a
// refresh.
//
// On a busy machine a process or the server can stand still for longer than a lease lasts. The
// lease of a refresh lasts for a quarter of the token's remaining lifetime, and at least for
// 1/25 of the whole lifetime, and several pauses in one lease add up. If a run with a pause of
// more than 1/100 of the lifetime fails, the failure proves nothing, so the test is repeated
// with longer lifetimes.
func TestFleet(t *testing.T) {
	cluster := runServer(t) // not beside others: its steps have times
	pool := connect(t, migratedURL(t, databaseIn(t, cluster)))
	for life := lifetime; ; life *= 2 {
		stood, err := attempt(t, &fleet{cluster: cluster, pool: pool, lifetime: life})
		switch {
		case err == nil:
			return
		case stood < life/100 || life > 4*lifetime:
			t.Fatal(err)
		}
		t.Logf("with tokens that live %v a process stood still for %v, and: %v", life, stood, err)
		_, err = pool.Exec(t.Context(), "DELETE FROM lending_token")
		require.NoError(t, err)
	}
}

func attempt(t *testing.T, f *fleet) (stood time.Duration, err error) {
	t.Helper()
	f.service = lendingtest.New(lendingtest.WithTokenLifetime(f.lifetime))
	f.service.Fail(signIn, lendingtest.Fault{DelayBefore: time.Second}) // until all processes wait for it
	f.directory, f.refreshed = t.TempDir(), map[string]int{}
	defer f.service.Close()
	service := httptest.NewServer(f)
	defer service.Close()
	defer f.stalls.watch()()

	start := time.Now()
	var ends []func() result
	for range 4 {
		ends = append(ends, startReplica(t, settings{service.URL, f.pool.Config().ConnString(), f.directory}))
	}
	err = errors.Join(f.steps(t), f.judge(t, ends, time.Since(start)))
	return f.stalls.longest(), err
}

func (f *fleet) steps(t *testing.T) error {
	t.Helper()
	name := f.pool.Config().ConnConfig.Database
	do := func(statement string) { require.NoError(t, f.cluster.do(statement)) }
	tokens := must(lendingpostgres.NewTokenStore(f.pool, tokenKey, nil))
	if err := errors.Join(f.next(0), f.next(1)); err != nil {
		return err
	}

	// While every process has the token, the store is down and up again before the refresh is
	// due.
	f.at(30)
	f.cluster.kill()
	f.at(45)
	require.NoError(t, f.cluster.start())
	f.at(60)
	if err := f.next(f.refreshes()); err != nil {
		return err
	}

	// The server refuses connections when the refresh is due, and accepts them before the token
	// expires. A server may need longer to start than the token has left.
	f.at(50)
	before := f.refreshes()
	do("ALTER DATABASE " + name + " ALLOW_CONNECTIONS false")
	do("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '" + name + "'")
	f.at(60) // notes a pause if the database was away only after the first refresh can come
	f.at(72)
	early := f.refreshes() - before
	do("ALTER DATABASE " + name + " ALLOW_CONNECTIONS true") // in any case: another attempt needs the store
	if early != 0 {
		return fmt.Errorf("%d refreshes without the store: a process goes on with the token it has", early)
	}
	f.at(75)
	if err := f.next(before); err != nil {
		return err
	}

	// The next process that takes the lease freezes until another process has refreshed.
	f.at(25)
	held, err := tokens.Load(t.Context())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(f.directory, "freeze"), nil, 0o600))
	err = f.eventually("a newer token in the store", func() bool {
		newer, err := tokens.Load(t.Context())
		return err == nil && newer.Fence > held.Fence
	})
	if _, missing := os.Stat(filepath.Join(f.directory, "frozen")); err != nil || missing != nil {
		return errors.Join(err, missing)
	}
	resume(t, filepath.Join(f.directory, "pid"))
	return f.next(f.refreshes())
}

func (f *fleet) judge(t *testing.T, ends []func() result, took time.Duration) (err error) {
	t.Helper()
	calls := 0
	for _, end := range ends {
		told := end()
		if len(told.Failed) > 0 {
			err = errors.Join(err, fmt.Errorf("calls that failed: %q", told.Failed))
		}
		f.stalls.saw(told.Stood)
		calls += told.Calls
	}
	if calls <= 500 {
		err = errors.Join(err, fmt.Errorf("only %d calls", calls))
	}
	signIns, codes := f.service.Arrived(signIn), len(f.service.Sent())
	if signIns != 1 || codes != 1 {
		err = errors.Join(err, fmt.Errorf("%d sign-ins and %d codes, want one", signIns, codes))
	}
	for _, times := range f.refreshed {
		if times != 1 {
			err = errors.Join(err, fmt.Errorf("%d refreshes of one token", times))
		}
	}
	t.Logf("%d processes, %.1f lives of a token, %d calls, %d sign-in, %d refreshes; stood still for at most %v",
		len(ends), took.Seconds()/f.lifetime.Seconds(), calls, signIns, f.refreshes(), f.stalls.longest())
	return err
}

// startReplica starts a process and returns a function that ends the process.
func startReplica(t *testing.T, s settings) func() result {
	t.Helper()
	text, err := json.Marshal(s)
	require.NoError(t, err)
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), replicaVariable+"="+string(text))
	command.Stderr = os.Stderr
	stdin, err := command.StdinPipe()
	require.NoError(t, err)
	stdout, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGCONT)
		_ = command.Process.Kill()
	})
	return func() (told result) {
		require.NoError(t, stdin.Close())
		line, err := bufio.NewReader(stdout).ReadBytes('\n')
		require.NoError(t, err)
		require.NoError(t, errors.Join(json.Unmarshal(line, &told), command.Wait()))
		return told
	}
}

func resume(t *testing.T, pidFile string) {
	t.Helper()
	text, err := os.ReadFile(pidFile)
	require.NoError(t, err)
	var pid int
	_, err = fmt.Sscan(string(text), &pid)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGCONT))
}

func askForCode(ctx context.Context, service string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, service+"/code", nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	code, err := io.ReadAll(response.Body)
	return string(code), err
}
