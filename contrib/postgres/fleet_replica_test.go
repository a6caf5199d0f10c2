//go:build unix

package lendingpostgres_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"

	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
)

// replicaVariable marks a process as a replica and holds its settings.
const replicaVariable = "LENDING_REPLICA"

type settings struct {
	Service, Store, Directory string
}

// result is the report of a replica when it ends.
type result struct {
	Calls  int
	Failed []string
	Stood  time.Duration // the longest pause of the process or the store
}

// replica calls the service until standard input ends, if TestFleet has started this process. In
// any other process it returns false at once.
func replica() bool {
	text := os.Getenv(replicaVariable)
	if text == "" {
		return false
	}
	var s settings
	var told result
	err := json.Unmarshal([]byte(text), &s)
	if err == nil {
		told, err = s.run()
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(told)
	}
	if err != nil {
		panic(err)
	}
	return true
}

func (s settings) run() (told result, err error) {
	pool, err := pgxpool.New(context.Background(), s.Store)
	if err != nil {
		return told, err
	}
	store := must(lendingpostgres.NewTokenStore(pool, tokenKey, nil))
	var stood stalls
	freezer := &freezer{TokenStore: timed{store, &stood}, directory: s.Directory}
	stop := stood.watch()
	defer func() {
		if stop(); !freezer.frozen.Load() {
			told.Stood = stood.longest()
		}
	}()
	client, err := lending.New(s.Service,
		lending.WithCredentials(lending.Credentials{
			Username:  lendingtest.Username,
			Password:  lending.NewSecret(lendingtest.Password),
			TwoFactor: func(ctx context.Context, _ lending.Challenge) (string, error) { return askForCode(ctx, s.Service) },
		}),
		lending.WithTokenStore(freezer))
	if err != nil {
		return told, err
	}
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	for ticks := time.Tick(20 * time.Millisecond); ; {
		select {
		case <-ended:
			client.Close()
			return told, nil
		case <-ticks:
			told.Calls++
			_, err := client.Applications.ListByCustomer(context.Background(), lending.CustomerID{1})
			if !errors.Is(err, lending.ErrNotFound) {
				told.Failed = append(told.Failed, fmt.Sprint(time.Now().Format("05.000 "), err))
			}
		}
	}
}

// timed measures the longest pause of the store.
type timed struct {
	lending.TokenStore
	stood *stalls
}

func (s timed) since(start time.Time) { s.stood.saw(time.Since(start)) }

func (s timed) Load(ctx context.Context) (lending.StoredToken, error) {
	defer s.since(time.Now())
	return s.TokenStore.Load(ctx)
}

func (s timed) Save(ctx context.Context, token lending.StoredToken) error {
	defer s.since(time.Now())
	return s.TokenStore.Save(ctx, token)
}

func (s timed) Acquire(ctx context.Context, owner string, ttl time.Duration) (int64, error) {
	defer s.since(time.Now())
	return s.TokenStore.Acquire(ctx, owner, ttl)
}

// freezer freezes the process that takes a lease while a file named "freeze" exists.
type freezer struct {
	lending.TokenStore
	directory string
	frozen    atomic.Bool
}

func (f *freezer) Acquire(ctx context.Context, owner string, ttl time.Duration) (int64, error) {
	fence, err := f.TokenStore.Acquire(ctx, owner, ttl)
	if err == nil && os.Rename(filepath.Join(f.directory, "freeze"), filepath.Join(f.directory, "frozen")) == nil {
		f.frozen.Store(true)
		_ = os.WriteFile(filepath.Join(f.directory, "pid"), []byte(fmt.Sprint(os.Getpid())), 0o600)
		continued := make(chan os.Signal, 1)
		signal.Notify(continued, syscall.SIGCONT)
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		<-continued // the signal may reach this thread later than others
	}
	return fence, err
}

// stalls measures the longest pause of this process, which a busy machine can cause.
type stalls struct {
	mu   sync.Mutex
	most time.Duration
}

func (s *stalls) saw(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most = max(s.most, d)
}

func (s *stalls) longest() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

// watch measures until the caller calls end.
func (s *stalls) watch() (end func()) {
	const step = 20 * time.Millisecond
	ended := make(chan struct{})
	go func() {
		for last := time.Now(); ; last = time.Now() {
			select {
			case <-ended:
				return
			case <-time.After(step):
				s.saw(time.Since(last) - step)
			}
		}
	}()
	return func() { close(ended) }
}
