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
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/pgtest"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
)

const (
	replicas      = 4
	tokenLifetime = 6 * time.Second // refreshed after 3.6 to 4.5, used for 5.4
	refreshRoute  = "POST /api/Authenication/refresh-token"
	tokenKey      = "lending:token"
	loginRoute    = "POST /api/Authenication/login"
)

// replicaSettings is what a replica, a process of its own, is told on its command line.
type replicaSettings struct {
	Service, Database, Directory string
}

// result is what a replica tells when it ends.
type result struct {
	Calls  int
	Failed []string
}

// runReplica calls the service until standard input ends.
func runReplica(settings replicaSettings) {
	pool, err := pgxpool.New(context.Background(), settings.Database)
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	client, err := lending.New(settings.Service,
		lending.WithCredentials(lending.Credentials{
			Username: lendingtest.Username,
			Password: lending.NewSecret(lendingtest.Password),
			TwoFactor: func(ctx context.Context, _ lending.Challenge) (string, error) {
				return askForCode(ctx, settings.Service)
			},
		}),
		lending.WithTokenStore(&freezer{lendingpostgres.NewTokenStore(pool, tokenKey), settings.Directory}))
	if err != nil {
		panic(err)
	}
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	var told result
	for ticks := time.Tick(20 * time.Millisecond); ; {
		select {
		case <-ended:
			_ = client.Close()
			if err := json.NewEncoder(os.Stdout).Encode(told); err != nil {
				panic(err)
			}
			return
		case <-ticks:
			told.Calls++
			_, err := client.Applications.ListByCustomer(context.Background(), lending.CustomerID(uuid.New()))
			if !errors.Is(err, lending.ErrNotFound) {
				told.Failed = append(told.Failed, fmt.Sprint(time.Now().Format("05.000 "), err))
			}
		}
	}
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

// freezer stops the process that takes a lease while there is a file "freeze".
type freezer struct {
	lending.TokenStore
	directory string
}

func (f *freezer) Acquire(ctx context.Context, owner string, ttl time.Duration) (int64, error) {
	fence, err := f.TokenStore.Acquire(ctx, owner, ttl)
	if err == nil && os.Rename(filepath.Join(f.directory, "freeze"), filepath.Join(f.directory, "frozen")) == nil {
		_ = os.WriteFile(filepath.Join(f.directory, "pid"), []byte(fmt.Sprint(os.Getpid())), 0o600)
		continued := make(chan os.Signal, 1)
		signal.Notify(continued, syscall.SIGCONT)
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		<-continued // the signal may stop this thread later than others
	}
	return fence, err
}

// fleet is a service and the replicas that call it.
type fleet struct {
	service   *lendingtest.Service
	directory string

	mu        sync.Mutex
	refreshed map[string]int // how often, by token
	total     int
}

// ServeHTTP counts the refreshes of each token, and gives out the codes that a person
// would read from a phone.
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
	}
}

func (f *fleet) refreshes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.total
}

// next waits for a refresh after the first before ones.
func (f *fleet) next(t *testing.T, before int) {
	t.Helper()
	require.Eventually(t, func() bool { return f.refreshes() > before }, 2*tokenLifetime, 10*time.Millisecond)
}

// Four processes share one sign-in and one refresh for each life of the token, while
// the server is killed and comes back, and a process stops in the middle of a refresh.
func TestFleet(t *testing.T) {
	cluster := pgtest.Run(t) // not beside others: its steps have times
	url := databaseIn(t, cluster)
	pool := connect(t, url)
	name := pool.Config().ConnConfig.Database
	require.NoError(t, lendingpostgres.Migrate(t.Context(), pool))
	f := &fleet{service: lendingtest.New(lendingtest.WithTokenLifetime(tokenLifetime)), directory: t.TempDir(), refreshed: map[string]int{}}
	defer f.service.Close()
	service := httptest.NewServer(f)
	defer service.Close()
	settings, err := json.Marshal(replicaSettings{service.URL, url, f.directory})
	require.NoError(t, err)

	start := time.Now()
	var ends []func() result
	for range replicas {
		ends = append(ends, startReplica(t, string(settings)))
	}
	f.next(t, f.refreshes())

	// The server is gone while every process has the token, and comes back before it is due.
	f.next(t, f.refreshes())
	<-time.After(1800 * time.Millisecond)
	cluster.Kill()
	<-time.After(time.Second)
	require.NoError(t, cluster.Start())
	f.next(t, f.refreshes())

	// The database takes nobody when the token is due, and does again before it expires: a
	// server may need longer than that to start.
	<-time.After(3 * time.Second)
	require.NoError(t, cluster.Do("postgres", "ALTER DATABASE "+name+" ALLOW_CONNECTIONS false"))
	require.NoError(t, cluster.Do("postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"+name+"'"))
	before := f.refreshes()
	<-time.After(1300 * time.Millisecond)
	assert.Equal(t, before, f.refreshes(), "a process goes on with the token it has")
	require.NoError(t, cluster.Do("postgres", "ALTER DATABASE "+name+" ALLOW_CONNECTIONS true"))
	f.next(t, before)

	// The next process that takes the lease stops, until another has refreshed.
	<-time.After(1500 * time.Millisecond)
	store := lendingpostgres.NewTokenStore(pool, tokenKey)
	held, err := store.Load(t.Context())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(f.directory, "freeze"), nil, 0o600))
	require.Eventually(t, func() bool {
		newer, err := store.Load(t.Context())
		return err == nil && newer.Fence > held.Fence
	}, 2*tokenLifetime, 10*time.Millisecond)
	assert.FileExists(t, filepath.Join(f.directory, "frozen"))
	resume(t, filepath.Join(f.directory, "pid"))
	f.next(t, f.refreshes())

	lives := time.Since(start).Seconds() / tokenLifetime.Seconds()
	calls := 0
	for _, end := range ends {
		told := end()
		assert.Empty(t, told.Failed)
		calls += told.Calls
	}
	assert.Greater(t, calls, 1000)
	assert.Equal(t, 1, f.service.Arrived(loginRoute), "sign-ins")
	assert.Len(t, f.service.Sent(), 1, "codes sent")
	for _, times := range f.refreshed {
		assert.Equal(t, 1, times, "refreshes of one token")
	}
	t.Logf("%d processes, %.1f lives of a token, %d calls, %d sign-in, %d refreshes", replicas, lives, calls, f.service.Arrived(loginRoute), f.refreshes())
}

// startReplica starts a process. The function that it returns ends it.
func startReplica(t *testing.T, settings string) func() result {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), "LENDING_REPLICA="+settings)
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
		require.NoError(t, json.Unmarshal(line, &told))
		require.NoError(t, command.Wait())
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
