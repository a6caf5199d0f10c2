package lendingtest

import (
	"net/http"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/lendingtest/internal/reshape"
)

// Every service starts with two accounts. The first belongs to a partner and has a second
// factor. The second administers webhooks and has no second factor.
const (
	Username           = "partner@example.com"                  // the partner's account
	Password           = "Partner-Pass-1"                       // the partner's password
	TrustedDeviceToken = "trusted-device-1"                     // skips the partner's second factor
	PartnerID          = "00000001-0a0a-4000-8000-000000000001" // the partner of the account
	AgentID            = "00000001-0a0b-4000-8000-000000000001" // the agent of the account

	AdministratorUsername = "admin@example.com" // the administrator's account
	AdministratorPassword = "Admin-Pass-1"      // the administrator's password
)

// Option is a setting of a service at its start.
type Option func(*config)

type config struct {
	tls, http2     bool
	basePath       string
	clock          func() time.Time
	tokenLifetime  time.Duration
	accounts       []Account
	seed           uint32
	loopback       bool
	receivers      []string
	readLag        func(kind string) time.Duration
	deliveryClient *http.Client
	shapes         reshape.Routes
	forbids        bool
}

func defaultConfig() config {
	return config{
		clock:         time.Now,
		tokenLifetime: time.Hour,
		seed:          1,
		accounts: []Account{
			{
				Username: Username, Password: Password, TwoFactor: true, TrustedDeviceToken: TrustedDeviceToken,
				PartnerID: PartnerID, AgentID: AgentID,
			},
			{Username: AdministratorUsername, Password: AdministratorPassword, Administrator: true},
		},
	}
}

// WithTLS makes [NewServer] serve https. [Server.Client] trusts its certificate.
func WithTLS() Option { return func(c *config) { c.tls = true } }

// WithHTTP2 makes [NewServer] serve https with HTTP/2.
func WithHTTP2() Option { return func(c *config) { c.tls, c.http2 = true, true } }

// WithBasePath serves the routes below a path such as "/lending". Requests outside get a 404.
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

// WithSeed sets the first part of every identifier and changes the codes, so that two services
// return different values. The same seed gives the same values.
func WithSeed(seed uint32) Option { return func(c *config) { c.seed = seed } }

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

// WithReadLag makes reads show a write only after d, like a service that reads from replicas.
// Until then a new record is not found and not listed, and a changed record has its old values.
//
// All GET routes lag that change nothing: customers, applications, offers, loans, their lists
// and webhook subscriptions. Mutations see every write at once, and so do the GETs that change
// state, including application-offer with force. Records that a test adds or updates are visible
// at once, together with all pending writes to the same record and its owners.
//
// The lag follows the service's clock: [Service.Advance] ends it.
func WithReadLag(d time.Duration) Option {
	return func(c *config) {
		c.readLag = nil
		if d > 0 {
			c.readLag = func(string) time.Duration { return d }
		}
	}
}

// WithForbiddenRecords answers 403 instead of 404 for the records of another partner. The interface
// publishes both statuses, and does not say which of the two a record has.
func WithForbiddenRecords() Option { return func(c *config) { c.forbids = true } }

// WithShapes makes the service answer with the fields of the real service. learnt is a service.json
// of lending-probe, or the JSON of a shapes.Seen, which package shapes learns from real responses.
//
// A record of a learned route has the learned fields. The value is the service's own value if
// the name matches and the type fits, otherwise an invented value of the right type. Fields that
// this package has invented and no response has shown are omitted; published fields stay. Fields
// are missing or null as often as in the real responses. A time has the fraction and the offset of
// a real time; a date in another form than ISO 8601 is learned as a text.
//
// An invented value is the same at each read of its record. The response of a sign-in is
// published and does not change. [New] panics if learnt is not JSON of package shapes.
func WithShapes(learnt []byte) Option {
	seen, err := reshape.Read(learnt)
	return func(c *config) {
		if err != nil {
			panic("lendingtest: not the JSON of a shapes.Seen: " + err.Error())
		}
		c.shapes = seen
	}
}
