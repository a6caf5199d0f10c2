package rules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/lendingapi/lending-go/lendingtest/internal/book"
	"github.com/lendingapi/lending-go/lendingtest/internal/plain"
	"github.com/lendingapi/lending-go/lendingtest/record"
)

// target reads "exactly one of partnerId and customerId".
func (c *Call) target() (t book.Target, err error) {
	if c.query.Has("partnerId") == c.query.Has("customerId") {
		return t, refuse("TargetRequired", "Exactly one of partnerId and customerId is required.")
	}
	if c.query.Has("customerId") {
		row, err := c.customer()
		if err != nil {
			return t, err
		}
		t.CustomerID = row.ID
		return t, nil
	}
	if t.PartnerID, err = c.id("partnerId"); err != nil {
		return t, err
	}
	if !c.account.MayUse(t.PartnerID) {
		return t, forbidden("The partner is not assigned to this account.")
	}
	return t, nil
}

// subscribed returns the target's subscription, or nil.
func (c *Call) subscribed() (*record.Subscription, book.Target, error) {
	t, err := c.target()
	if err != nil {
		return nil, t, err
	}
	for sub := range book.Rows(c.SubscriptionsOf(t)) {
		if sub.PartnerID == t.PartnerID && sub.CustomerID == t.CustomerID {
			c.concern(sub.ID)
			return sub, t, nil
		}
	}
	return nil, t, nil
}

// mustBeSubscribed rejects a target without a subscription.
func (c *Call) mustBeSubscribed() (*record.Subscription, error) {
	sub, _, err := c.subscribed()
	if err == nil && sub == nil {
		err = refuse("SubscriptionNotFound", "The target has no subscription.")
	}
	return sub, err
}

// checkReceiver accepts https, and http to the hosts of the options.
func (c *Call) checkReceiver(uri string) {
	u, err := url.Parse(uri)
	ok := err == nil && u.Hostname() != "" && u.User == nil && !strings.Contains(uri, "#") &&
		(u.Scheme == "https" || u.Scheme == "http" && c.HTTPHost(u))
	if !ok {
		c.failed.add("webhookUri", "InvalidUri", "The receiver is not an https address.")
	}
}

// registerWebhook adds a subscription with an id and a secret that never change, or changes the
// receiver and the events of the existing subscription.
func (c *Call) registerWebhook() (any, error) {
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
		if !slices.Contains(book.Catalogue(), event) {
			c.failed.add(fmt.Sprintf("webhooks[%d]", i), "UnknownEvent", "There is no such event.")
		}
	}
	if len(c.failed) > 0 {
		return nil, c.failed.err()
	}
	if sub == nil {
		sub = &record.Subscription{
			ID: c.NewID(book.Subscription), Secret: c.NewSecret(),
			IsActive: req.IsActive == nil || *req.IsActive, PartnerID: t.PartnerID, CustomerID: t.CustomerID,
		}
		c.concern(sub.ID)
		c.Subscriptions.Put(sub.ID, sub)
	}
	sub.WebhookURI, sub.Webhooks = req.WebhookURI, append([]string{}, req.Webhooks...)
	return nil, nil
}

func (c *Call) unregisterWebhook(sub *record.Subscription) (any, error) {
	if _, err := c.object(); err != nil { // the body is required and ignored; the target is in the query
		return nil, err
	}
	c.Subscriptions.Drop(sub.ID)
	return nil, nil
}

// updateAllWebhooks subscribes to every event in this model.
func (c *Call) updateAllWebhooks(sub *record.Subscription) (any, error) {
	sub.Webhooks = book.Catalogue()
	return nil, nil
}

func (c *Call) updateWebhookURI() (any, error) {
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
func (c *Call) webhookHandler() (any, error) {
	var fields map[string]json.RawMessage
	if err := c.decodeRequired(&fields); err != nil {
		return nil, err
	}
	c.Payloads.Add(bytes.Clone(c.Body), len(c.Body))
	return nil, nil
}

// simulable returns the events that this model can simulate.
func simulable() []string {
	return []string{
		"WB_Application_Created", "WB_Customer_Created", "WB_Application_Status_Changed", "WB_Application_Ready",
		"WB_Loan_Created", "WB_Loan_Withdrawal_Completed", "WB_Communication_Sent",
	}
}

func (c *Call) simulateWebhook() (any, error) {
	event := c.required("eventName")
	if len(c.failed) > 0 {
		return nil, c.failed.err()
	}
	sub, err := c.mustBeSubscribed()
	switch {
	case err != nil:
		return nil, err
	case !slices.Contains(book.Catalogue(), event):
		return nil, refuse("UnknownEvent", "There is no such event.")
	case !book.Wants(sub, event):
		return nil, refuse("EventNotSubscribed", "The event is not in the subscription.")
	case !slices.Contains(simulable(), event):
		return nil, refuse("SimulationNotSupported", "The event cannot be simulated.")
	case !sub.IsActive:
		return nil, refuse("SubscriptionInactive", "The subscription is not active.")
	}
	c.PostTo(sub, event, sub.ID, map[string]any{
		"simulated": true, "applicationId": book.FormatID(0, book.Application, 1), "customerId": book.FormatID(0, book.Customer, 1),
	})
	return nil, nil
}

// registeredWebhooks answers with names only, and with all names for "all".
func (c *Call) registeredWebhooks() (any, error) {
	sub, _, err := c.subscribed()
	switch {
	case err != nil:
		return nil, err
	case sub == nil:
		return []string{}, nil
	case len(sub.Webhooks) == 0:
		return book.Catalogue(), nil
	}
	return sub.Webhooks, nil
}

// subscription answers with 204 if there is none: "an HTTP success alone does not prove a save".
func (c *Call) subscription() (any, error) {
	sub, _, err := c.subscribed()
	if err != nil {
		return nil, err
	}
	if sub == nil {
		return null{}, nil
	}
	return plain.Wire(sub), nil
}

// allSubscriptions returns no secrets.
func (c *Call) allSubscriptions() (any, error) {
	type summary struct {
		ID         string   `json:"id"`
		WebhookURI string   `json:"webhookUri"`
		IsActive   bool     `json:"isActive"`
		Webhooks   []string `json:"webhooks"`
		PartnerID  string   `json:"partnerId,omitempty"`
		CustomerID string   `json:"customerId,omitempty"`
	}
	all := []summary{}
	for sub := range c.Subscriptions.All() {
		all = append(all, summary{sub.ID, sub.WebhookURI, sub.IsActive, sub.Webhooks, sub.PartnerID, sub.CustomerID})
	}
	return all, nil
}
