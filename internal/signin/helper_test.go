package signin_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/leak"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

func TestMain(m *testing.M) { leak.Main(m) }

// runInBubble runs a subtest with a service, on fake time.
func runInBubble(t *testing.T, name string, test func(*testing.T, *lendingtest.Service), opts ...lendingtest.Option) {
	t.Helper()
	t.Run(name, func(t *testing.T) { fake.InBubble(t, test, opts...) })
}

// hookedStore calls a function before each step of a store, which fails if that does, and notes what is
// saved and for how long leases are asked.
type hookedStore struct {
	lending.TokenStore
	hook atomic.Pointer[func(ctx context.Context, step string) error]

	mu      sync.Mutex
	saved   []lending.StoredToken
	longest time.Duration // of the leases
}

func newHookedStore() *hookedStore {
	return &hookedStore{TokenStore: lending.NewMemoryTokenStore()}
}

// withStore runs test on fake time, with a client that uses the store.
func withStore(
	t *testing.T, test func(*testing.T, *lendingtest.Service, *hookedStore, *lending.Client), opts ...lendingtest.Option,
) {
	t.Helper()
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store := newHookedStore()
		test(t, service, store, fake.SignIn(t, service, nil, lending.WithTokenStore(store)))
	}, opts...)
}

// twoReplicas returns two clients that share a store.
func twoReplicas(t *testing.T, service *lendingtest.Service, change func(*lending.Credentials)) (a, b *lending.Client) {
	t.Helper()
	store := lending.WithTokenStore(lending.NewMemoryTokenStore())
	return fake.SignIn(t, service, change, store), fake.SignIn(t, service, change, store)
}

func (h *hookedStore) before(hook func(ctx context.Context, step string) error) {
	h.hook.Store(&hook)
}

// fail lets a step of the store fail with err, or for "" each step, until err is nil.
func (h *hookedStore) fail(step string, err error) {
	if step == "" {
		h.before(func(context.Context, string) error { return err })
		return
	}
	h.at(step, func(context.Context) error { return err })
}

var errDown = errors.New("the store is down")

func (h *hookedStore) call(ctx context.Context, step string) error {
	if hook := h.hook.Load(); hook != nil && *hook != nil {
		return (*hook)(ctx, step)
	}
	return nil
}

func (h *hookedStore) Load(ctx context.Context) (lending.StoredToken, error) {
	if err := h.call(ctx, "load"); err != nil {
		return lending.StoredToken{}, err
	}
	return h.TokenStore.Load(ctx)
}

func (h *hookedStore) Save(ctx context.Context, token lending.StoredToken) error {
	if err := h.call(ctx, "save"); err != nil {
		return err
	}
	h.mu.Lock()
	h.saved = append(h.saved, token)
	h.mu.Unlock()
	return h.TokenStore.Save(ctx, token)
}

func (h *hookedStore) Acquire(ctx context.Context, owner string, ttl time.Duration) (int64, error) {
	if err := h.call(ctx, "acquire"); err != nil {
		return 0, err
	}
	h.mu.Lock()
	h.longest = max(h.longest, ttl)
	h.mu.Unlock()
	return h.TokenStore.Acquire(ctx, owner, ttl)
}

func (h *hookedStore) Release(ctx context.Context, owner string) error {
	if err := h.call(ctx, "release"); err != nil {
		return err
	}
	return h.TokenStore.Release(ctx, owner)
}

// at calls then before a step of the store.
func (h *hookedStore) at(step string, then func(ctx context.Context) error) {
	h.before(func(ctx context.Context, name string) error {
		if name == step {
			return then(ctx)
		}
		return nil
	})
}

// ahead moves times in a JSON object into the future.
func ahead(t *testing.T, text []byte, by time.Duration, names ...string) []byte {
	t.Helper()
	var fields map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(text, &fields))
	for _, name := range names {
		var at time.Time
		require.NoError(t, json.Unmarshal(fields[name], &at))
		moved, err := json.Marshal(at.Add(by))
		require.NoError(t, err)
		fields[name] = moved
	}
	text, err := json.Marshal(fields)
	require.NoError(t, err)
	return text
}

// slowly lets each step of a store take a second, unless its context ends before.
func slowly(ctx context.Context, _ string) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Second):
		return nil
	}
}

// slowAnswers delivers the answers of sign-ins late.
type slowAnswers struct {
	http.RoundTripper
	late time.Duration
}

func (s slowAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.RoundTripper.RoundTrip(r)
	if strings.Contains(r.URL.Path, "/Authenication/") {
		bubble.Elapse(s.late)
	}
	return resp, err
}

func trusted(c *lending.Credentials) {
	c.TrustedDeviceToken = lending.NewSecret(lendingtest.TrustedDeviceToken)
}

func stored(fence int64, text string) lending.StoredToken {
	return lending.StoredToken{Fence: fence, Data: lending.NewSecret(text)}
}

func encrypted(t *testing.T, store lending.TokenStore, key byte) lending.TokenStore {
	t.Helper()
	sealed, err := lending.NewEncryptedTokenStore(store, bytes.Repeat([]byte{key}, 32))
	require.NoError(t, err)
	return sealed
}

func fileStore(t *testing.T, path string) lending.TokenStore {
	t.Helper()
	store, err := lending.NewFileTokenStore(path)
	require.NoError(t, err)
	return store
}

var partner = fake.Must(lending.ParsePartnerID(lendingtest.PartnerID))

const readRoute = "GET /api/Application/get-partner-applications/{partnerId}"

// read makes a call that needs a token.
func read(ctx context.Context, client *lending.Client) error {
	_, err := client.Applications.ListByPartner(ctx, partner, nil)
	return err
}

// takeToken asks the session and returns how long that took.
func takeToken(ctx context.Context, client *lending.Client) (lending.Token, time.Duration, error) {
	start := time.Now()
	got, err := client.Session().Token(ctx)
	return got, time.Since(start), err
}

// tokenIn asks the session for its token.
func tokenIn(t *testing.T, client *lending.Client) lending.Token {
	t.Helper()
	got, err := client.Session().Token(t.Context())
	require.NoError(t, err)
	return got
}

func withoutCallback(c *lending.Credentials) { c.TwoFactor = nil }

// scripted answers the sign-in routes with tokens of the test's own.
func scripted(service *lendingtest.Service, expires, refreshed string) {
	service.Answer(fake.LoginRoute,
		wire.Answer(http.StatusOK, fmt.Sprintf(`{"requiresTwoFactor":false,"token":"first","expiresUTC":%q}`, expires)))
	service.Answer(fake.RefreshRoute, wire.Answer(http.StatusOK, fmt.Sprintf("%q", refreshed)))
}

func jwt(claims string) string {
	return "eyJhbGciOiJIUzI1NiJ9." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2lnbmF0dXJl"
}
