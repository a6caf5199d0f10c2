package lendingtest

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// target reads "exactly one of partnerId and customerId".
func (c *call) target() (t target, err error) {
	if c.query.Has("partnerId") == c.query.Has("customerId") {
		return t, refuse("TargetRequired", "Exactly one of partnerId and customerId is required.")
	}
	if c.query.Has("customerId") {
		row, err := c.customer()
		if err != nil {
			return t, err
		}
		t.customerID = row.ID
		return t, nil
	}
	if t.partnerID, err = c.id("partnerId"); err != nil {
		return t, err
	}
	if !c.account.mayUse(t.partnerID) {
		return t, forbidden("The partner is not assigned to this account.")
	}
	return t, nil
}

// subscribed returns the target's subscription, or nil.
func (c *call) subscribed() (*Subscription, target, error) {
	t, err := c.target()
	if err != nil {
		return nil, t, err
	}
	for sub := range rowsOf(c.subscriptionsOf(t)) {
		if sub.PartnerID == t.partnerID && sub.CustomerID == t.customerID {
			c.concern(sub.ID)
			return sub, t, nil
		}
	}
	return nil, t, nil
}

// mustBeSubscribed rejects a target without a subscription.
func (c *call) mustBeSubscribed() (*Subscription, error) {
	sub, _, err := c.subscribed()
	if err == nil && sub == nil {
		err = refuse("SubscriptionNotFound", "The target has no subscription.")
	}
	return sub, err
}

// checkReceiver accepts https, and http to the hosts of the options.
func (c *call) checkReceiver(uri string) {
	u, err := url.Parse(uri)
	ok := err == nil && u.Hostname() != "" && u.User == nil && !strings.Contains(uri, "#") &&
		(u.Scheme == "https" || u.Scheme == "http" && c.mayReceiveHTTP(u))
	if !ok {
		c.failed.add("webhookUri", "InvalidUri", "The receiver is not an https address.")
	}
}

func (c *call) mayReceiveHTTP(u *url.URL) bool {
	return c.cfg.loopback && loopbackName(u.Host) ||
		slices.ContainsFunc(c.cfg.receivers, func(hostPort string) bool { return strings.EqualFold(hostPort, u.Host) })
}

// registerWebhook adds a subscription with an id and a secret that never change, or changes the
// receiver and the events of the existing subscription.
func (c *call) registerWebhook() (any, error) {
	sub, t, err := c.subscribed()
	if err != nil {
		return nil, err
	}
	var req struct {
		WebhookURI string `json:"webhookUri"`
		IsActive   *bool
		Webhooks   []string
	}
	if err := c.decodeRequired(&req); err != nil {
		return nil, err
	}
	c.checkReceiver(req.WebhookURI)
	for i, event := range req.Webhooks {
		if !slices.Contains(catalogue(), event) {
			c.failed.add(fmt.Sprintf("webhooks[%d]", i), "UnknownEvent", "There is no such event.")
		}
	}
	if len(c.failed) > 0 {
		return nil, c.failed.err()
	}
	if sub == nil {
		secret := c.digest("secret")
		sub = &Subscription{
			ID: c.newID(kindSubscription), Secret: "whs_" + hex.EncodeToString(secret[:16]),
			IsActive: req.IsActive == nil || *req.IsActive, PartnerID: t.partnerID, CustomerID: t.customerID,
		}
		c.concern(sub.ID)
		c.subscriptions.put(sub.ID, sub)
	}
	sub.WebhookURI, sub.Webhooks = req.WebhookURI, append([]string{}, req.Webhooks...)
	return nil, nil
}

func (c *call) unregisterWebhook(sub *Subscription) (any, error) {
	if _, err := c.object(); err != nil { // the body is required and ignored; the target is in the query
		return nil, err
	}
	c.subscriptions.drop(sub.ID)
	return nil, nil
}

// updateAllWebhooks subscribes to every event in this model.
func (c *call) updateAllWebhooks(sub *Subscription) (any, error) {
	sub.Webhooks = catalogue()
	return nil, nil
}

func (c *call) updateWebhookURI() (any, error) {
	uri := c.required("webhookUri")
	if uri != "" {
		c.checkReceiver(uri)
	}
	if len(c.failed) > 0 {
		return nil, c.failed.err()
	}
	sub, err := c.mustBeSubscribed()
	if err != nil {
		return nil, err
	}
	sub.WebhookURI = uri
	return nil, nil
}

// webhookHandler is the service's own test receiver. It keeps its events.
func (c *call) webhookHandler() (any, error) {
	var fields map[string]json.RawMessage
	if err := c.decodeRequired(&fields); err != nil {
		return nil, err
	}
	c.payloads.add(bytes.Clone(c.body), len(c.body))
	return nil, nil
}

// simulable returns the events that this model can simulate.
func simulable() []string {
	return []string{
		"WB_Application_Created", "WB_Customer_Created", "WB_Application_Status_Changed", "WB_Application_Ready",
		"WB_Loan_Created", "WB_Loan_Withdrawal_Completed", "WB_Communication_Sent",
	}
}

func (c *call) simulateWebhook() (any, error) {
	event := c.required("eventName")
	if len(c.failed) > 0 {
		return nil, c.failed.err()
	}
	sub, err := c.mustBeSubscribed()
	switch {
	case err != nil:
		return nil, err
	case !slices.Contains(catalogue(), event):
		return nil, refuse("UnknownEvent", "There is no such event.")
	case !sub.wants(event):
		return nil, refuse("EventNotSubscribed", "The event is not in the subscription.")
	case !slices.Contains(simulable(), event):
		return nil, refuse("SimulationNotSupported", "The event cannot be simulated.")
	case !sub.IsActive:
		return nil, refuse("SubscriptionInactive", "The subscription is not active.")
	}
	c.enqueue(sub, event, sub.ID, map[string]any{
		"simulated": true, "applicationId": formatID(0, kindApplication, 1), "customerId": formatID(0, kindCustomer, 1),
	})
	return nil, nil
}

// registeredWebhooks answers with names only, and with all names for "all".
func (c *call) registeredWebhooks() (any, error) {
	sub, _, err := c.subscribed()
	switch {
	case err != nil:
		return nil, err
	case sub == nil:
		return []string{}, nil
	case len(sub.Webhooks) == 0:
		return catalogue(), nil
	}
	return sub.Webhooks, nil
}

// subscription answers with 204 if there is none: "an HTTP success alone does not prove a save".
func (c *call) subscription() (any, error) {
	sub, _, err := c.subscribed()
	if err != nil {
		return nil, err
	}
	if sub == nil {
		return null{}, nil
	}
	return sub, nil
}

// allSubscriptions returns no secrets.
func (c *call) allSubscriptions() (any, error) {
	type summary struct {
		ID         string   `json:"id"`
		WebhookURI string   `json:"webhookUri"`
		IsActive   bool     `json:"isActive"`
		Webhooks   []string `json:"webhooks"`
		PartnerID  string   `json:"partnerId,omitempty"`
		CustomerID string   `json:"customerId,omitempty"`
	}
	all := []summary{}
	for sub := range c.subscriptions.all() {
		all = append(all, summary{sub.ID, sub.WebhookURI, sub.IsActive, sub.Webhooks, sub.PartnerID, sub.CustomerID})
	}
	return all, nil
}

// AddSubscription adds a subscription and returns it with its id and secret. The default target
// is the default partner.
func (s *Service) AddSubscription(sub Subscription) Subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub = sub.clone()
	if sub.PartnerID == "" && sub.CustomerID == "" {
		sub.PartnerID = PartnerID
	}
	if sub.ID == "" {
		sub.ID = s.newID(kindSubscription)
	}
	if sub.Secret == "" {
		secret := s.digest("secret")
		sub.Secret = "whs_" + hex.EncodeToString(secret[:16])
	}
	sub.IsActive = true
	s.subscriptions.put(sub.ID, &sub)
	s.seeded(sub.ID)
	return sub.clone()
}

// UpdateSubscription calls f to change a subscription. A changed secret is a rotation. f must
// not call the service.
func (s *Service) UpdateSubscription(id string, f func(*Subscription)) {
	update(s, &s.subscriptions, id, func(sub *Subscription) {
		before := sub.Secret
		f(sub)
		if sub.Secret != before {
			sub.previous = before
		}
	})
}
