package probe

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/webhook"
)

// hooks receives the webhooks of the walk. It answers the first delivery with 500.
type hooks struct {
	mu         sync.Mutex
	secret     string
	deliveries []delivery
}

// delivery is a webhook as received. It is never shown or saved.
type delivery struct {
	event, same, body string // same is the body without its time
	created, arrived  time.Time
	signature         string
}

func (h *hooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	var envelope struct {
		ID, WebhookEvent string
		Data             json.RawMessage
		CreationTimeUTC  lending.Time
	}
	if err != nil || json.Unmarshal(body, &envelope) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deliveries = append(h.deliveries, delivery{
		envelope.WebhookEvent, envelope.ID + envelope.WebhookEvent + string(envelope.Data), string(body),
		envelope.CreationTimeUTC.Time, time.Now(), r.Header.Get(webhook.SignatureHeader),
	})
	if len(h.deliveries) == 1 {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (h *hooks) received() []delivery {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.deliveries)
}

// subscribe returns the step that subscribes the customer.
func (h *hooks) subscribe(p *prober) func(context.Context, bool) error {
	if p.o.WebhookURL == "" || p.o.Listen == nil {
		return nil
	}
	return func(ctx context.Context, _ bool) error {
		p.o.Listen(h)
		return p.lag(ctx, "get-subscription", true, func() bool {
			ensured, err := p.client.Webhooks.Ensure(ctx, lending.ForCustomer(p.run.Customer), lending.WebhookSubscription{
				WebhookURI: p.o.WebhookURL,
			})
			if err == nil {
				h.secret = ensured.Subscription.Secret.Reveal()
			}
			return err == nil
		})
	}
}

// eventName is the form of the published names of events.
var eventName = regexp.MustCompile(`^WB_[A-Za-z_]{1,50}$`)

// judge returns the step that looks at the deliveries, and ends the subscription.
func (h *hooks) judge(p *prober) func(context.Context, bool) error {
	if p.o.WebhookURL == "" || p.o.Listen == nil {
		return nil
	}
	return func(ctx context.Context, _ bool) error {
		_ = p.client.Webhooks.Unregister(ctx, lending.ForCustomer(p.run.Customer), lending.WebhookSubscription{WebhookURI: p.o.WebhookURL})
		if h.secret == "" {
			p.unseen("webhook events", "the run was interrupted")
			return nil
		}
		p.until(ctx, func() bool { return len(h.received()) > 1 })
		wait(ctx, p.o.LagLimit) // for repetitions
		all := h.received()
		if len(all) == 0 {
			p.fact("webhook events", "", "none")
			return nil
		}
		h.facts(p, all)
		return nil
	}
}

func (h *hooks) facts(p *prober, all []delivery) {
	signed, ordered, delay, last := "valid", "as created", time.Duration(0), time.Time{}
	repeated, copies, counts := 0, 1, map[string]int{} // repeated counts the delivery that was refused
	for _, d := range all {
		if lending.Verify(h.secret, []byte(d.body), d.signature) != nil {
			signed = "not valid"
		}
		counts[d.body]++
		if d.same == all[0].same {
			repeated++
		} else {
			copies = max(copies, counts[d.body])
		}
		if counts[d.body] == 1 {
			if d.created.Before(last) {
				ordered = "another order"
			}
			last, delay = d.created, max(delay, d.arrived.Sub(d.created))
		}
		if eventName.MatchString(d.event) {
			p.several("webhook events", d.event)
		}
	}
	p.fact("webhook signature", "", signed)
	p.fact("webhook copies", "", map[bool]string{false: "none", true: "some"}[copies > 1])
	p.fact("webhook order", "", ordered)
	p.fact("webhook retry", "", map[bool]string{false: "not delivered again", true: "delivered again"}[repeated > copies])
	p.fact("webhook delay", "", ceiling(max(0, delay-time.Second)))
}
