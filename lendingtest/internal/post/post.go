// Package post delivers webhooks: signed, a queue for each receiver, in a mode that tests choose.
package post

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/lendingapi/lending-go/lendingtest/internal/clock"
	"github.com/lendingapi/lending-go/lendingtest/internal/plain"
	"github.com/lendingapi/lending-go/lendingtest/internal/recent"
	"github.com/lendingapi/lending-go/lendingtest/record"
)

// maxReceivers limits the receivers to which the office posts at the same time.
const maxReceivers = 32

// Office has a queue and a goroutine for each receiver, so a receiver that never answers delays no
// other receiver. A goroutine ends when its queue is empty.
type Office struct {
	Client *http.Client // nil means a client that keeps no connection
	Now    func() time.Time

	mu        sync.Mutex
	mode      record.DeliveryMode
	queues    map[string][]letter // by receiver
	waiting   int                 // in all queues
	delivered recent.Log[record.Delivery]
	closed    bool
	numbered  int             // number of deliveries
	posting   map[string]bool // receivers with a goroutine
	idle      chan struct{}   // closed when the last goroutine ends, nil if there is none
	cancel    func()
	run       context.Context //nolint:containedctx // of all deliveries: it ends with the next Reset, or with Close
}

// letter is a delivery on its way.
type letter struct {
	record.Delivery
	id     string
	data   json.RawMessage
	secret string
	tries  int // so far
}

// Put makes a delivery for a subscriber and posts it.
func (o *Office) Put(sub *record.Subscription, event, id string, data map[string]any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	to := record.Delivery{Event: event, URI: sub.WebhookURI}
	d := o.dated(letter{Delivery: to, id: id, data: plain.JSON(data), secret: sub.Secret})
	for range o.mode.Copies + 1 {
		o.wait(d)
	}
}

// dated returns a delivery of now. A retry of the real service, too, has a new creation time, and therefore another
// body and signature.
func (o *Office) dated(d letter) letter {
	now := o.Now()
	body := plain.JSON(struct {
		ID              string          `json:"id"`
		WebhookEvent    string          `json:"webhookEvent"`
		Data            json.RawMessage `json:"data"`
		CreationTimeUTC string          `json:"creationTimeUtc"`
	}{d.id, d.Event, d.data, now.Format(record.StampForm + "Z")})
	d.Delivery = record.Delivery{Time: now, Event: d.Event, URI: d.URI, Body: body}
	return d
}

// wait adds a delivery to the queue. If the queues are full, the delivery fails, and the log of
// deliveries says so. It needs o.mu, as do the functions below without Lock.
func (o *Office) wait(d letter) {
	if o.closed {
		return
	}
	if o.waiting >= recent.Rows {
		d.Err = "lendingtest: the delivery was dropped: 10,000 deliveries wait for slow receivers"
		o.keep(&d.Delivery)
		return
	}
	if o.queues == nil {
		o.queues = map[string][]letter{}
		o.run, o.cancel = context.WithCancel(context.Background())
	}
	o.queues[d.URI] = append(o.queues[d.URI], d)
	o.waiting++
	o.start()
}

// keep records a finished delivery with the next number.
func (o *Office) keep(d *record.Delivery) {
	o.numbered++
	d.Number = o.numbered
	o.delivered.Add(*d, len(d.Body)+len(d.URI))
}

// start starts to post to each receiver with waiting deliveries.
func (o *Office) start() {
	for receiver := range o.queues {
		if o.mode.Hold || o.posting[receiver] || len(o.posting) >= maxReceivers {
			continue
		}
		if o.idle == nil {
			o.idle, o.posting = make(chan struct{}), map[string]bool{}
		}
		o.posting[receiver] = true
		go o.deliver(receiver)
	}
}

// deliver posts to a receiver until its queue is empty.
func (o *Office) deliver(receiver string) {
	for {
		ctx, d, delay := o.next(receiver)
		if ctx == nil {
			return
		}
		err := context.Canceled
		if clock.Pause(ctx, delay, nil) {
			d.Status, err = o.post(ctx, &d.Delivery)
		}
		if err != nil {
			d.Err = err.Error()
		}
		o.mu.Lock()
		if ctx == o.run {
			o.keep(&d.Delivery)
			if d.tries++; d.Status/100 != 2 && d.tries <= o.mode.Retries {
				o.wait(o.dated(d))
			}
		}
		o.mu.Unlock()
	}
}

// next takes and signs a delivery. Without a context it ends the goroutine of this receiver.
func (o *Office) next(receiver string) (ctx context.Context, d letter, delay time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	queue := o.queues[receiver]
	if len(queue) == 0 || o.mode.Hold || o.closed {
		delete(o.posting, receiver)
		o.start() // for receivers that wait because of maxReceivers
		if len(o.posting) == 0 {
			close(o.idle)
			o.idle = nil
		}
		return nil, d, 0
	}
	d, rest := queue[0], queue[1:]
	if last := len(queue) - 1; o.mode.Reverse {
		d, rest = queue[last], queue[:last]
	}
	if o.queues[receiver] = rest; len(rest) == 0 {
		delete(o.queues, receiver)
	}
	o.waiting--
	d.Signature = sign(cmp.Or(o.mode.Secret, d.secret), d.Body)
	return o.run, d, o.mode.Delay
}

func (o *Office) post(ctx context.Context, d *record.Delivery) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // the timeout of the real service
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.URI, bytes.NewReader(d.Body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	req.Header.Set("abp-webhook-signature", d.Signature)
	client := http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}} // leaves no goroutine
	if o.Client != nil {
		client = *o.Client
	}
	// A redirect would lead to an address that nobody has allowed, and net/http makes a GET without
	// a body of the delivery.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	return resp.StatusCode, nil
}

// sign returns the signature in the form of BitConverter.ToString: upper-case bytes with hyphens.
func sign(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return "sha256=" + strings.ReplaceAll(fmt.Sprintf("% X", mac.Sum(nil)), " ", "-")
}

// SetMode sets the mode of deliveries from now on.
func (o *Office) SetMode(m record.DeliveryMode) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mode = m
	o.start()
}

// Deliveries returns the posted deliveries.
func (o *Office) Deliveries() []record.Delivery {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.delivered.All()
}

// Busy returns a channel that is closed when no delivery is in progress, or nil if none is.
func (o *Office) Busy() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.idle
}

// Reset cancels deliveries in progress and forgets all deliveries.
func (o *Office) Reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mode, o.delivered, o.numbered = record.DeliveryMode{}, recent.Log[record.Delivery]{}, 0
	o.empty()
	o.run = nil
}

// Close cancels deliveries in progress and those to come.
func (o *Office) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.empty()
}

func (o *Office) empty() {
	if o.cancel != nil {
		o.cancel()
	}
	o.queues, o.waiting = nil, 0
}
