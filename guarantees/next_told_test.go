package guarantees_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

// desk is a service, a client with a log, and the ids that its calls take.
type desk struct {
	*lendingtest.Service
	t           *testing.T
	ctx         context.Context
	entries     *failingStore
	log         *idempotency.Log
	client      *lending.Client
	application lending.ApplicationID
	customer    lending.CustomerID
}

type failingStore struct {
	store.Store
	err error
}

func (s *failingStore) Save(ctx context.Context, entry store.Entry) error {
	if s.err != nil {
		return s.err
	}
	return s.Store.Save(ctx, entry)
}

const (
	invoiceRoute = "POST /api/Calculation/application-invoice-calculation"

	nextCreate = "POST /api/Application/create-application"
	nextLink   = "POST /api/Application/send-application-link"
)

func newDesk(t *testing.T, service *lendingtest.Service) *desk {
	t.Helper()
	d := &desk{Service: service, t: t, ctx: t.Context(), entries: &failingStore{Store: store.NewMemory()}}
	d.log = fake.Must(idempotency.NewLog(d.entries, nil))
	customer := service.AddCustomer(lendingtest.Customer{Email: "next@example.com"}).ID
	d.customer = fake.Must(lending.ParseCustomerID(customer))
	application := service.AddApplication(lendingtest.Application{CustomerID: customer}).ID
	d.application = fake.Must(lending.ParseApplicationID(application))
	d.signIn(nil)
	return d
}

func (d *desk) signIn(change func(*lending.Credentials), opts ...lending.Option) {
	d.client = fake.SignIn(d.t, d.Service, change, append(opts, lending.WithIdempotency(d.log))...)
}

func (d *desk) create(key string) error {
	ctx := d.ctx
	if key != "" {
		ctx = lending.WithIdempotencyKey(ctx, key)
	}
	_, err := d.client.Applications.Create(ctx,
		lending.ApplicationRequest{CustomerID: d.customer, BusinessName: "Engines", BusinessZip: "94105"}, nil)
	return err
}

func (d *desk) sendLink(key string) error {
	return d.client.Applications.SendLink(lending.WithIdempotencyKey(d.ctx, key), d.application)
}

func (d *desk) status() error {
	_, err := d.client.Applications.Status(d.ctx, d.application)
	return err
}

// besideTheCallOf creates an application while a call with a key waits for its response.
func besideTheCallOf(key string) func(d *desk) error {
	return func(d *desk) error {
		d.Fail(nextCreate, lendingtest.Fault{DelayBefore: time.Minute})
		first := *d
		var stop context.CancelFunc
		first.ctx, stop = context.WithTimeout(d.ctx, 50*time.Second)
		go func() { defer stop(); _ = first.create(key) }()
		bubble.Elapse(20 * time.Second)
		err := d.create("k")
		assert.ErrorContains(d.t, err, "call again, the other call ends within 30s")
		return err
	}
}

// creating returns the error of a mutation with this fault, with a key and without.
func creating(key string, fault lendingtest.Fault) func(*desk) error {
	return func(d *desk) error {
		d.Fail(nextCreate, fault)
		return d.create(key)
	}
}

// reading returns the error of a read with this fault in every attempt.
func reading(fault lendingtest.Fault) func(*desk) error {
	return func(d *desk) error {
		fault.Times = -1
		d.Fail(fake.StatusRoute, fault)
		return d.status()
	}
}

func given(err error) func(*desk) error { return func(*desk) error { return err } }

type answersItself struct{ next lending.Next }

func (answersItself) Error() string        { return "it knows" }
func (e answersItself) Next() lending.Next { return e.next }

var errElsewhere = errors.New("the disk is full")

var (
	stop   = lending.Next{}
	retry  = lending.Next{Retry: true}
	person = lending.Next{Person: true}
	review = lending.Next{Retry: true, Person: true, After: 15 * time.Minute}
)

func after(wait time.Duration) lending.Next { return lending.Next{Retry: true, After: wait} }

// nextTests has every kind of error of the package and of its log. [TestEveryErrorHasANext]
// compares their types and sentinels with the source.
var nextTests = []struct {
	name, of string
	fails    func(*desk) error
	want     lending.Next
}{
	{"nothing", "", given(nil), stop},
	{"another package", "", given(errElsewhere), retry},
	{"canceled", "", given(context.Canceled), retry},
	{"deadline", "", given(fmt.Errorf("step: %w", context.DeadlineExceeded)), retry},
	{"an error that answers itself", "", given(fmt.Errorf("step: %w", answersItself{after(time.Hour)})), after(time.Hour)},

	{"argument", "ArgumentError", func(d *desk) error {
		_, err := d.client.Applications.Create(d.ctx, lending.ApplicationRequest{}, nil)
		return err
	}, stop},
	{"signature", "ErrSignature", given(lending.Verify("a", []byte("{}"), "sha256=00")), stop},
	{"panic", "PanicError", given(&lending.PanicError{Value: 1}), review},
	{"inactive", "ErrInactive", given(lending.ErrInactive), review},
	{"repeated page", "ErrRepeatedPage", given(&lending.PageError{Err: lending.ErrRepeatedPage}), retry},
	{"page of a rejected read", "PageError", func(d *desk) error {
		return &lending.PageError{Err: reading(lendingtest.Fault{Status: 403})(d)}
	}, stop},
	{"lease held", "ErrLeaseHeld", given(lending.ErrLeaseHeld), retry},
	{"fenced", "ErrFenced", given(lending.ErrFenced), retry},
	{"corrupt token", "ErrCorruptToken", given(lending.ErrCorruptToken), retry},

	{"read not found", "ErrNotFound", reading(lendingtest.Fault{Status: 404}), retry},
	{"read of nothing", "ErrNoContent", reading(lendingtest.Fault{Status: 204}), retry},
	{"read forbidden", "ErrForbidden", reading(lendingtest.Fault{Status: 403}), stop},
	{"read refused", "", reading(lendingtest.Fault{Status: 400}), retry}, // which may mean that there is no record
	{"read conflicts", "", reading(lendingtest.Fault{Status: 409}), stop},
	{"read overloaded", "", reading(lendingtest.Fault{Status: 503, RetryAfter: 2 * time.Hour}), after(2 * time.Hour)},
	{"read cut", "", reading(lendingtest.Fault{CutBody: 1}), retry},
	{"read too large", "ErrTooLarge", given(fmt.Errorf("read: %w", lending.ErrTooLarge)), stop},
	{"read that does not decode", "", func(d *desk) error {
		d.Answer(fake.ListRoute, wire.Answer(200, `7`))
		_, err := d.client.Applications.ListByCustomer(d.ctx, d.customer)
		return err
	}, retry},

	{"read refused, cut", "", reading(lendingtest.Fault{Status: 400, CutBody: 20}), retry},
	{"rejected", "", creating("", lendingtest.Fault{Status: 400}), stop},
	{"rejected, cut", "", creating("", lendingtest.Fault{Status: 400, CutBody: 20}), retry},
	{"rejected with a key, cut", "", creating("k", lendingtest.Fault{Status: 409, CutBody: -1}), retry},
	{"rejected by a gateway", "", creating("", lendingtest.Fault{
		Status: 403, ContentType: "text/html", Body: []byte("<h1>no</h1>"),
	}), person},
	{"rejected by a gateway, with a key", "", creating("k", lendingtest.Fault{
		Status: 403, ContentType: "text/html", Body: []byte("<h1>no</h1>"),
	}), after(30 * time.Second)},
	{"login refused, cut", "", func(d *desk) error {
		d.Fail(fake.LoginRoute, lendingtest.Fault{Status: 400, CutBody: 20})
		_, err := d.client.Auth.Login(d.ctx, lending.LoginRequest{Username: "nobody", Password: lending.NewSecret("wrong")})
		return err
	}, person},
	{"rejected with a key", "", creating("k", lendingtest.Fault{Status: 400}), stop},
	{"forbidden", "", creating("", lendingtest.Fault{Status: 403}), stop},
	{"not there", "", creating("", lendingtest.Fault{Status: 404}), stop},
	{"rejected for now", "", creating("", lendingtest.Fault{Status: 409, RetryAfter: time.Minute}), after(time.Minute)},
	{"token refused", "ErrUnauthorized", creating("", lendingtest.Fault{Status: 401}), retry},
	{
		"rate limited", "ErrRateLimited", creating("", lendingtest.Fault{Status: 429, RetryAfter: time.Second}),
		after(time.Second),
	},
	{"rate limited for an unknown time", "", creating("", lendingtest.Fault{Status: 429}), retry},
	{"lost", "ErrMayHaveHappened", creating("", lendingtest.Fault{ResetAfter: true}), person},
	{"lost with a key", "", creating("k", lendingtest.Fault{ResetAfter: true}), retry},
	{"overloaded", "ErrOutcomeUnknown", creating("", lendingtest.Fault{Status: 503, RetryAfter: time.Minute}), person},
	{
		"overloaded with a key", "", creating("k", lendingtest.Fault{Status: 503, RetryAfter: time.Minute}),
		after(time.Minute),
	},
	{"cut", "", creating("", lendingtest.Fault{CutBody: 5}), person},
	{"cut with a key", "", creating("k", lendingtest.Fault{CutBody: 5}), retry},
	{"whole and unreadable with a key", "Error", func(d *desk) error {
		d.Answer(nextCreate, wire.Answer(200, `{"id": 7}`))
		return d.create("k")
	}, retry}, // the check of the next call finds the id
	{"record of a mutation that does not decode", "DecodeError", func(d *desk) error {
		d.Answer(invoiceRoute, wire.Answer(200, `{"count": "hush"}`))
		record := fake.Must(d.client.Calculation.Invoice(d.ctx, d.application, fake.Invoice()))
		return record.Decode(&struct{ Count int }{})
	}, person},
	{"a sentinel of an unknown outcome", "", given(fmt.Errorf("step: %w", lending.ErrMayHaveHappened)), person},

	{"another account's key", "ErrOtherAccount", func(d *desk) error {
		require.NoError(d.t, d.create("k"))
		d.signIn(func(c *lending.Credentials) {
			c.Username, c.Password = lendingtest.AdministratorUsername, lending.NewSecret(lendingtest.AdministratorPassword)
		})
		return d.create("k")
	}, review},
	{"another request's key", "ErrKeyReused", func(d *desk) error {
		require.NoError(d.t, d.create("k"))
		err := d.sendLink("k")
		assert.Equal(d.t, lending.OutcomeDone, lending.OutcomeOf(err), "of the first request")
		return err
	}, stop},
	{"erased", "ErrErased", func(d *desk) error {
		require.NoError(d.t, d.create("k"))
		bubble.Elapse(time.Hour)
		ids := slices.Collect(maps.Values(fake.Must(d.log.Lookup(d.ctx, "k")).IDs))
		require.Equal(d.t, 1, fake.Must(d.log.Erase(d.ctx, idempotency.Decision{By: "kim", Why: "request 4711"}, ids...)))
		return d.create("k")
	}, stop},
	{"in progress", "ErrInProgress", besideTheCallOf("k"), retry},
	{"locked by a call in flight", "ErrLocked", besideTheCallOf("another"), retry},
	{
		"in progress, nobody says for how long", "", given(fmt.Errorf("step: %w", idempotency.ErrInProgress)),
		after(time.Minute),
	},
	{"paused", "ErrPaused", func(d *desk) error {
		require.NoError(d.t, d.log.Pause(d.ctx, idempotency.Decision{By: "kim", Why: "an incident"}))
		bubble.Elapse(time.Second) // another call has looked a moment ago
		return d.create("k")
	}, after(time.Minute)},
	{"in doubt", "ErrInDoubt", func(d *desk) error {
		_ = creating("k", lendingtest.Fault{ResetBefore: true})(d)
		bubble.Elapse(time.Minute)
		return d.create("k")
	}, after(time.Minute)},
	{"in doubt, nobody says for how long", "", func(d *desk) error {
		_ = creating("k", lendingtest.Fault{ResetBefore: true})(d)
		d.Fail(fake.ListRoute, lendingtest.Fault{Status: http.StatusForbidden, Times: -1})
		return d.create("k")
	}, after(time.Second)},
	{"check before refused", "", func(d *desk) error {
		d.Fail(fake.ListRoute, lendingtest.Fault{Status: http.StatusForbidden, Times: -1})
		return d.create("k")
	}, stop},
	{"check before overloaded", "", func(d *desk) error {
		d.Fail(fake.ListRoute, lendingtest.Fault{Status: 503, RetryAfter: 2 * time.Hour, Times: -1})
		return d.create("k")
	}, after(2 * time.Hour)},
	{"resolved too early", "", func(d *desk) error {
		_ = creating("k", lendingtest.Fault{ResetBefore: true})(d)
		bubble.Elapse(3 * time.Minute)
		return d.log.Resolve(d.ctx, "k", idempotency.Resolution{
			By: "Grace", Why: "asked", Verdict: idempotency.NotHappened(),
		})
	}, after(2 * time.Minute)},
	{"locked", "ErrLocked", func(d *desk) error {
		_ = creating("k", lendingtest.Fault{ResetBefore: true})(d)
		return d.create("another")
	}, after(time.Second)},
	{"needs review", "ErrNeedsReview", func(d *desk) error {
		d.Fail(nextLink, lendingtest.Fault{ResetBefore: true})
		_ = d.sendLink("k")
		return d.sendLink("k")
	}, review},
	{"answer lost", "ErrAnswerLost", given(fmt.Errorf("step: %w", idempotency.ErrAnswerLost)), review},
	{"answer lost, and a read may find it", "ErrAnswerLost", func(d *desk) error {
		_ = creating("k", lendingtest.Fault{CutBody: 5})(d)
		d.Fail(fake.ListRoute, lendingtest.Fault{Status: 503, Times: -1})
		err := d.create("k")
		assert.ErrorIs(d.t, err, idempotency.ErrAnswerLost)
		return err
	}, after(time.Second)},
	{"store down", "ErrStore", func(d *desk) error {
		d.entries.err = errElsewhere
		return d.create("k")
	}, retry},
	{"done, and the store down", "", func(d *desk) error {
		d.Fail(nextCreate, lendingtest.Fault{Reached: func() { d.entries.err = errElsewhere }})
		err := d.create("k")
		assert.Equal(d.t, lending.OutcomeDone, lending.OutcomeOf(err))
		return err
	}, retry},

	{"sign-in refused", "", func(d *desk) error {
		d.signIn(func(c *lending.Credentials) { c.Password = lending.NewSecret("wrong") })
		return d.create("")
	}, lending.Next{Retry: true, Person: true, After: time.Minute}},
	{"sign-in paused", "", func(d *desk) error {
		d.signIn(func(c *lending.Credentials) { c.Password = lending.NewSecret("wrong") })
		_ = d.create("")
		bubble.Elapse(20 * time.Second)
		return d.create("k")
	}, lending.Next{Retry: true, Person: true, After: 40 * time.Second}},
	{"sign-in paused, of the session", "", func(d *desk) error {
		d.signIn(func(c *lending.Credentials) { c.Password = lending.NewSecret("wrong") })
		_ = d.create("")
		_, err := d.client.Session().Token(d.ctx)
		return err
	}, lending.Next{Retry: true, Person: true, After: time.Minute}},
	{"sign-in down", "", func(d *desk) error {
		d.Fail(fake.LoginRoute, lendingtest.Fault{Status: 502})
		return d.create("")
	}, after(time.Second)},
	{"code needed", "TwoFactorRequiredError", func(d *desk) error {
		d.signIn(func(c *lending.Credentials) { c.TwoFactor = nil })
		return d.status()
	}, lending.Next{Retry: true, Person: true, After: 5 * time.Minute}},
	{"no source of tokens", "ErrSignInRequired", func(d *desk) error {
		d.client = fake.Must(lending.New("https://lending.example"))
		return d.create("")
	}, review},
	{"login refused", "", func(d *desk) error {
		_, err := d.client.Auth.Login(d.ctx, lending.LoginRequest{Username: "nobody", Password: lending.NewSecret("wrong")})
		return err
	}, person},
	{"login lost", "", func(d *desk) error {
		d.Fail(fake.LoginRoute, lendingtest.Fault{ResetAfter: true})
		_, err := d.client.Auth.Login(d.ctx, lending.LoginRequest{Username: "nobody", Password: lending.NewSecret("wrong")})
		return err
	}, retry},

	{"joined: the longer wait", "", func(d *desk) error {
		return errors.Join(creating("k", lendingtest.Fault{Status: 429, RetryAfter: time.Minute})(d), errElsewhere)
	}, after(time.Minute)},
	{"joined: a stop", "", func(d *desk) error {
		return errors.Join(errElsewhere, creating("k", lendingtest.Fault{Status: 400})(d),
			reading(lendingtest.Fault{Status: 503, RetryAfter: 2 * time.Hour})(d))
	}, stop},
	{"joined: a person", "", func(d *desk) error {
		return fmt.Errorf("order: %w and %w",
			reading(lendingtest.Fault{Status: 404})(d), creating("", lendingtest.Fault{CutBody: 5})(d))
	}, person},
}

// TestNextOfEveryError holds the table in the documentation of [lending.NextOf].
func TestNextOfEveryError(t *testing.T) {
	for _, test := range nextTests {
		t.Run(test.name, func(t *testing.T) {
			fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
				err := test.fails(newDesk(t, service))
				next := lending.NextOf(err)
				assert.Equal(t, test.want, next, "%v", err)
				if err != nil {
					assert.Equal(t, next, lending.NextOf(fmt.Errorf("wrapped: %w", errors.Join(err))), "wrapped: %v", err)
				}
			})
		})
	}
}

// A read is not done, even if an error in its cause or a caller's error says so.
func TestReadIsNeverDone(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		d := newDesk(t, service)
		d.Answer(invoiceRoute, wire.Answer(200, `{"count": "hush"}`))
		client := d.client
		d.client = fake.Must(lending.New("http://127.0.0.1", lending.WithTokenSource(tokenFunc(func() (lending.Token, error) {
			record := fake.Must(client.Calculation.Invoice(d.ctx, d.application, fake.Invoice()))
			return lending.Token{}, record.Decode(&struct{ Count int }{})
		}))))
		err := d.status()
		require.Error(t, err)
		assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
		made := &lending.Error{Effect: lending.Read, Outcome: lending.OutcomeDone}
		assert.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(fmt.Errorf("read: %w", made)))
	})
}

type tokenFunc func() (lending.Token, error)

func (f tokenFunc) Token(context.Context) (lending.Token, error) { return f() }

// TestEveryErrorHasANext finds the exported errors in the source.
func TestEveryErrorHasANext(t *testing.T) {
	tested := map[string]bool{}
	for _, test := range nextTests {
		tested[test.of] = true
	}
	for _, pattern := range []string{"../*.go", "../idempotency/*.go"} {
		for _, file := range fake.Must(filepath.Glob(pattern)) {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed := fake.Must(parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution))
			for _, name := range exportedErrors(parsed) {
				assert.True(t, tested[name], "%s: %s", file, name)
			}
		}
	}
}

// exportedErrors returns the sentinels of a file, and its types with a method Error.
func exportedErrors(file *ast.File) (names []string) {
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.ValueSpec:
			for _, name := range node.Names {
				if strings.HasPrefix(name.Name, "Err") {
					names = append(names, name.Name)
				}
			}
		case *ast.FuncDecl:
			if node.Recv == nil || node.Name.Name != "Error" || len(node.Type.Params.List) > 0 {
				break
			}
			if of, ok := node.Recv.List[0].Type.(*ast.StarExpr); ok && ast.IsExported(fmt.Sprint(of.X)) {
				names = append(names, fmt.Sprint(of.X))
			}
		}
		return true
	})
	return names
}

func TestNextText(t *testing.T) {
	for _, test := range []struct {
		next lending.Next
		want string
	}{
		{stop, "stop"},
		{person, "person"},
		{retry, "retry"},
		{after(time.Minute), "retry after 1m0s"},
		{review, "person, retry after 15m0s"},
	} {
		t.Run(test.want, func(t *testing.T) { assert.Equal(t, test.want, test.next.String()) })
	}
}
