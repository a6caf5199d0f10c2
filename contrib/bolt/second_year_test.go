package lendingbolt_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/examples/order"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/onboarding"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/ops"
	"github.com/lendingapi/lending-go/orders"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	lendingbolt "github.com/lendingapi/lending-go/contrib/bolt"
)

// year is a backend in its second year. Its fields are the settings of the next deployment.
type year struct {
	*testing.T

	service  *lendingtest.Server
	address  string // of the service
	formerly []idempotency.Account
	keys     [][]byte // encryption keys
	path     string   // of the log
	program  string   // lending-ops
	password atomic.Value
	table    *order.Table
	typed    sync.Map     // orders with a password
	paused   atomic.Int64 // steps that met a pause

	url  string // of ops
	ends []func()
}

// start deploys the backend.
func (y *year) start(works bool) {
	entries, err := lendingbolt.OpenIdempotencyStore(y.path, nil)
	require.NoError(y, err)
	sealed, err := store.NewEncrypted(entries, y.keys[0], y.keys[1:]...)
	require.NoError(y, err)
	log, err := idempotency.NewLog(sealed, &idempotency.Options{
		MaxLateness: 100 * time.Millisecond, SafeToRepeat: order.SafeToRepeat, Formerly: y.formerly,
	})
	require.NoError(y, err)
	client, err := lending.New(y.address, lending.WithIdempotency(log),
		lending.WithCredentials(lending.Credentials{
			Username:           lendingtest.Username,
			TrustedDeviceToken: lending.NewSecret(lendingtest.TrustedDeviceToken),
			Current: func(context.Context) (string, lending.Secret, error) {
				return lendingtest.Username, lending.NewSecret(y.password.Load().(string)), nil
			},
		}))
	require.NoError(y, err)
	phone := func(_ context.Context, o order.Order, loan lending.LoanID, _ int) (password lending.Secret, _ error) {
		if _, isTyped := y.typed.Load(o.ID); isTyped {
			password = lending.NewSecret(y.service.OTP(loan.String()))
		}
		return password, nil
	}
	worker, err := (&order.Partner{Client: client, Log: log, Ask: phone}).Worker(y.table, &orders.Options{
		Every: 50 * time.Millisecond, StepsPerMinute: 60_000,
		Report: func(r orders.Result) {
			if errors.Is(r.Err, idempotency.ErrPaused) {
				y.paused.Add(1)
			}
		},
	})
	require.NoError(y, err)
	server := httptest.NewServer(ops.Handler(ops.Options{
		Log: log, Client: client, Inboxes: map[string]webhook.DeadLetters{"webhooks": webhook.NewMemoryInbox()},
		Who: func(*http.Request) (string, bool) { return "kim", true }, Logger: slog.New(slog.DiscardHandler),
	}))
	y.url = server.URL + "/ops/"
	ctx, stop := context.WithCancel(y.Context())
	var working sync.WaitGroup
	if works {
		working.Go(func() { _ = worker.Run(ctx) })
	}
	y.ends = []func(){stop, working.Wait, server.Close, client.Close, func() { require.NoError(y, entries.Close()) }}
}

func (y *year) stop() {
	for _, end := range y.ends {
		end()
	}
}

// deploy stops the backend, changes its settings and starts it.
func (y *year) deploy(change func()) {
	y.stop()
	change()
	y.start(true)
}

// sent returns the number of the mutations that the service has executed, but for those of sign-ins.
func (y *year) sent() (n int) {
	for _, route := range y.service.Routes() {
		if method, _, _ := strings.Cut(route, " "); (method == http.MethodPost || route == onboarding.Process) &&
			!strings.Contains(route, "/Authenication/") {
			n += y.service.Executed(route)
		}
	}
	return n
}

// accept inserts an order of a customer.
func (y *year) accept(id, customer string, isTyped bool) {
	if isTyped {
		y.typed.Store(id, true)
	}
	o := order.Order{ID: id, Email: customer + "@example.com", Amount: "2500.00", Accepted: time.Now()}
	require.True(y, y.table.Save(o))
}

func (y *year) eventually(what string, holds func() bool) {
	y.Helper()
	require.Eventually(y, holds, time.Minute, 10*time.Millisecond, what)
}

// done waits until an order is done.
func (y *year) done(ids ...string) {
	y.Helper()
	for _, id := range ids {
		y.eventually(id, func() bool { return y.table.Get(id).State == order.Done })
	}
}

// waits returns after the service has sent so many passwords.
func (y *year) waits(passwords int) {
	y.Helper()
	y.eventually("a password", func() bool { return y.service.Executed(onboarding.Withdraw) == passwords })
}

// ops runs lending-ops.
func (y *year) ops(words ...string) (out string, status int) {
	y.Helper()
	command := exec.CommandContext(y.Context(), y.program, words...)
	command.Env = append(os.Environ(), "LENDING_OPS_URL="+y.url)
	said, err := command.CombinedOutput()
	require.NotNil(y, command.ProcessState, "%v", err)
	return string(said), command.ProcessState.ExitCode()
}

// decide is the person, who finds the records of all keys in review in the books of the service.
func (y *year) decide(ids ...string) (decided []string) {
	isOpen := func(id string) bool { return y.table.Get(id).State == order.Open }
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && (isOpen(ids[0]) || isOpen(ids[1])); {
		said, _ := y.ops("review")
		for _, key := range regexp.MustCompile(`order-\d+/\S+`).FindAllString(said, -1) {
			if _, status := y.ops("resolve", "-why", "the books", key, "happened"); status == 0 {
				decided = append(decided, key)
			}
		}
	}
	return decided
}

// TestSecondYear runs the commands of docs/second-year.md in their order, at a backend with its log in a file. The
// sections before have no command: the service moves, and passwords and keys change.
func TestSecondYear(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/second-year.md")
	require.NoError(t, err)
	y := &year{
		T: t, service: lendingtest.NewServer(), path: filepath.Join(t.TempDir(), "log.db"), table: order.NewTable(),
		keys: [][]byte{bytes.Repeat([]byte("k"), 32)}, program: filepath.Join(t.TempDir(), "lending-ops"),
	}
	defer y.service.Close()
	const program = "github.com/lendingapi/lending-go/cmd/lending-ops"
	build := exec.CommandContext(t.Context(), "go", "build", "-o", y.program, program)
	said, err := build.CombinedOutput()
	require.NoError(t, err, string(said))
	y.address = y.service.URL
	y.password.Store(lendingtest.Password)
	known := y.service.AddCustomer(lendingtest.Customer{Email: "cy@example.com"})
	y.service.AddLoan(lendingtest.Loan{CustomerID: known.ID})
	y.start(true)
	y.accept("order-42", "ada", true)
	y.accept("order-43", "bob", false)
	y.done("order-42")
	y.waits(2)

	// Move and rename.
	moved := strings.Replace(y.address, "127.0.0.1", "localhost", 1)
	y.deploy(func() {
		y.formerly = []idempotency.Account{
			{BaseURL: y.address, Username: lendingtest.Username}, {BaseURL: moved, Username: lendingtest.Username},
		}
	})
	y.deploy(func() { y.address = moved })
	y.accept("order-44", "ada", true)
	y.done("order-44")

	// Rotate.
	y.service.AddAccount(lendingtest.Account{
		Username: lendingtest.Username, Password: "The-next-1", PartnerID: lendingtest.PartnerID,
	})
	y.service.RevokeTokens()
	y.password.Store("The-next-1")
	y.accept("order-45", "cy", true)
	y.done("order-45")
	before, next := y.keys[0], bytes.Repeat([]byte("n"), 32)
	y.deploy(func() { y.keys = [][]byte{before, next, before} })
	y.deploy(func() { y.keys = [][]byte{next, before} })
	y.accept("order-46", "cy", true)
	y.done("order-46")

	// Restore: the copy, orders that the copy lacks, and steps 1 and 2.
	var image []byte
	var at time.Time
	y.deploy(func() {
		image, err = os.ReadFile(y.path)
		require.NoError(t, err)
		at = time.Now()
	})
	y.typed.Store("order-43", true)
	y.accept("order-47", "ada", true)
	y.accept("order-48", "bob", false)
	y.done("order-43", "order-47")
	y.waits(7)
	y.stop()
	require.NoError(t, os.Rename(y.path, y.path+".damaged"))
	require.NoError(t, os.WriteFile(y.path, image, 0o600))
	y.start(false)

	sent := y.sent()
	var ran []string
	commands := regexp.MustCompile("lending-ops (?:-url \\S+ )?([a-z][^`\n]*)")
	for _, found := range commands.FindAllStringSubmatch(string(page), -1) {
		words := regexp.MustCompile(`"[^"]*"|\S+`).FindAllString(found[1], -1)
		verb := words[0]
		ran = append(ran, verb)
		for i, word := range words {
			switch word = strings.Trim(word, `"`); word {
			case "14:05":
				word = at.UTC().Format("15:04")
			case "DAY":
				word = at.UTC().Format(time.DateOnly)
			}
			words[i] = word
		}
		if verb == "erase" {
			words = append(words[:3], y.idsOf("bob@example.com")...)
		}
		out, status := "", 0
		if verb != "erase" {
			out, status = y.ops(words...)
		}
		switch verb {
		case "restored": // step 4: a bolt file has a single process
			y.deploy(func() {})
			<-time.After(time.Second) // longer than a save on a slow disk
			y.accept("order-49", "ada", true)
			y.eventually("a step in the pause", func() bool { return y.paused.Load() > 0 })
			y.typed.Store("order-48", true)
		case "status":
			assert.Contains(t, out, "paused")
			assert.Contains(t, out, "restored")
			assert.Equal(t, sent, y.sent(), "sent by a paused log")
		case "resume":
			y.deploy(func() {}) // otherwise the orders wait for the rest of a minute
		case "review": // and the open orders run again
			decided := y.decide("order-48", "order-49")
			t.Log("a person has decided", decided)
			assert.Equal(t, []string{"order-48/create-application", "order-48/applicant"}, decided)
		case "audit":
			assert.Contains(t, out, "unexplained    3", "order-47, the money of order-43, and before the log")
			assert.Equal(t, 1, status)
			continue
		case "show":
			assert.Contains(t, out, "confirm-withdrawal-invoice")
		case "removed":
			assert.Contains(t, out, "none")
		case "erase": // again, until MaxLateness is over
			y.eventually("an erasure", func() bool {
				out, status = y.ops(words...)
				return status == 0
			})
			assert.Regexp(t, `erased  [1-9]`, out)
		}
		assert.Zero(t, status, "%s: %s", found[0], out)
	}
	assert.Equal(t, []string{"restored", "status", "resume", "review", "audit", "show", "removed", "erase"}, ran)
	y.accept("order-50", "bob", true)
	y.done("order-50")
	out, status := y.ops("audit", "-from", at.UTC().Format(time.DateOnly))
	assert.Zero(t, status, out)
	y.stop()
	state := y.service.Snapshot()
	require.Len(t, state.Loans, 1+9, "of nine orders, and of the year before")
	for _, loan := range state.Loans[1:] {
		assert.Len(t, loan.Withdrawals, 1)
	}
	assert.Equal(t, 9, y.service.Executed(onboarding.Process))
	assert.Equal(t, 9, y.service.Executed(onboarding.Applicant))
}

// idsOf returns the ids of a customer, and of the customer's applications and loans.
func (y *year) idsOf(email string) (ids []string) {
	state := y.service.Snapshot()
	for _, customer := range state.Customers {
		if customer.Email != email {
			continue
		}
		ids = append(ids, customer.ID)
		for _, application := range state.Applications {
			if application.CustomerID == customer.ID {
				ids = append(ids, application.ID)
			}
		}
		for _, loan := range state.Loans {
			if loan.CustomerID == customer.ID {
				ids = append(ids, loan.ID)
			}
		}
	}
	return ids
}
