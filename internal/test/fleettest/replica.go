//go:build unix

package fleettest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
)

// variable marks a process as a replica and holds its settings.
const variable = "LENDING_REPLICA"

type settings struct {
	Service, Store, Directory string
}

// result is the report of a replica when it ends.
type result struct {
	Calls  int
	Failed []string
	Stood  time.Duration // the longest pause of the process or the store
}

// Replica calls the service until standard input ends, if [Run] has started this process. In any
// other process Replica returns false at once.
func Replica(open func(store string) (lending.TokenStore, error)) bool {
	text := os.Getenv(variable)
	if text == "" {
		return false
	}
	var s settings
	var told result
	err := json.Unmarshal([]byte(text), &s)
	if err == nil {
		told, err = s.run(open)
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(told)
	}
	if err != nil {
		panic(err)
	}
	return true
}

func (s settings) run(open func(store string) (lending.TokenStore, error)) (told result, err error) {
	store, err := open(s.Store)
	if err != nil {
		return told, err
	}
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
			_, err := client.Applications.ListByCustomer(context.Background(), lending.CustomerID(uuid.New()))
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
