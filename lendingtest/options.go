package lendingtest

import (
	"net/http"
	"strings"
	"time"
)

// Every service starts with two accounts. The first belongs to a partner and has a second
// factor. The second administers webhooks and has no second factor.
const (
	Username           = "partner@example.com"                  // the partner's account
	Password           = "Partner-Pass-1"                       // the partner's password
	TrustedDeviceToken = "trusted-device-1"                     // skips the partner's second factor
	PartnerID          = "00000001-0a0a-4000-8000-000000000001" // the partner of the account

	AdministratorUsername = "admin@example.com" // the administrator's account
	AdministratorPassword = "Admin-Pass-1"      // the administrator's password
)

// Account is an account for signing in.
type Account struct {
	Username string `json:"username"`
	Password string `json:"password"`
	// TwoFactor makes a login send a code instead of returning a token.
	TwoFactor bool `json:"twoFactor"`
	// TrustedDeviceToken lets a login with this token skip the second factor.
	TrustedDeviceToken string `json:"trustedDeviceToken"`
	// Administrator gives access to the administrators' routes and to the records of all
	// partners.
	Administrator bool `json:"administrator"`
	// PartnerID is the partner of the account. The account can use no other partner.
	PartnerID string `json:"partnerId"`
}

// Option is a setting of a service at its start.
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

// WithBasePath serves the routes below a path such as "/lending". Requests outside get a 404,
// and [Service.Outside] counts them.
func WithBasePath(prefix string) Option {
	return func(c *config) {
		if c.basePath = strings.Trim(prefix, "/"); c.basePath != "" {
			c.basePath = "/" + c.basePath
		}
	}
}

// WithClock replaces time.Now. [Service.Advance] adds to this clock.
func WithClock(now func() time.Time) Option { return func(c *config) { c.clock = now } }

// WithTokenLifetime sets the lifetime of tokens. The default is an hour.
func WithTokenLifetime(d time.Duration) Option { return func(c *config) { c.tokenLifetime = d } }

// WithOfferLifetime sets the lifetime of offers. The default is thirty days.
func WithOfferLifetime(d time.Duration) Option { return func(c *config) { c.offerLifetime = d } }

// WithAccount adds an account, or replaces the account with the same user name.
func WithAccount(a Account) Option {
	return func(c *config) { c.accounts = append(c.accounts, a) }
}

// WithSeed sets the first part of every identifier and changes the codes, so that two services
// return different values. The same seed gives the same values.
func WithSeed(seed uint32) Option { return func(c *config) { c.seed = seed } }

// WithRequestLog calls f for every request, just before its response is sent.
func WithRequestLog(f func(Request)) Option { return func(c *config) { c.requestLog = f } }

// WithLoopbackReceivers also accepts webhook receivers with http on a loopback host, which the
// real service rejects. Package lending registers such an address only if the service is on a
// loopback host too, for example with [NewServer]. The alternative is an httptest.NewTLSServer
// with its client in [WithDeliveryClient].
func WithLoopbackReceivers() Option { return func(c *config) { c.loopback = true } }

// WithHTTPReceivers also accepts webhook receivers with http on these hosts. Each is a
// "host:port", for example of another container.
func WithHTTPReceivers(hostPorts ...string) Option {
	return func(c *config) { c.receivers = append(c.receivers, hostPorts...) }
}

// WithDeliveryClient posts webhook deliveries with this client, for example a client that trusts
// the certificate of a test receiver, or that calls a handler without sockets.
func WithDeliveryClient(client *http.Client) Option {
	return func(c *config) { c.deliveryClient = client }
}
