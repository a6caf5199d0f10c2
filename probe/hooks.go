package probe

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/assumption"
	"github.com/lendingapi/lending-go/webhook"
)

// hooks receives the webhooks of the walk. It answers the first delivery with 500.
type hooks struct {
	*walk

	mu     sync.Mutex
	secret string
	all    []delivery
}

// delivery is a webhook as received. It is never shown or saved.
type delivery struct {
	*webhook.Event
	arrived   time.Time
	signature string
}

func (h *hooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	event, unread := webhook.Parse(body)
	if err != nil || unread != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, delivery{event, time.Now(), r.Header.Get(webhook.SignatureHeader)})
	if len(h.all) == 1 {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (h *hooks) received() []delivery {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.all)
}

func (h *hooks) subscribe(ctx context.Context) error {
	h.o.Listen(h)
	_, _ = h.until(ctx, func() bool { // it may take a while until the service knows the customer
		ensured, err := h.client.Webhooks.Ensure(ctx, lending.ForCustomer(h.customer),
			lending.WebhookSubscription{WebhookURI: h.o.WebhookURL})
		if err == nil {
			h.secret = ensured.Subscription.Secret.Reveal()
		}
		return err == nil
	})
	return nil
}

// judge ends the subscription, and looks at the deliveries.
func (h *hooks) judge(ctx context.Context) error {
	_ = h.client.Webhooks.Unregister(ctx, lending.ForCustomer(h.customer), lending.WebhookSubscription{WebhookURI: h.o.WebhookURL})
	if h.secret == "" {
		h.unseen("webhook events", "the service accepts no subscription")
		return nil
	}
	h.until(ctx, func() bool { return len(h.received()) > 1 })
	wait(ctx, h.o.LagLimit) // for repetitions
	for name, value := range told(h.secret, h.received()) {
		h.fact(name, value)
	}
	return nil
}

// eventName is the form of the published names of events.
var eventName = regexp.MustCompile(`^WB_[A-Za-z_]{1,50}$`)

// told returns the facts of the deliveries, of which the first was refused.
func told(secret string, all []delivery) map[string]string {
	if len(all) == 0 {
		return map[string]string{"webhook events": "none"}
	}
	facts := map[string]string{
		assumption.WebhookSignature: "valid", assumption.WebhookCopies: "none", assumption.WebhookOrder: "as created", assumption.WebhookRetry: "not delivered again",
	}
	var names []string
	delay, last := all[0].arrived.Sub(all[0].Created), time.Time{} // the shortest delay
	tries, copies, bodies := 0, 1, map[string]int{}                // tries to deliver the refused event
	for _, d := range all {
		body := d.Key()
		bodies[body]++
		if lending.Verify(secret, d.Body(), d.signature) != nil {
			facts[assumption.WebhookSignature] = assumption.NotValid
		}
		if d.ID == all[0].ID && d.Name == all[0].Name && string(d.Data.Raw()) == string(all[0].Data.Raw()) {
			tries++
		} else if copies = max(copies, bodies[body]); copies > 1 {
			facts[assumption.WebhookCopies] = assumption.Some
		}
		if bodies[body] == 1 {
			if d.Created.Before(last) {
				facts[assumption.WebhookOrder] = assumption.AnotherOrder
			}
			last, delay = d.Created, min(delay, d.arrived.Sub(d.Created))
		}
		if name := string(d.Name); eventName.MatchString(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if tries > copies {
		facts[assumption.WebhookRetry] = assumption.DeliveredAgain
	}
	slices.Sort(names)
	facts["webhook events"] = strings.Join(names, ", ")
	facts[assumption.WebhookDelay] = ceiling(max(0, delay-time.Second))
	return facts
}
