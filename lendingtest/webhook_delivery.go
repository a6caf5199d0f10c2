package lendingtest

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Delivery is a webhook that was posted to its receiver.
type Delivery struct {
	Number    int       // order of delivery, from 1
	Time      time.Time // when the event was created, by the service's clock
	Event     string
	URI       string
	Body      []byte
	Signature string // value of the header
	Status    int    // status of the receiver's response, 0 without a response
	Err       error  // why there is no response

	secret string
	old    string // the secret before
	run    int    // number of Resets before
}

// DeliveryMode makes deliveries misbehave. The zero value is the normal mode.
type DeliveryMode struct {
	// Copies posts each delivery this number of additional times, byte for byte.
	Copies int `json:"copies,omitempty"`
	// Hold holds deliveries until another mode posts them.
	Hold bool `json:"hold,omitempty"`
	// Reverse posts the last of the waiting deliveries first. Use Hold before, so that several
	// deliveries wait.
	Reverse bool `json:"reverse,omitempty"`
	// Delay delays each delivery, in real time or the time of a bubble.
	Delay time.Duration `json:"-"`
	// BadSignature signs with an unknown secret.
	BadSignature bool `json:"badSignature,omitempty"`
	// OldSecret signs with the secret before the last change by [Service.UpdateSubscription].
	OldSecret bool `json:"oldSecret,omitempty"`
	// NoSignature omits the header.
	NoSignature bool `json:"noSignature,omitempty"`
	// Off discards deliveries.
	Off bool `json:"off,omitempty"`
}

// maxReceivers limits the receivers to which the service posts at the same time.
const maxReceivers = 32

// postOffice has a queue and a goroutine for each receiver, so a receiver that never answers
// delays no other receiver. A goroutine ends when its queue is empty. Service.mu guards
// postOffice.
type postOffice struct {
	mode      DeliveryMode
	queues    map[string][]Delivery // by receiver
	waiting   int                   // in all queues
	delivered recent[Delivery]
	closed    bool
	run       int                           // number of Resets
	numbered  int                           // number of deliveries
	posting   map[string]context.CancelFunc // cancels the delivery in progress, by receiver
	idle      chan struct{}                 // closed when the last goroutine ends, nil if there is none
}

func (p *postOffice) stop() {
	p.closed = true
	p.empty()
}

// drop cancels deliveries in progress and forgets all deliveries.
func (p *postOffice) drop() {
	p.mode, p.delivered = DeliveryMode{}, recent[Delivery]{}
	p.run++
	p.numbered = 0
	p.empty()
}

// empty clears the queues and cancels deliveries in progress.
func (p *postOffice) empty() {
	p.queues, p.waiting = nil, 0
	for _, cancel := range p.posting {
		cancel()
	}
}

// keep records a finished delivery with the next number.
func (p *postOffice) keep(d *Delivery) {
	p.numbered++
	d.Number = p.numbered
	p.delivered.add(*d, len(d.Body)+len(d.URI))
}

// wait adds a delivery to the queue. If the queues are full, the delivery fails, and the log of
// deliveries says so.
func (p *postOffice) wait(d Delivery) {
	if p.waiting >= recentRows {
		d.Err = errTooManyWait
		p.keep(&d)
		return
	}
	if p.queues == nil {
		p.queues = map[string][]Delivery{}
	}
	p.queues[d.URI] = append(p.queues[d.URI], d)
	p.waiting++
}

// take returns the next delivery for a receiver.
func (p *postOffice) take(receiver string) (d Delivery, ok bool) {
	queue := p.queues[receiver]
	last := len(queue) - 1
	switch {
	case last < 0 || p.mode.Hold || p.closed:
		return d, false
	case p.mode.Reverse:
		d, p.queues[receiver] = queue[last], queue[:last]
	default:
		d, p.queues[receiver] = queue[0], queue[1:]
	}
	if p.waiting--; last == 0 {
		delete(p.queues, receiver)
	}
	return d, true
}

var errTooManyWait = errors.New("lendingtest: the delivery was dropped: 10,000 deliveries wait for slow receivers")

// enqueue makes a delivery and posts it. It needs s.mu.
func (s *Service) enqueue(sub *Subscription, event, id string, data map[string]any) {
	if s.post.mode.Off || s.post.closed {
		return
	}
	now := s.now()
	body := mustJSON(struct {
		ID              string         `json:"id"`
		WebhookEvent    string         `json:"webhookEvent"`
		Data            map[string]any `json:"data"`
		CreationTimeUTC string         `json:"creationTimeUtc"`
	}{id, event, data, now.Format(stampForm + "Z")})
	for range s.post.mode.Copies + 1 {
		s.post.wait(Delivery{Time: now, Event: event, URI: sub.WebhookURI, Body: body, secret: sub.Secret, old: sub.previous, run: s.post.run})
	}
	s.startDelivering()
}

// startDelivering starts to post to each receiver with waiting deliveries. It needs s.mu.
func (s *Service) startDelivering() {
	p := &s.post
	for receiver := range p.queues {
		if p.mode.Hold || p.posting[receiver] != nil || len(p.posting) >= maxReceivers {
			continue
		}
		if p.posting == nil {
			p.posting = map[string]context.CancelFunc{}
		}
		if p.idle == nil {
			p.idle = make(chan struct{})
		}
		p.posting[receiver] = func() {}
		go s.deliver(receiver)
	}
}

// deliver posts to a receiver until its queue is empty.
func (s *Service) deliver(receiver string) {
	for {
		ctx, cancel := context.WithCancel(context.Background())
		d, delay, ok := s.nextDelivery(receiver, cancel)
		if !ok {
			cancel()
			return
		}
		if delay <= 0 || pause(ctx, delay, s.done) {
			d.Status, d.Err = s.postDelivery(ctx, &d)
		} else {
			d.Err = context.Canceled
		}
		cancel()
		s.mu.Lock()
		if d.run == s.post.run {
			s.post.keep(&d)
		}
		s.mu.Unlock()
		s.notify(Event{Delivery: &d})
	}
}

// nextDelivery takes and signs a delivery, or ends the goroutine of this receiver.
func (s *Service) nextDelivery(receiver string, cancel context.CancelFunc) (d Delivery, delay time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.post
	d, ok = p.take(receiver)
	if !ok {
		delete(p.posting, receiver)
		s.startDelivering() // for receivers that wait because of maxReceivers
		if len(p.posting) == 0 {
			close(p.idle)
			p.idle = nil
		}
		return d, 0, false
	}
	p.posting[receiver] = cancel
	secret := d.secret
	switch {
	case p.mode.BadSignature:
		secret = "not the secret"
	case p.mode.OldSecret && d.old != "":
		secret = d.old
	}
	if !p.mode.NoSignature {
		d.Signature = sign(secret, d.Body)
	}
	return d, p.mode.Delay, true
}

func (s *Service) postDelivery(ctx context.Context, d *Delivery) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // the timeout of the real service
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.URI, bytes.NewReader(d.Body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	if d.Signature != "" {
		req.Header.Set("abp-webhook-signature", d.Signature)
	}
	client := s.cfg.deliveryClient
	if client == nil {
		t := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true} // leaves no goroutine
		client = &http.Client{Transport: t}
	}
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
	var pairs []string
	for _, b := range mac.Sum(nil) {
		pairs = append(pairs, strings.ToUpper(hex.EncodeToString([]byte{b})))
	}
	return "sha256=" + strings.Join(pairs, "-")
}

// Wait returns when no mutation of a [Fault] with Late waits and no delivery is in progress, or
// with the error of ctx. Wait does not wait for held deliveries.
func (s *Service) Wait(ctx context.Context) error {
	for {
		busy := s.busy()
		if busy == nil {
			return nil
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// SetDeliveryMode sets the mode of deliveries from now on. Held deliveries are posted unless the
// new mode has Hold, too.
func (s *Service) SetDeliveryMode(m DeliveryMode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.post.mode = m
	s.startDelivering()
}

// Redeliver posts a delivery again, like a retry of the real service: the same event with a new
// creation time, and therefore another body and signature.
func (s *Service) Redeliver(d Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repost(d)
}

// redeliver posts the delivery with this number again.
func (s *Service) redeliver(number int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.post.delivered.rows, func(d Delivery) bool { return d.Number == number })
	if i < 0 {
		return fmt.Errorf("lendingtest: no delivery number %d", number)
	}
	s.repost(s.post.delivered.rows[i])
	return nil
}

// repost needs s.mu.
func (s *Service) repost(d Delivery) {
	if s.post.closed {
		return
	}
	d.Body, d.Signature, d.Time, d.Status, d.Err = withCreationTime(d.Body, s.now()), "", s.now(), 0, nil
	d.run = s.post.run
	s.post.wait(d)
	s.startDelivering()
}

// withCreationTime replaces the last member of an envelope that enqueue has made.
func withCreationTime(body []byte, now time.Time) []byte {
	i := bytes.LastIndex(body, []byte(`"creationTimeUtc":`))
	return append(bytes.Clone(body[:i]), now.Format(`"creationTimeUtc":"`+stampForm+`Z"}`)...)
}

// Deliveries returns the posted deliveries in order: the last 10,000 or 32 MiB.
func (s *Service) Deliveries() []Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.post.delivered.all()
}
