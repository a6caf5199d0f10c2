package lendingrestate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lendingapi/lending-go"
	lendingbolt "github.com/lendingapi/lending-go/contrib/bolt"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/lendingtest"
	restate "github.com/restatedev/sdk-go"
	"github.com/restatedev/sdk-go/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	serverVariable = "LENDING_TEST_RESTATE" // path of restate-server
	workerVariable = "LENDING_RESTATE_WORKER"

	createRoute = "POST /api/Application/create-application"

	orders = 20
	kills  = 6
)

// config is the configuration of a worker process.
type config struct {
	Service, Token, Listen, Log string
	Keys                        bool
}

// order is the input of a handler. Its fields are of plain types: the server refuses the schema
// that the SDK makes of a lending.CustomerID.
type order struct{ ID, Customer string }

// The program starts itself as the worker.
func TestMain(m *testing.M) {
	if text := os.Getenv(workerVariable); text != "" {
		go func() { // whose parent is gone
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(2)
		}()
		if err := work(text); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func work(text string) error {
	var c config
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	entries, err := lendingbolt.OpenIdempotencyStore(c.Log, nil)
	if err != nil {
		return err
	}
	defer entries.Close()
	log, err := idempotency.NewLog(entries, &idempotency.Options{MaxLateness: 500 * time.Millisecond})
	if err != nil {
		return err
	}
	client, err := lending.New(c.Service,
		lending.WithTokenSource(lending.StaticToken(c.Token)), lending.WithIdempotency(log))
	if err != nil {
		return err
	}
	defer client.Close()
	create := func(ctx context.Context, o order) (string, error) {
		ctx, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		customer, err := lending.ParseCustomerID(o.Customer)
		if err != nil {
			return "", err
		}
		id, err := client.Applications.Create(ctx,
			lending.ApplicationRequest{CustomerID: customer, BusinessName: "Engines", BusinessZip: "94105"}, nil)
		return id.String(), err
	}
	onboard := func(ctx restate.Context, o order) (string, error) {
		if !c.Keys {
			return restate.Run(ctx, func(run restate.RunContext) (string, error) { return create(run, o) },
				restate.WithInitialRetryInterval(200*time.Millisecond))
		}
		return once(ctx, func(run restate.RunContext) (string, error) {
			return create(lending.WithIdempotencyKey(run, o.ID+"/create-application"), o)
		})
	}
	return server.NewRestate().
		WithLogger(slog.DiscardHandler, false).
		Bind(restate.NewService("Orders").Handler("Onboard", restate.NewServiceHandler(onboard))).
		Start(context.Background(), c.Listen)
}

// TestOrdersAreDoneOnce processes orders with killed workers, at a service that loses a fifth of the
// responses.
func TestOrdersAreDoneOnce(t *testing.T) {
	path := os.Getenv(serverVariable)
	if path == "" {
		t.Skipf("%s does not name restate-server: make restate-peer does", serverVariable)
	}
	for _, keys := range []bool{false, true} {
		t.Run(fmt.Sprintf("keys %t", keys), func(t *testing.T) {
			doubles := run(t, path, keys)
			t.Logf("%d of %d orders have more than one application, keys %t", doubles, orders, keys)
			if keys {
				assert.Zero(t, doubles)
			}
		})
	}
}

func run(t *testing.T, path string, keys bool) (doubles int) {
	t.Helper()
	service := lendingtest.New()
	defer service.Close()
	faulty := httptest.NewServer(service)
	defer faulty.Close()
	var all []order
	for i := range orders {
		customer := service.AddCustomer(lendingtest.Customer{Email: fmt.Sprintf("order-%d@example.com", i)})
		all = append(all, order{fmt.Sprintf("order-%d", i), customer.ID})
	}
	for range orders {
		service.Fail(createRoute, lendingtest.Fault{Times: 4})
		service.Fail(createRoute, lendingtest.Fault{ResetAfter: true})
	}
	ingress, admin := startRestate(t, path)
	c := config{
		Service: faulty.URL, Token: service.Token(lendingtest.AdministratorUsername), Listen: free(t),
		Log: filepath.Join(t.TempDir(), "log"), Keys: keys,
	}
	begun, done := make(chan struct{}), make(chan struct{})
	var fleet sync.WaitGroup
	fleet.Go(func() { killing(t, c, begun, done) })
	defer fleet.Wait()
	defer close(done)
	until(t, "the deployment is registered", func() bool {
		status, _ := post(t, admin+"/deployments", map[string]any{"uri": "http://" + c.Listen, "force": true})
		return status/100 == 2
	})
	close(begun)
	var callers sync.WaitGroup
	for _, o := range all {
		callers.Go(func() {
			status, body := post(t, ingress+"/Orders/Onboard", o)
			assert.Equal(t, http.StatusOK, status, body)
		})
	}
	callers.Wait()
	require.NoError(t, service.Wait(t.Context()))
	perOrder := map[string]int{}
	for _, application := range service.Snapshot().Applications {
		perOrder[application.CustomerID]++
	}
	assert.Len(t, perOrder, orders)
	for _, n := range perOrder {
		if n > 1 {
			doubles++
		}
	}
	return doubles
}

// killing keeps a worker running until done is closed, and kills each worker after a random time.
func killing(t *testing.T, c config, begun, done <-chan struct{}) {
	t.Helper()
	text, err := json.Marshal(c)
	assert.NoError(t, err)
	for life := 0; ; life++ {
		worker := exec.Command(os.Args[0])
		worker.Env = append(os.Environ(), workerVariable+"="+string(text))
		input, err := worker.StdinPipe()
		if !assert.NoError(t, err) || !assert.NoError(t, worker.Start()) {
			return
		}
		isDone := false
		select {
		case <-begun:
		case <-done: // there was a failure before
		}
		var death <-chan time.Time
		if life < kills {
			death = time.After(50*time.Millisecond + rand.N(250*time.Millisecond))
		}
		select {
		case <-death:
		case <-done:
			isDone = true
		}
		_ = worker.Process.Kill()
		_ = worker.Wait()
		_ = input.Close()
		if isDone {
			return
		}
	}
}

func startRestate(t *testing.T, path string) (ingress, admin string) {
	t.Helper()
	in, ad, node := free(t), free(t), free(t)
	var said bytes.Buffer
	restate := exec.Command(path, "--base-dir", t.TempDir(), "--node-name", "test")
	restate.Env = append(os.Environ(), "RESTATE_INGRESS__BIND_ADDRESS="+in, "RESTATE_ADMIN__BIND_ADDRESS="+ad,
		"RESTATE_BIND_ADDRESS="+node, "RESTATE_ADVERTISED_ADDRESS=http://"+node, "RESTATE_DISABLE_TELEMETRY=true")
	restate.Stdout, restate.Stderr = &said, &said
	require.NoError(t, restate.Start())
	t.Cleanup(func() {
		_ = restate.Process.Kill()
		_ = restate.Wait()
		if t.Failed() {
			t.Log(said.String()[max(0, said.Len()-4000):])
		}
	})
	ingress, admin = "http://"+in, "http://"+ad
	for _, url := range []string{ingress + "/restate/health", admin + "/health"} {
		until(t, url+" answers", func() bool {
			answer, err := http.Get(url)
			if err == nil {
				_ = answer.Body.Close()
			}
			return err == nil && answer.StatusCode == http.StatusOK
		})
	}
	return ingress, admin
}

// free returns a free address of this machine.
func free(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, time.Minute, 100*time.Millisecond, what)
}

func post(t *testing.T, url string, body any) (status int, text string) {
	t.Helper()
	sent, err := json.Marshal(body)
	assert.NoError(t, err)
	answer, err := http.Post(url, "application/json", strings.NewReader(string(sent)))
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	received, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(received)
}
