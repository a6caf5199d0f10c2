package idempotency_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

func TestInvalidKeysAreRefused(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, _ *tampered, client *lending.Client) {
		for _, key := range []string{"", "a\nb", "\xff", strings.Repeat("k", 257)} {
			_, err := client.Applications.CreateCustomer(lending.WithIdempotencyKey(t.Context(), key), fake.Newcomer())
			require.ErrorAs(t, err, new(*lending.ArgumentError), "%q", key)
		}
		ctx := lending.WithIdempotencyKey(t.Context(), "the/key")
		_, err := client.Customers.GetByEmail(ctx, "ada@example.com")
		require.ErrorAs(t, err, new(*lending.ArgumentError))
		_, err = client.Auth.RefreshToken(ctx)
		require.ErrorAs(t, err, new(*lending.ArgumentError))
		_, err = wire.NewClient(t, "https://lending.example").Applications.CreateCustomer(ctx, fake.Newcomer())
		require.ErrorContains(t, err, "key needs a client with WithIdempotency")
		assert.Empty(t, service.Requests())

		fake.Must(client.Applications.CreateCustomer(lending.WithIdempotencyKey(t.Context(), strings.Repeat("ü", 128)),
			fake.Newcomer()))
		for _, r := range service.Requests() {
			assert.NotContains(t, fmt.Sprint(r.Header, r.Query, string(r.Body)), "ü", "a key is never sent")
		}
	})
	for _, test := range []struct {
		name string
		opts *idempotency.Options
	}{
		{"MaxLateness", &idempotency.Options{MaxLateness: -1}},
		{"KeepAnswers", &idempotency.Options{KeepAnswers: -1}},
		{"MaxAnswer", &idempotency.Options{MaxAnswer: -1}},
		{"SafeToRepeat must have constants of the type Route only", &idempotency.Options{
			SafeToRepeat: []idempotency.Route{idempotency.SendLink, "POST /api/Loan/confirm-withdrawal-invoice/{loanId}"},
		}},
		{"Formerly", &idempotency.Options{Formerly: []idempotency.Account{{Name: "acme", Username: "ada"}}}},
		{"Formerly", &idempotency.Options{Formerly: []idempotency.Account{{BaseURL: "lending.example"}}}},
		{"Formerly", &idempotency.Options{Formerly: []idempotency.Account{{}}}},
		{"Namespace", &idempotency.Options{Namespace: "a:b"}},
		{"Namespace", &idempotency.Options{Namespace: strings.Repeat("n", 65)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := idempotency.NewLog(store.NewMemory(), test.opts)
			require.ErrorContains(t, err, test.name)
		})
	}
	_, err := idempotency.NewLog(store.NewMemory(), &idempotency.Options{
		Formerly: []idempotency.Account{
			{BaseURL: "https://old.example/", Username: "api-7"},
			{BaseURL: "https://new.example/", Username: "api-7"},
		},
	})
	require.NoError(t, err)
	_, err = idempotency.NewLog(nil, nil)
	require.ErrorAs(t, err, new(*lending.ArgumentError))
	_, err = lending.New("https://lending.example", lending.WithIdempotency((*idempotency.Log)(nil)))
	require.ErrorAs(t, err, new(*lending.ArgumentError))
	for _, log := range []*idempotency.Log{nil, {}} {
		_, err := log.Keys(t.Context(), doubtful)
		require.ErrorAs(t, err, new(*lending.ArgumentError))
		_, err = log.Sweep(t.Context())
		require.ErrorAs(t, err, new(*lending.ArgumentError))
		require.ErrorAs(t, log.Resolve(t.Context(), "k", idempotency.Resolution{}), new(*lending.ArgumentError))
	}
}

func TestKeyIsForOneRoute(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		client, added := process(), service.AddApplication(lendingtest.Application{})
		id := lending.ApplicationID(uuid.MustParse(added.ID))
		ctx := lending.WithIdempotencyKey(t.Context(), "cancel")
		require.NoError(t, client.Applications.Cancel(ctx, id))
		_, err := client.Applications.Process(ctx, id) // which has the same arguments
		require.ErrorIs(t, err, idempotency.ErrKeyReused)
		var failed *lending.Error
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, "Applications.Status", failed.CheckWith, "of the cancellation")
	})
}

// TestReusedKeyTellsTheOutcome calls with the key of another request, for every state
// of the entry: the outcome must not be "not sent", after which a caller takes a new key, of a mutation that
// happened.
func TestReusedKeyTellsTheOutcome(t *testing.T) {
	unknown := lending.ErrOutcomeUnknown
	lost := lendingtest.Fault{ResetAfter: true}
	for _, test := range []struct {
		name    string
		fault   lendingtest.Fault
		first   error
		then    func(ctx context.Context, log *idempotency.Log, again func() error) error // happens before
		state   store.State
		outcome lending.Outcome
	}{
		{"done", lendingtest.Fault{}, nil, nil, store.Done, lending.OutcomeDone},
		{"forgotten", lendingtest.Fault{}, nil, func(ctx context.Context, log *idempotency.Log, _ func() error) error {
			bubble.Elapse(31 * 24 * time.Hour)
			_, err := log.Sweep(ctx)
			return err
		}, store.Forgotten, lending.OutcomeDone},
		{"in doubt", lost, lending.ErrOutcomeUnknown, nil, store.InDoubt, lending.OutcomeUnknown},
		{"needs review", lost, unknown, func(_ context.Context, _ *idempotency.Log, again func() error) error {
			if err := again(); !assert.ErrorIs(t, err, idempotency.ErrNeedsReview) {
				return err
			}
			return nil
		}, store.NeedsReview, lending.OutcomeUnknown},
		{"not happened", lost, unknown, func(ctx context.Context, log *idempotency.Log, _ func() error) error {
			bubble.Elapse(maxLateness)
			return log.Resolve(ctx, "the/key", says(idempotency.NotHappened()))
		}, store.Free, lending.OutcomeNotSent},
	} {
		t.Run(test.name, func(t *testing.T) {
			withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
				o, log := newOrder(service), fake.Must(idempotency.NewLog(entries, nil))
				ctx := lending.WithIdempotencyKey(t.Context(), "the/key")
				send := func() error { return client.Applications.SendLink(ctx, o.application) }
				if test.first != nil {
					service.Fail(linkRoute, test.fault)
				}
				require.ErrorIs(t, send(), test.first)
				if test.then != nil {
					require.NoError(t, test.then(t.Context(), log, send))
				}
				require.Equal(t, test.state, fake.Must(entries.Load(t.Context(), ":the/key")).State)
				err := client.Applications.SendLink(ctx, o.offered)
				require.ErrorIs(t, err, idempotency.ErrKeyReused)
				assert.Equal(t, test.outcome, lending.OutcomeOf(err))
				var failed *lending.Error
				require.ErrorAs(t, err, &failed)
				assert.Equal(t, test.outcome, failed.Outcome)
				assert.Contains(t, err.Error(), "call with the first request")
			})
		})
	}
}

// TestReusedKeyInFlight is TestReusedKeyTellsTheOutcome while the first request is in flight.
func TestReusedKeyInFlight(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		o, ctx := newOrder(service), lending.WithIdempotencyKey(t.Context(), "the/key")
		held, done := make(chan struct{}), make(chan error)
		service.Fail(linkRoute,
			lendingtest.Fault{Reached: func() { close(held) }, DelayBefore: time.Second})
		client, other := process(), process()
		go func() { done <- client.Applications.SendLink(ctx, o.application) }()
		<-held
		err := other.Applications.SendLink(ctx, o.offered)
		require.ErrorIs(t, err, idempotency.ErrKeyReused)
		assert.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(err))
		require.NoError(t, <-done)
	})
}

// issued is a source with another token of the same account in every call.
type issued struct {
	service  *lendingtest.Service
	username string
}

func (i issued) Token(context.Context) (lending.Token, error) {
	return lending.Token{Value: lending.NewSecret(i.service.Token(i.username))}, nil
}

// TestKeyIsForOneAccount has two clients share one store: the second gets the recorded answer if
// it is a client of the same service and account, and an error of its own if it is not.
func TestKeyIsForOneAccount(t *testing.T) {
	const other, password = "grace@example.com", "Grace-Pass-1"
	type options = []lending.Option
	type tokens = [2]string // of an account
	signIn := func(username, password string) func(*lendingtest.Service, tokens) options {
		credentials := lending.Credentials{Username: username, Password: lending.NewSecret(password)}
		return func(*lendingtest.Service, tokens) options { return options{lending.WithCredentials(credentials)} }
	}
	ada := signIn(lendingtest.AdministratorUsername, lendingtest.AdministratorPassword)
	static := func(i int) func(*lendingtest.Service, tokens) options {
		return func(_ *lendingtest.Service, of tokens) options {
			return options{lending.WithTokenSource(lending.StaticToken(of[i]))}
		}
	}
	named := func(of func(*lendingtest.Service, tokens) options, name string) func(*lendingtest.Service, tokens) options {
		return func(s *lendingtest.Service, issued tokens) options {
			return append(of(s, issued), lending.WithAccount(name))
		}
	}
	rotating := func(s *lendingtest.Service, _ tokens) options {
		return options{lending.WithTokenSource(issued{s, lendingtest.Username})}
	}
	for _, test := range []struct {
		name          string
		first, second func(*lendingtest.Service, tokens) options
		address       string // of the second
		same          bool
		formerly      []idempotency.Account
	}{
		{"another process", ada, ada, "https://lending.example", true, nil},
		{"the same service, written otherwise", ada, ada, "https://LENDING.example:443/", true, nil},
		{"another service", ada, ada, "https://sandbox.lending.example", false, nil},
		{"another path", ada, ada, "https://lending.example/sandbox", false, nil},
		{"another account", ada, signIn(other, password), "https://lending.example", false, nil},
		{"the same static token", static(0), static(0), "https://lending.example", true, nil},
		{"a new static token", static(0), static(1), "https://lending.example", true, nil},
		{"a source that rotates its token", rotating, rotating, "https://lending.example", true, nil},
		{"another service of a source", rotating, rotating, "https://sandbox.lending.example", false, nil},
		{"a name, and another address", named(ada, "acme"), named(ada, "acme"), "https://moved.example", true, nil},
		{"another name", named(ada, "acme"), named(ada, "sandbox"), "https://lending.example", false, nil},
		{"a declared move", ada, ada, "https://moved.example", true, []idempotency.Account{{
			BaseURL: "https://lending.example/", Username: lendingtest.AdministratorUsername,
		}}},
		{"a declared user and source", ada, rotating, "https://lending.example", true, []idempotency.Account{
			{BaseURL: "https://lending.example", Username: lendingtest.AdministratorUsername},
		}},
		{"a declared source", rotating, ada, "https://moved.example", true, []idempotency.Account{
			{BaseURL: "https://lending.example"},
		}},
		{"a first name", ada, named(ada, "acme"), "https://lending.example", true, []idempotency.Account{
			{Name: "older"}, {BaseURL: "https://lending.example", Username: lendingtest.AdministratorUsername},
		}},
		{"a new name", named(ada, "acme"), named(ada, "acme-2"), "https://lending.example", true, []idempotency.Account{
			{Name: "acme"},
		}},
		{"a move of another account", ada, ada, "https://moved.example", false, []idempotency.Account{{
			BaseURL: "https://lending.example", Username: other,
		}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := lendingtest.New()
				service.AddAccount(lendingtest.Account{Username: other, Password: password})
				defer service.Close()
				entries := store.NewMemory()
				client := func(address string, opts options, formerly []idempotency.Account) *lending.Client {
					return wire.NewClient(t, address, append(options{
						lending.WithHTTPClient(&http.Client{Transport: service.Transport()}),
						lending.WithIdempotency(fake.Must(idempotency.NewLog(entries, &idempotency.Options{Formerly: formerly}))),
					}, opts...)...)
				}
				of := tokens{service.Token(lendingtest.Username), service.Token(lendingtest.Username)}
				user, ctx := fake.Newcomer(), lending.WithIdempotencyKey(t.Context(), "the/key")
				first := client("https://lending.example", test.first(service, of), nil)
				fake.Must(first.Applications.CreateCustomer(ctx, user))
				entry := fake.Must(entries.Load(t.Context(), ":the/key"))
				assert.NotContains(t, string(entry.Data), lendingtest.AdministratorUsername)
				assert.NotContains(t, string(entry.Data), of[0])
				second := client(test.address, test.second(service, of), test.formerly)
				customer, err := second.Applications.CreateCustomer(ctx, user)
				assert.Equal(t, 1, service.Executed(fake.CreateRoute))
				if test.same {
					require.NoError(t, err)
					return
				}
				require.ErrorIs(t, err, idempotency.ErrOtherAccount)
				assert.Nil(t, customer)
				assert.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(err))
			})
		})
	}
}

// TestDoubtIsEndedAfterAMove loses the responses of two applications, and the service then has another
// address. The first doubt is checked at the new address, and a person ends the second.
func TestDoubtIsEndedAfterAMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := lendingtest.New()
		defer service.Close()
		o, entries := newOrder(service), store.NewMemory()
		credentials := fake.Credentials(&lendingtest.Server{Service: service})
		clientAt := func(address string, log *idempotency.Log) *lending.Client {
			return wire.NewClient(t, address, lending.WithHTTPClient(&http.Client{Transport: service.Transport()}),
				lending.WithCredentials(credentials), lending.WithIdempotency(log))
		}
		link := func(client *lending.Client) error {
			return client.Applications.SendLink(lending.WithIdempotencyKey(t.Context(), "link"), o.application)
		}
		before := clientAt("https://lending.example", fake.Must(idempotency.NewLog(entries, nil)))
		service.Fail(createApplicationRoute, lendingtest.Fault{ResetAfter: true})
		service.Fail(linkRoute, lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(t, o.creates(t, before)("create"), lending.ErrOutcomeUnknown)
		require.ErrorIs(t, link(before), lending.ErrOutcomeUnknown)

		log := fake.Must(idempotency.NewLog(entries, &idempotency.Options{Formerly: []idempotency.Account{{
			BaseURL: "https://lending.example", Username: credentials.Username,
		}}}))
		after := clientAt("https://moved.example", log)
		bubble.Elapse(maxLateness)
		require.ErrorIs(t, link(after), idempotency.ErrNeedsReview)
		err := log.Resolve(t.Context(), "create", says(idempotency.NotHappened()))
		require.Equal(t, "Verdict conflict", catalog.Refused(t, err), "the check at the new address shows the application")
		fake.Must(log.Check(t.Context(), after))
		require.NoError(t, o.creates(t, after)("create"))
		require.NoError(t, log.Resolve(t.Context(), "link", says(idempotency.NotHappened())))
		require.NoError(t, link(after))
		present := fake.Must(idempotency.NewLog(entries, nil))
		require.NoError(t, link(clientAt("https://moved.example", present)), "the key has taken the account")
		assert.Equal(t, 1, service.Executed(createApplicationRoute))

		other := clientAt("https://other.example", log)
		require.ErrorIs(t, o.creates(t, other)("create"), idempotency.ErrOtherAccount)
		require.ErrorIs(t, o.creates(t, other)("new"), idempotency.ErrOtherAccount, "the log serves one account")
		_, err = log.Check(t.Context(), other)
		assert.Equal(t, "client conflict", catalog.Refused(t, err))
	})
}

// TestFormerAccountHasOneHeir has two accounts that list the same former account, each with a service of its own, and
// use a key of the former account at once. One of them takes over all keys, also after a restore.
func TestFormerAccountHasOneHeir(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		user, entries := fake.Ada(), &tampered{Store: store.NewMemory(), load: func(string) error {
			bubble.Elapse(time.Millisecond) // the turn of the other account
			return nil
		}}
		services := [2]*lendingtest.Service{lendingtest.New(), lendingtest.New()}
		var logs [2]*idempotency.Log
		var clients [2]*lending.Client
		start := func() {
			for i, service := range services {
				logs[i] = fake.Must(idempotency.NewLog(entries, &idempotency.Options{Formerly: []idempotency.Account{{Name: "A"}}}))
				clients[i] = processWith(t, service, logs[i], lending.WithAccount(fmt.Sprint("heir-", i)))
			}
		}
		former := processWith(t, services[0], fake.Must(idempotency.NewLog(entries, nil)), lending.WithAccount("A"))
		o := newOrder(services[0])
		require.NoError(t, creation(t, former, user)("customer"))
		services[0].Fail(createApplicationRoute, lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(t, o.creates(t, former)("application"), lending.ErrOutcomeUnknown)
		bubble.Elapse(maxLateness)

		start()
		call := func(i int) error { return creation(t, clients[i], user)("customer") }
		var errs [2]error
		var calls sync.WaitGroup
		for i := range errs {
			calls.Go(func() { errs[i] = call(i) })
		}
		calls.Wait()
		require.NotEqual(t, errs[0] == nil, errs[1] == nil)
		first, second := 0, 1
		if errs[0] != nil {
			first, second = 1, 0
		}
		for range 2 {
			require.NoError(t, call(first))
			err := call(second)
			require.ErrorIs(t, err, idempotency.ErrOtherAccount)
			require.ErrorContains(t, err, "Options.Formerly lists an account whose keys belong to an account that")
			require.ErrorIs(t, o.creates(t, clients[second])("application"), idempotency.ErrOtherAccount)
			sent := len(services[second].Requests())
			fake.Must(logs[second].Check(t.Context(), clients[second]))
			assert.Len(t, services[second].Requests(), sent, "no check at the other service")
			assert.Equal(t, store.InDoubt, fake.Must(logs[second].Lookup(t.Context(), "application")).State)
			restored(t, logs[second], copyOfAnHourAgo())
			start()
			bubble.Elapse(time.Second)
		}
		for _, service := range services {
			service.Close()
		}
	})
}

// TestFormerAccountsHaveOneOwner has accounts that list former accounts with keys, each question in a new process.
func TestFormerAccountsHaveOneOwner(t *testing.T) {
	type question struct {
		account, formerly, owner string // accounts of one letter
		want                     error
	}
	other := idempotency.ErrOtherAccount
	for _, test := range []struct {
		name      string
		questions []question
	}{
		{"two list the same two", []question{
			{"C", "AB", "A", nil},
			{"D", "AB", "A", other},
			{"D", "AB", "B", other},
			{"C", "AB", "B", nil},
			{"D", "B", "B", other},
		}},
		{"two share one of two", []question{
			{"C", "A", "A", nil},
			{"D", "AB", "B", other},
			{"D", "B", "B", nil},
			{"C", "AB", "B", other},
			{"D", "AB", "A", other},
		}},
		{"a chain", []question{{"B", "A", "A", nil}, {"C", "AB", "A", nil}, {"D", "AB", "A", other}, {"B", "A", "A", nil}}},
		{"the other end of a chain", []question{
			{"B", "A", "A", nil}, {"D", "AB", "B", nil}, {"C", "AB", "A", other}, {"C", "ABD", "A", nil},
		}},
		{"replicas that also list the next account", []question{
			{"B", "ABC", "A", nil},
			{"D", "AB", "A", other},
			{"C", "ABC", "B", nil},
			{"B", "ABC", "C", nil},
			{"C", "ABZ", "Z", nil},
			{"C", "AB", "A", nil},
			{"E", "ABCZ", "A", nil},
		}},
		{"a list that lacks an account of the chain", []question{
			{"B", "A", "A", nil}, {"C", "B", "B", other}, {"C", "AB", "B", nil}, {"C", "B", "B", nil},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service, entries := lendingtest.New(), store.NewMemory()
				defer service.Close()
				o := newOrder(service)
				ask := func(i int, account, formerly, owner string) error {
					opts := new(idempotency.Options)
					for _, former := range formerly {
						opts.Formerly = append(opts.Formerly, idempotency.Account{Name: string(former)})
					}
					client := processWith(t, service, fake.Must(idempotency.NewLog(entries, opts)), lending.WithAccount(account))
					return o.creates(t, client)(fmt.Sprint(owner, i))
				}
				for i, q := range test.questions {
					require.NoError(t, ask(i, q.owner, "", q.owner))
				}
				created := service.Executed(createApplicationRoute)
				for i, q := range test.questions {
					before, _ := entries.Load(t.Context(), "!standing")
					require.ErrorIs(t, ask(i, q.account, q.formerly, q.owner), q.want, i)
					if q.want != nil {
						assert.Equal(t, before, fake.Must(entries.Load(t.Context(), "!standing")), "refused without a save")
					}
				}
				assert.Equal(t, created, service.Executed(createApplicationRoute))
			})
		})
	}
}
