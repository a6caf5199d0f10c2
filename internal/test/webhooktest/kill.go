package webhooktest

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/webhook"
)

var (
	events = flag.Int("events", 2000, "how many events the kill test sends")
	kills  = flag.Int("kills", 15, "how often the kill test kills the receiver")
)

const (
	childVariable = "LENDING_WEBHOOKTEST_CHILD" // generation of a receiver, for its process
	storeVariable = "LENDING_WEBHOOKTEST_STORE" // location of the inbox
	secret        = "whs_0123456789abcdef0123456789abcdef"
	concurrency   = 16 // of the senders, and of Work
)

// Store is the store of a receiver.
type Store struct {
	Inbox webhook.Inbox
	// Work runs instead of [webhook.Work], if it is not nil, to do more around the handler.
	Work  func(ctx context.Context, handle webhook.EventFunc, opts *webhook.WorkOptions)
	Close func() error // nil if nothing needs to be closed
}

func (s Store) work(ctx context.Context, handle webhook.EventFunc, opts *webhook.WorkOptions) {
	if s.Work != nil {
		s.Work(ctx, handle, opts)
		return
	}
	webhook.Work(ctx, s.Inbox, handle, opts)
}

func (s Store) close() {
	if s.Close != nil {
		_ = s.Close()
	}
}

// Main runs the tests of a package that calls [Kill] or [Crash], and returns the exit status for
// TestMain. In a process started by these functions, Main works with the store of open instead.
func Main(m *testing.M, open func(store string) (Store, error)) int {
	generation := os.Getenv(childVariable)
	if generation == "" {
		return m.Run()
	}
	run := child
	if os.Getenv(crashVariable) != "" {
		run = crashChild
	}
	if err := run(generation, open); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "receiver:", err)
		return 1
	}
	return 0
}

// child is the receiver. It listens on file 3 and writes the handled events to file 4. After a
// byte on standard input, or at its end, which is also the end of the test, child ends as soon
// as its inbox is empty.
func child(generation string, open func(string) (Store, error)) error {
	finish := make(chan struct{})
	go func() {
		if _, err := os.Stdin.Read(make([]byte, 1)); err == nil {
			close(finish)
		}
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(2)
	}()
	listener, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return err
	}
	acts := os.NewFile(4, "acts")
	store, err := open(os.Getenv(storeVariable))
	if err != nil {
		return err
	}
	act := func(_ context.Context, event *webhook.Event) error {
		<-time.After(rand.N(2 * time.Millisecond))
		if rand.N(50) == 0 {
			return errors.New("a failure now and then")
		}
		_, err := acts.WriteString(event.Key() + " " + generation + "\n")
		return err
	}
	receiver, err := webhook.NewReceiver(webhook.SignedWith(lending.NewSecret(secret)), store.Inbox.Put, nil)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var working sync.WaitGroup
	working.Go(func() {
		store.work(ctx, act, &webhook.WorkOptions{Concurrency: concurrency, MaxTries: 1000, Backoff: func(int) time.Duration { return 20 * time.Millisecond }})
	})
	server := &http.Server{Handler: receiver, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(listener) }()
	<-finish
	for {
		if counts, err := store.Inbox.Counts(ctx); err == nil && counts == (webhook.InboxCounts{}) {
			cancel()
			working.Wait()
			return nil
		}
		<-time.After(20 * time.Millisecond)
	}
}

// Kill sends signed events to a receiver in a process of its own, some events several times.
// Kill kills this process many times at random with SIGKILL. The test fails if an accepted event
// is not handled, or if an event is handled twice outside the window that [webhook.Work]
// documents: by two processes of which the first was killed, and for no more
// events than the killed process had calls in progress.
//
// If between is not nil, Kill calls it from time to time, for example to restart the server of
// the inbox.
func Kill(t *testing.T, store string, between func()) {
	t.Helper()
	run(t, store, between).judge()
}

// KillExactly is Kill for a store with its own Work. At the end acted returns how often each
// event, by key, has had its effect. The test fails unless each accepted event has had its
// effect exactly once, and each other event at most once.
func KillExactly(t *testing.T, store string, between func(), acted func() map[string]int) {
	t.Helper()
	r := run(t, store, between)
	r.judgeExactly(acted())
}

func run(t *testing.T, store string, between func()) *rig {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot inherit a socket here")
	}
	start := time.Now()
	r := newRig(t, store)
	r.start()
	sending := make(chan struct{})
	go func() {
		r.sendAll()
		close(sending)
	}()
	for i := range *kills {
		for r.sent.Load() < int64((i+1)*(*events)/(*kills+2)) {
			if t.Failed() || time.Since(start) > 5*time.Minute {
				t.Fatal("the receiver does not get on")
			}
			wait(time.Millisecond)
		}
		wait(rand.N(50 * time.Millisecond))
		r.kill()
		if between != nil && i%4 == 1 {
			between()
		}
		r.start()
	}
	<-sending
	r.kill() // while the inbox is full and no sender runs
	r.start()
	wait(rand.N(50 * time.Millisecond))
	r.kill()
	r.start()
	_, err := io.WriteString(r.stdin, ".")
	require.NoError(t, err, "finish")
	if err := r.process.Wait(); err != nil {
		t.Fatalf("the receiver did not empty its inbox: %v: %s", err, r.stderr.String())
	}
	r.took = time.Since(start)
	return r
}

type rig struct {
	t          *testing.T
	store      string
	listener   *os.File
	url        string
	acts       *os.File
	process    *exec.Cmd
	stdin      io.Writer
	stderr     bytes.Buffer
	generation int
	took       time.Duration

	sent, deliveries, repeated atomic.Int64

	mu       sync.Mutex
	accepted map[string]bool // by key
}

func newRig(t *testing.T, store string) *rig {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err, "listen")
	file, err := listener.(*net.TCPListener).File()
	require.NoError(t, err, "listen")
	acts, err := os.OpenFile(t.TempDir()+"/acts", os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	require.NoError(t, err, "create")
	r := &rig{t: t, store: store, listener: file, url: "http://" + listener.Addr().String(), acts: acts, accepted: map[string]bool{}}
	t.Cleanup(func() {
		r.kill()
		_ = errors.Join(listener.Close(), file.Close(), acts.Close())
	})
	return r
}

// start starts a receiver. All receivers share a socket, which stays open between two of them,
// so connections wait there.
func (r *rig) start() {
	r.generation++
	r.process = exec.CommandContext(context.WithoutCancel(r.t.Context()), os.Args[0], "-test.run=^$")
	r.process.Env = append(os.Environ(), fmt.Sprintf("%s=%d", childVariable, r.generation), storeVariable+"="+r.store)
	r.process.ExtraFiles = []*os.File{r.listener, r.acts}
	r.process.Stderr = &r.stderr
	var err error
	r.stdin, err = r.process.StdinPipe()
	require.NoError(r.t, err, "start")
	require.NoError(r.t, r.process.Start(), "start")
}

func (r *rig) kill() {
	if r.process.ProcessState == nil {
		_ = r.process.Process.Kill()
		_ = r.process.Wait()
	}
}

// sendAll sends all events from several goroutines: most events until they are accepted, some
// events only once, and some events several times in parallel.
func (r *rig) sendAll() {
	client := &http.Client{Timeout: 10 * time.Second}
	var group sync.WaitGroup
	for sender := range concurrency {
		group.Go(func() {
			for n := sender; n < *events; n += concurrency {
				e := event(n)
				var copies sync.WaitGroup
				for range 1 + max(0, rand.N(6)-3) {
					copies.Go(func() { r.send(client, e, n%20 != 0) })
				}
				copies.Wait()
				r.sent.Add(1)
			}
		})
	}
	group.Wait()
}

func (r *rig) send(client *http.Client, e *webhook.Event, persist bool) {
	for {
		r.deliveries.Add(1)
		if status, err := post(r.t.Context(), client, r.url, e.Body()); err == nil && status < 300 {
			r.accept(e.Key())
			return
		}
		if !persist || r.t.Context().Err() != nil {
			return
		}
		wait(rand.N(20 * time.Millisecond))
	}
}

func (r *rig) accept(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.accepted[key] {
		r.repeated.Add(1)
	}
	r.accepted[key] = true
}

func (r *rig) judge() {
	text, err := os.ReadFile(r.acts.Name())
	require.NoError(r.t, err, "read")
	byKey := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		key, generation, _ := strings.Cut(strings.TrimSpace(line), " ")
		byKey[key] = append(byKey[key], generation)
	}
	lost, twice := 0, 0
	again := map[string]int{} // events that a later process repeated, by killed process
	for key := range r.accepted {
		if len(byKey[key]) == 0 {
			lost++
		}
	}
	for key, generations := range byKey {
		for i, generation := range generations[1:] {
			twice++
			again[generations[i]]++
			if generation == generations[i] {
				r.t.Errorf("event %s was acted on twice by receiver %s", key, generation)
			}
		}
	}
	most := 0
	for generation, n := range again {
		most = max(most, n)
		if n > concurrency {
			r.t.Errorf("%d acts of receiver %s were repeated, it had at most %d calls under way", n, generation, concurrency)
		}
	}
	if lost > 0 {
		r.t.Errorf("%d of %d accepted events were lost", lost, len(r.accepted))
	}
	r.t.Logf("%s; %d acted on, %d lost, %d acted on twice, at most %d after one kill; %s", r.sentText(), len(byKey), lost, twice, most, r.took.Round(time.Millisecond))
}

func (r *rig) judgeExactly(acted map[string]int) {
	lost, twice := 0, 0
	for key := range r.accepted {
		if acted[key] == 0 {
			lost++
		}
	}
	for _, times := range acted {
		if times > 1 {
			twice++
		}
	}
	if lost > 0 || twice > 0 || len(acted) == 0 {
		r.t.Errorf("of %d accepted events %d were lost, and %d of %d had their effect more than once", len(r.accepted), lost, twice, len(acted))
	}
	r.t.Logf("%s; %d with their effect, %d lost, %d more than once; %s", r.sentText(), len(acted), lost, twice, r.took.Round(time.Millisecond))
}

func (r *rig) sentText() string {
	return fmt.Sprintf("%d events in %d deliveries, %d accepted, %d exact duplicates answered with success; receiver killed %d times",
		*events, r.deliveries.Load(), len(r.accepted), r.repeated.Load(), r.generation-1)
}
