package lendingtest

import (
	"net/http"
	"strings"
	"time"
)

// The accounts that every service starts with. The first is a partner's and has
// two-factor sign-in switched on; the second administers webhooks and has not.
const (
	Username           = "partner@example.com"                  // the partner's account
	Password           = "Partner-Pass-1"                       // the partner's password
	TrustedDeviceToken = "trusted-device-1"                     // skips the partner's second factor
	PartnerID          = "00000001-0a0a-4000-8000-000000000001" // the partner that the account belongs to

	AdministratorUsername = "admin@example.com" // the administrator's account
	AdministratorPassword = "Admin-Pass-1"      // the administrator's password
)

// Account is somebody who may sign in.
type Account struct {
	Username string `json:"username"`
	Password string `json:"password"`
	// TwoFactor makes a login send a code and return no token.
	TwoFactor bool `json:"twoFactor"`
	// TrustedDeviceToken skips the second factor when the login carries it.
	TrustedDeviceToken string `json:"trustedDeviceToken"`
	// Administrator opens the administrators' routes, and every partner's records.
	Administrator bool `json:"administrator"`
	// PartnerID is the partner the account belongs to. It may use no other one.
	PartnerID string `json:"partnerId"`
}

// Option changes how a service behaves from the start.
type Option func(*config)

type config struct {
	tls, http2     bool
	basePath       string
	clock          func() time.Time
	tokenLifetime  time.Duration
	offerLifetime  time.Duration
	accounts       []Account
	seed           uint32
	requestLog     func(Request)
	loopback       bool
	receivers      []string
	readLag        time.Duration
	deliveryClient *http.Client
	restore        *Snapshot
	controlToken   string
	shapes         map[string]*shape // by route
}

func defaultConfig() config {
	return config{
		clock:         time.Now,
		tokenLifetime: time.Hour,
		offerLifetime: 30 * 24 * time.Hour,
		seed:          1,
		accounts: []Account{
			{Username: Username, Password: Password, TwoFactor: true, TrustedDeviceToken: TrustedDeviceToken, PartnerID: PartnerID},
			{Username: AdministratorUsername, Password: AdministratorPassword, Administrator: true},
		},
	}
}

// WithTLS makes [NewServer] serve https. [Server.Client] trusts its certificate.
func WithTLS() Option { return func(c *config) { c.tls = true } }

// WithHTTP2 makes [NewServer] serve https with HTTP/2.
func WithHTTP2() Option { return func(c *config) { c.tls, c.http2 = true, true } }

// WithBasePath puts the service below a path such as "/lending". Everything
// outside is answered with 404 and counted by [Service.Outside].
func WithBasePath(prefix string) Option {
	return func(c *config) {
		if c.basePath = strings.Trim(prefix, "/"); c.basePath != "" {
			c.basePath = "/" + c.basePath
		}
	}
}

// WithClock replaces time.Now. [Service.Advance] adds to whatever it says.
func WithClock(now func() time.Time) Option { return func(c *config) { c.clock = now } }

// WithTokenLifetime sets how long a token lives; an hour unless told.
func WithTokenLifetime(d time.Duration) Option { return func(c *config) { c.tokenLifetime = d } }

// WithOfferLifetime sets how long an offer lives; thirty days unless told.
func WithOfferLifetime(d time.Duration) Option { return func(c *config) { c.offerLifetime = d } }

// WithAccount adds an account, or replaces the one of the same user name.
func WithAccount(a Account) Option {
	return func(c *config) { c.accounts = append(c.accounts, a) }
}

// WithSeed changes the first part of every identifier, and the codes, so that
// two services hand out different ones. The same seed gives the same sequence.
func WithSeed(seed uint32) Option { return func(c *config) { c.seed = seed } }

// WithRequestLog calls f for every request, just before its answer goes out.
func WithRequestLog(f func(Request)) Option { return func(c *config) { c.requestLog = f } }

// WithLoopbackReceivers also accepts webhook receivers at http on a loopback
// host, which the service itself refuses. Package lending sends such an address
// only to a service that is on a loopback host, too, as that of [NewServer] is.
// Without this option give [WithDeliveryClient] the client of an
// httptest.NewTLSServer.
func WithLoopbackReceivers() Option { return func(c *config) { c.loopback = true } }

// WithHTTPReceivers also accepts webhook receivers at http on these hosts, each a
// "host:port", for example that of a container beside the sandbox.
func WithHTTPReceivers(hostPorts ...string) Option {
	return func(c *config) { c.receivers = append(c.receivers, hostPorts...) }
}

// WithDeliveryClient posts webhook deliveries through client: one that trusts a
// test receiver's certificate, or that reaches a handler without sockets.
func WithDeliveryClient(client *http.Client) Option {
	return func(c *config) { c.deliveryClient = client }
}
