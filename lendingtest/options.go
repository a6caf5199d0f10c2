package lendingtest

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/internal/assumption"
	"github.com/lendingapi/lending-go/lendingtest/internal/book"
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
	state          book.Config
	watch          func(r Request, late bool)
	tls, http2     bool
	basePath       string
	clock          func() time.Time
	loopback       bool
	receivers      []string
	deliveryClient *http.Client
	framework      map[string]string // facts
	known          reshape.Service
	onlySeen       bool
	hostZone       *time.Location
	decision       Decision
	delivery       DeliveryMode
}

func defaultConfig() config {
	return config{clock: time.Now, watch: func(Request, bool) {}, hostZone: time.FixedZone("", -8*60*60), state: book.Config{
		TokenLifetime: time.Hour,
		Seed:          1,
		Accounts: []Account{
			{
				Username: Username, Password: Password, TwoFactor: true, TrustedDeviceToken: TrustedDeviceToken,
				PartnerID: PartnerID, AgentID: AgentID,
			},
			{Username: AdministratorUsername, Password: AdministratorPassword, Administrator: true},
		},
	}}
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
func WithTokenLifetime(d time.Duration) Option { return func(c *config) { c.state.TokenLifetime = d } }

// WithSeed sets the first part of every identifier and changes the codes, so that two services
// return different values. The same seed gives the same values.
func WithSeed(seed uint32) Option { return func(c *config) { c.state.Seed = seed } }

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

// WithHostZone sets the time zone of the host, eight hours behind UTC by default. A date of the query with a zone is
// converted to this zone, as by ASP.NET Core before 5.0: the midnight of UTC is the day before. A date without a
// zone stays. [time.UTC] is for a host in UTC.
func WithHostZone(zone *time.Location) Option { return func(c *config) { c.hostZone = zone } }

// WithWatcher calls f for every request, just before its caller receives the response. If [Fault].Late executes a
// mutation after its caller has gone, WithWatcher calls f again, with late. f may call the service.
func WithWatcher(f func(r Request, late bool)) Option { return func(c *config) { c.watch = f } }

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
		c.state.ReadLag = nil
		if d > 0 {
			c.state.ReadLag = func(string) time.Duration { return d }
		}
	}
}

// WithService makes the service answer like the real service. learnt is a service.json of lending-probe.
// [Service.Assume] changes a single fact. Later options win, for example WithReadLag(0).
//
// Statuses, forms of absence, pages, words, times, the read lag of each kind of record, late execution, the life of a token and
// the mode of webhooks are those of the file, and so is a closed connection of [NewServer]. The
// file does not choose the protocol: see [WithHTTP2]. To see that a caller has gone, a service with
// late executions holds each mutation for 10 milliseconds.
//
// A record of a learned route has the learned fields. The value is the service's own value if
// the name matches and the type fits, otherwise an invented value of the right type, which is the
// same at each read. Fields that this package has invented and no response has shown are omitted;
// published fields stay. Fields are missing or null as often as in the real responses. A date in
// another form than ISO 8601 is learned as a text.
//
// [New] panics if learnt is no service.json, of a newer version, or has a fact that lending-probe does not write.
func WithService(learnt []byte) Option {
	known, err := reshape.Read(learnt)
	if err == nil {
		err = checkFacts(known.Facts)
	}
	return func(c *config) {
		if err != nil {
			panic("lendingtest: " + err.Error())
		}
		c.known = known
		c.state.ReadLag, c.decision.After = known.Lags()
		c.state.TokenLifetime = cmp.Or(known.Duration(assumption.TokenLife), c.state.TokenLifetime)
		c.delivery = DeliveryMode{Reverse: known.Facts[assumption.WebhookOrder] == assumption.AnotherOrder}
		if known.Facts[assumption.WebhookSignature] == assumption.NotValid {
			c.delivery.Secret = "not the secret"
		}
		if delay := known.Duration(assumption.WebhookDelay); delay > 0 {
			c.delivery.Delay = delay + time.Second // lending-probe ignores a second
		}
		if known.Facts[assumption.WebhookCopies] == assumption.Some {
			c.delivery.Copies = 1
		}
		if known.Facts[assumption.WebhookRetry] == assumption.DeliveredAgain {
			c.delivery.Retries = 1
		}
	}
}

// WithFramework gives refusals the forms of ASP.NET Core, "2.3" or "10", in place of the service's own record: fields are a
// dictionary with names of C#, a missing record is an empty 404 (2.3) or a record without error code (10), and the other
// refusals are empty. A failed business operation keeps the service's record, and "" is the service's record for all. The
// facts of [WithService] win, and [Service.Assume] changes a single form. [New] panics if the generation is unknown.
func WithFramework(generation string) Option {
	return func(c *config) {
		if c.framework = frameworks[generation]; c.framework == nil {
			panic(fmt.Sprintf("lendingtest: no framework %q; WithFramework takes 2.3 and 10", generation))
		}
	}
}

// frameworks are the facts about the forms of refusals, by the generation of ASP.NET Core.
var frameworks = map[string]map[string]string{
	"": {},
	"2.3": {
		assumption.Absence: "404 " + assumption.Empty, assumption.Gateway: "404 " + assumption.Empty, assumption.ProblemRecord: assumption.Empty,
		assumption.ProblemRecord + ": 400": "application/json " + assumption.FormArray + ", application/json " + assumption.FormBareDictionary,
	},
	"10": {
		assumption.Absence: "404 " + assumption.Problem, assumption.Gateway: "404 " + assumption.Empty, assumption.ProblemRecord: assumption.Empty,
		assumption.ProblemRecord + ": 400": "application/json " + assumption.FormArray + ", application/problem+json " + assumption.FormDictionary,
		assumption.ProblemRecord + ": 404": "application/problem+json " + assumption.FormRecord,
		assumption.ProblemRecord + ": 415": "application/problem+json " + assumption.FormRecord,
	},
}

// OnlySeen refuses to answer from an assumption. If no service.json of [WithService] has shown the rule
// or the fields of a response, the response is a 501 that names the assumption and how to measure it. A
// mutation has run nevertheless. Without OnlySeen, [Request] names the assumption.
func OnlySeen() Option { return func(c *config) { c.onlySeen = true } }
