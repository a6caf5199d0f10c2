package webhook

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/backoff"
	"github.com/lendingapi/lending-go/internal/claimer"
	"github.com/lendingapi/lending-go/internal/opaque"
	"github.com/lendingapi/lending-go/internal/redact"
	"github.com/lendingapi/lending-go/internal/safely"
)

// ConsumerOptions change a [Consumer]. Zero fields mean the defaults.
type ConsumerOptions struct {
	Receiver ReceiverOptions
	Work     WorkOptions

	// Refresh is the time between two reads of the subscription and its secret; 10 min. After a
	// wrong signature Run reads them at once, at most once a minute. The previous secret stays
	// valid for an hour after a change.
	Refresh time.Duration
	// Sweep is called once a day, for example the method Sweep of an idempotency log. After a
	// failure it is called again a minute later.
	Sweep func(ctx context.Context) (int, error)
	// Check is called again and again, each time after the returned wait: the method Check of an
	// idempotency log.
	Check func(ctx context.Context, client *lending.Client) (next time.Duration, err error)
	// Audit is called like Check: the method AuditDaily of an idempotency log.
	Audit func(ctx context.Context, client *lending.Client) (next time.Duration, err error)
	// Shutdown is the time for requests in progress after the end of Run's context; 40 s.
	Shutdown time.Duration
	// Logger logs failures of the subscription, of Sweep, Check and Audit. Nil logs nothing.
	Logger *slog.Logger
}

// Consumer subscribes to the events of the service, receives them into an [Inbox] and handles
// them: the ordinary set-up of a program. As an [http.Handler], a Consumer is the receiver.
//
//	consumer, err := webhook.NewConsumer(client, target, subscription, inbox, handle, nil)
//	…
//	http.Handle("/webhooks", consumer)
//	err = consumer.Run(ctx, &http.Server{Addr: ":8080"})
type Consumer struct{ state opaque.Value[*consumer] }

type consumer struct {
	ConsumerOptions
	client       *lending.Client
	target       lending.WebhookTarget
	subscription lending.WebhookSubscription
	inbox        Inbox
	handle       EventFunc
	receiver     http.Handler
	wrong        chan struct{}               // signals a wrong signature
	subscribed   lending.WebhookSubscription // as Ensure has left it; only follow uses it

	mu       sync.Mutex
	secret   lending.Secret
	previous lending.Secret
	until    time.Time // the previous secret is valid
	off      error     // why the subscription sends nothing here
}

const (
	previousStays = time.Hour
	wrongPause    = time.Minute
)

var (
	errNotSubscribed = errors.New("lending/webhook: consumer: not subscribed yet; see the log of the consumer")
	errGone          = redact.Text("lending/webhook: consumer: the service has no subscription of the target; restart the program, which subscribes again")
	errElsewhere     = redact.Text("lending/webhook: consumer: the subscription has another address or other events; correct the program that changed it, then restart this one")
)

// NewConsumer returns a consumer of the target's events. [Consumer.Run] subscribes as
// [lending.WebhooksService.Ensure] does. NewConsumer fails if an argument is nil.
func NewConsumer(
	client *lending.Client, target lending.WebhookTarget, subscription lending.WebhookSubscription,
	inbox Inbox, handle EventFunc, opts *ConsumerOptions,
) (*Consumer, error) {
	if client == nil || inbox == nil || handle == nil {
		return nil, errors.New("lending/webhook: consumer: the client, the inbox or the EventFunc is nil")
	}
	c := &consumer{
		client: client, target: target, subscription: subscription, inbox: inbox, handle: handle,
		wrong: make(chan struct{}, 1), ConsumerOptions: *cmp.Or(opts, new(ConsumerOptions)),
	}
	claimer.SetDefault(&c.Refresh, 10*time.Minute)
	claimer.SetDefault(&c.Shutdown, 40*time.Second)
	observe := c.Receiver.Observe
	c.Receiver.Observe = func(d Delivery) {
		if errors.Is(d.Err, lending.ErrSignature) {
			select {
			case c.wrong <- struct{}{}:
			default:
			}
		}
		if observe != nil {
			observe(d)
		}
	}
	var err error
	c.receiver, err = NewReceiver(c.secrets, inbox.Put, &c.Receiver)
	return &Consumer{opaque.Hide(c)}, err
}

// ServeHTTP receives a delivery: see [NewReceiver]. Until Run has the secret of the
// subscription, the response is 500, and the service may send the event again.
func (c *Consumer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.state().receiver.ServeHTTP(w, r)
}

// Ready reports whether the consumer can accept events: the inbox is ready, the secret of the
// subscription is known, and the last read of the subscription has shown that it is switched on,
// with the address and the events of [NewConsumer].
func (c *Consumer) Ready(ctx context.Context) error {
	s := c.state()
	_, err := s.secrets(nil)
	s.mu.Lock()
	off := s.off
	s.mu.Unlock()
	if err := cmp.Or(err, off); err != nil {
		return err
	}
	return s.inbox.Ready(ctx)
}

// Run starts server, subscribes, handles events and sweeps until ctx ends. Then Run shuts down
// in order: it waits for requests in progress, then for calls of the EventFunc, and returns nil.
// Close the inbox and the client afterwards.
//
// If the subscription fails, Run tries again after 1 second, doubling up to 1 minute, and
// handles events from the inbox meanwhile. Run returns an error only if server cannot listen, or
// if the subscription is invalid: an [*lending.ArgumentError].
//
// A server whose TLSConfig has a certificate serves https; a server without one serves plain http, for
// example behind a proxy with the certificate.
//
// A server without ReadHeaderTimeout and ReadTimeout gets a ReadHeaderTimeout of 10 seconds. If
// server is nil, shut your own server down before you end ctx.
func (c *Consumer) Run(ctx context.Context, server *http.Server) error {
	s := c.state()
	ctx, end := context.WithCancel(ctx)
	defer end()
	failed := make(chan error, 2)
	fail := func(err error) {
		if err != nil {
			failed <- err
			end()
		}
	}
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var group sync.WaitGroup
	if server != nil {
		if server.ReadHeaderTimeout == 0 && server.ReadTimeout == 0 {
			server.ReadHeaderTimeout = 10 * time.Second
		}
		group.Go(func() {
			if err := listen(server); !errors.Is(err, http.ErrServerClosed) {
				fail(err)
			}
		})
	}
	group.Go(func() { Work(working, s.inbox, s.handle, &s.Work) })
	group.Go(func() { fail(s.follow(ctx)) })
	if s.Sweep != nil {
		group.Go(func() {
			s.again(ctx, "sweeping", func() (time.Duration, error) {
				if _, err := s.Sweep(ctx); err != nil {
					return 0, err
				}
				return 24 * time.Hour, nil
			})
		})
	}
	if s.Check != nil {
		group.Go(func() {
			s.again(ctx, "checking", func() (time.Duration, error) { return s.Check(ctx, s.client) })
		})
	}
	if s.Audit != nil {
		group.Go(func() {
			s.again(ctx, "auditing", func() (time.Duration, error) { return s.Audit(ctx, s.client) })
		})
	}
	<-ctx.Done()
	if server != nil {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Shutdown)
		defer cancel()
		_ = server.Shutdown(ending)
		_ = server.Close() // ends requests still in progress
	}
	stop()
	group.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// listen serves https if the server has a certificate.
func listen(server *http.Server) error {
	c := server.TLSConfig
	if c != nil && (len(c.Certificates) > 0 || c.GetCertificate != nil || c.GetConfigForClient != nil) {
		return server.ListenAndServeTLS("", "")
	}
	return server.ListenAndServe()
}

// follow subscribes, and reads the subscription regularly.
func (c *consumer) follow(ctx context.Context) error {
	err := c.untilDone(ctx, "subscribing", func() error {
		ensured, err := c.client.Webhooks.Ensure(ctx, c.target, c.subscription)
		if err == nil {
			c.subscribed = ensured.Subscription
			c.use(ensured.Subscription.Secret)
		}
		return err
	})
	read, wrong := time.Now(), time.Time{} // the last read, and the last after a wrong signature
	for err == nil {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Until(read.Add(c.Refresh))):
		case <-c.wrong: // a flood of forgeries causes no more reads
			_ = backoff.Sleep(ctx, time.Until(wrong.Add(min(wrongPause, c.Refresh))))
			wrong = time.Now()
		}
		read = time.Now()
		err = c.untilDone(ctx, "reading the subscription", func() error { return c.read(ctx) })
	}
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// read takes the secret of the subscription, and notes whether the subscription is switched on and
// leads here.
func (c *consumer) read(ctx context.Context) error {
	now, err := c.client.Webhooks.Subscription(ctx, c.target)
	var off error
	switch {
	case lending.IsNotFound(err):
		off = errGone
	case err != nil:
		return err
	case now.WebhookURI != c.subscribed.WebhookURI || !sameEvents(now.Webhooks, c.subscribed.Webhooks):
		off = errElsewhere
	case !now.IsActive:
		off = lending.ErrInactive
	}
	if off != nil {
		c.report(ctx, "the subscription sends nothing here", off)
	}
	if now != nil {
		c.use(now.Secret)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off = off
	return nil
}

func sameEvents(a, b []lending.EventName) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// untilDone calls do until it succeeds, ctx ends, or the subscription is invalid. An invalid password, token or
// header, which the next sign-in or call can correct, names the route of its call.
func (c *consumer) untilDone(ctx context.Context, doing string, do func() error) error {
	for failures := 1; ; failures++ {
		err := safely.Call[lending.PanicError](do) // an observer of the client may panic
		mistake, _ := errors.AsType[*lending.ArgumentError](err)
		if err == nil || mistake != nil && mistake.Route == "" || ctx.Err() != nil {
			return err
		}
		c.report(ctx, doing, err)
		_ = backoff.Sleep(ctx, backoff.Doubled(failures, time.Second, time.Minute))
	}
}

func (c *consumer) report(ctx context.Context, doing string, err error) {
	if c.Logger == nil {
		return
	}
	_ = safely.Call[lending.PanicError](func() error {
		c.Logger.LogAttrs(ctx, slog.LevelWarn, "lending/webhook: consumer: "+doing, slog.String("error", redact.Describe(err)))
		return nil
	})
}

// use takes the service's secret. An empty secret changes nothing.
func (c *consumer) use(secret lending.Secret) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if secret.IsZero() || secret.Reveal() == c.secret.Reveal() {
		return
	}
	c.previous, c.until = c.secret, time.Now().Add(previousStays)
	c.secret = secret
}

func (c *consumer) secrets(*http.Request) ([]lending.Secret, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.secret.IsZero():
		return nil, errNotSubscribed
	case !c.previous.IsZero() && time.Now().Before(c.until):
		return []lending.Secret{c.secret, c.previous}, nil
	}
	return []lending.Secret{c.secret}, nil
}

// again calls do until ctx ends, each time after the returned wait: after a failure a minute at least.
func (c *consumer) again(ctx context.Context, doing string, do func() (next time.Duration, err error)) {
	for ctx.Err() == nil {
		var next time.Duration
		err := safely.Call[lending.PanicError](func() (err error) {
			next, err = do()
			return err
		})
		if err != nil && ctx.Err() == nil {
			c.report(ctx, doing, err)
			next = max(next, time.Minute)
		}
		_ = backoff.Sleep(ctx, max(next, time.Second))
	}
}
