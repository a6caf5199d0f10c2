package webhook

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/backoff"
	"github.com/lendingapi/lending-go/internal/opaque"
	"github.com/lendingapi/lending-go/internal/redact"
	"github.com/lendingapi/lending-go/internal/safely"
)

// ConsumerOptions change a [Consumer]. Zero fields mean the defaults.
type ConsumerOptions struct {
	Receiver ReceiverOptions
	Work     WorkOptions

	// Refresh is the time between two reads of the subscription's secret; 10 min. After a wrong
	// signature Run reads the secret at once, at most once a minute. The previous secret stays
	// valid for an hour after a change.
	Refresh time.Duration
	// Sweep is called once a day, for example the method Sweep of an idempotency log.
	Sweep func(ctx context.Context) (int, error)
	// Shutdown is the time for requests in progress after the end of Run's context; 40 s.
	Shutdown time.Duration
	// Logger logs failures of the subscription and of Sweep. Nil logs nothing.
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
	wrong        chan struct{} // signals a wrong signature

	mu       sync.Mutex
	secret   lending.Secret
	previous lending.Secret
	until    time.Time // the previous secret is valid
}

const (
	previousStays = time.Hour
	wrongPause    = time.Minute
)

var errNotSubscribed = errors.New("lending/webhook: consumer: not subscribed yet; see the log of the consumer")

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
		wrong: make(chan struct{}, 1),
	}
	if opts != nil {
		c.ConsumerOptions = *opts
	}
	setDefault(&c.Refresh, 10*time.Minute)
	setDefault(&c.Shutdown, 40*time.Second)
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

// Ready reports whether the consumer can accept events: the inbox is ready, and the secret of
// the subscription is known.
func (c *Consumer) Ready(ctx context.Context) error {
	if _, err := c.state().secrets(nil); err != nil {
		return err
	}
	return c.state().inbox.Ready(ctx)
}

// Run starts server, subscribes, handles events and sweeps until ctx ends. Then Run shuts down
// in order: it waits for requests in progress, then for calls of the EventFunc, and returns nil.
// Close the inbox and the client afterwards.
//
// If the subscription fails, Run tries again after 1 second, doubling up to 1 minute, and
// handles events from the inbox meanwhile. Run returns an error only if server cannot listen, or
// if the subscription is invalid: an [*lending.ArgumentError].
//
// If server is nil, shut your own server down before you end ctx.
func (c *Consumer) Run(ctx context.Context, server *http.Server) error {
	return c.state().run(ctx, server)
}

func (c *consumer) run(ctx context.Context, server *http.Server) error {
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
		group.Go(func() {
			if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
				fail(err)
			}
		})
	}
	group.Go(func() { Work(working, c.inbox, c.handle, &c.Work) })
	group.Go(func() { fail(c.follow(ctx)) })
	group.Go(func() { c.sweep(ctx) })
	<-ctx.Done()
	if server != nil {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Shutdown)
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

// follow subscribes, and reads the secret regularly.
func (c *consumer) follow(ctx context.Context) error {
	err := c.untilDone(ctx, "subscribing", func() error {
		ensured, err := c.client.Webhooks.Ensure(ctx, c.target, c.subscription)
		if err == nil {
			c.use(ensured.Subscription.Secret)
		}
		return err
	})
	for refresh := c.Refresh; err == nil; {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(refresh):
		case <-c.wrong:
		}
		err = c.untilDone(ctx, "reading the secret of the subscription", func() error {
			subscription, err := c.client.Webhooks.Subscription(ctx, c.target)
			if err == nil {
				c.use(subscription.Secret)
			}
			return err
		})
		_ = backoff.Sleep(ctx, min(wrongPause, c.Refresh)) // a flood of forgeries causes no more reads
	}
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// untilDone calls do until it succeeds, ctx ends, or an argument is refused.
func (c *consumer) untilDone(ctx context.Context, doing string, do func() error) error {
	for failures := 1; ; failures++ {
		err := do()
		if _, mistake := errors.AsType[*lending.ArgumentError](err); err == nil || mistake || ctx.Err() != nil {
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

// secrets is the [SecretsFunc] of the receiver.
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

// sweep calls Sweep once a day.
func (c *consumer) sweep(ctx context.Context) {
	for c.Sweep != nil && ctx.Err() == nil {
		if err := safely.Call[lending.PanicError](func() error { _, err := c.Sweep(ctx); return err }); err != nil && ctx.Err() == nil {
			c.report(ctx, "sweeping", err)
		}
		_ = backoff.Sleep(ctx, 24*time.Hour)
	}
}
