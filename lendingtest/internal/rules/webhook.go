package rules

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/lendingapi/lending-go/lendingtest/internal/book"
	"github.com/lendingapi/lending-go/lendingtest/internal/plain"
	"github.com/lendingapi/lending-go/lendingtest/record"
)

// target reads "exactly one of partnerId and customerId".
func (c *Call) target() (t book.Target) {
	switch ofPartner := c.query.Has("partnerId"); {
	case ofPartner == c.query.Has("customerId"):
		refuse("TargetRequired", "Exactly one of partnerId and customerId is required.")
	case ofPartner:
		t.PartnerID = c.id("partnerId")
		c.mustUse(t.PartnerID)
	default:
		t.CustomerID = lookUp[record.Customer](c).ID
	}
	return t
}

// subscribed returns the target's subscription, or nil.
func (c *Call) subscribed() (*record.Subscription, book.Target) {
	t := c.target()
	for _, sub := range c.SubscriptionsOf(t) {
		if sub.PartnerID == t.PartnerID && sub.CustomerID == t.CustomerID {
			c.concern(sub.ID)
			return sub, t
		}
	}
	return nil, t
}

// mustBeSubscribed rejects a target without a subscription.
func (c *Call) mustBeSubscribed() *record.Subscription {
	sub, _ := c.subscribed()
	if sub == nil {
		refuse("SubscriptionNotFound", "The target has no subscription.")
	}
	return sub
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
func (c *Call) registerWebhook() any {
	sub, t := c.subscribed()
	var req struct {
		WebhookURI string `json:"webhookUri"`
		IsActive   *bool
		Webhooks   []string
	}
	c.decodeRequired(&req)
	c.checkReceiver(req.WebhookURI)
	for i, event := range req.Webhooks {
		if !slices.Contains(book.Catalogue(), event) {
			c.failed.add(fmt.Sprintf("webhooks[%d]", i), "UnknownEvent", "There is no such event.")
		}
	}
	c.valid()
	if sub == nil {
		sub = c.AddSubscription(record.Subscription{PartnerID: t.PartnerID, CustomerID: t.CustomerID}, "")
		sub.IsActive = req.IsActive == nil || *req.IsActive
		c.concern(sub.ID)
	}
	sub.WebhookURI, sub.Webhooks = req.WebhookURI, append([]string{}, req.Webhooks...)
	return nil
}

func (c *Call) unregisterWebhook(sub *record.Subscription) any {
	c.object() // the body is required and ignored; the target is in the query
	c.Drop(sub.ID)
	return nil
}

// updateAllWebhooks subscribes to every event in this model.
func (c *Call) updateAllWebhooks(sub *record.Subscription) any {
	sub.Webhooks = book.Catalogue()
	return nil
}

func (c *Call) updateWebhookURI() any {
	uri := c.required("webhookUri")
	if uri != "" {
		c.checkReceiver(uri)
	}
	c.valid()
	sub := c.mustBeSubscribed()
	sub.WebhookURI = uri
	return nil
}

// webhookHandler is the service's own test receiver. It accepts any object.
func (c *Call) webhookHandler() any {
	c.object()
	return nil
}

// simulable are the events that this model can simulate.
var simulable = []string{
	"WB_Application_Created", "WB_Customer_Created", "WB_Application_Status_Changed", "WB_Application_Ready",
	"WB_Loan_Created", "WB_Loan_Withdrawal_Completed", "WB_Communication_Sent",
}

func (c *Call) simulateWebhook() any {
	event := c.required("eventName")
	c.valid()
	sub := c.mustBeSubscribed()
	switch {
	case !slices.Contains(book.Catalogue(), event):
		refuse("UnknownEvent", "There is no such event.")
	case !book.Wants(sub, event):
		refuse("EventNotSubscribed", "The event is not in the subscription.")
	case !slices.Contains(simulable, event):
		refuse("SimulationNotSupported", "The event cannot be simulated.")
	case !sub.IsActive:
		refuse("SubscriptionInactive", "The subscription is not active.")
	}
	c.Post(sub, event, sub.ID, map[string]any{
		"simulated": true, "applicationId": book.FormatID(0, book.Application, 1), "customerId": book.FormatID(0, book.Customer, 1),
	})
	return nil
}

// registeredWebhooks answers with names only, and with all names for "all".
func (c *Call) registeredWebhooks() any {
	sub, _ := c.subscribed()
	switch {
	case sub == nil:
		return []string{}
	case len(sub.Webhooks) == 0:
		return book.Catalogue()
	}
	return sub.Webhooks
}

// subscription answers with 204 if there is none: "an HTTP success alone does not prove a save".
func (c *Call) subscription() any {
	sub, _ := c.subscribed()
	if sub == nil {
		return null{}
	}
	return plain.Wire(sub)
}

// allSubscriptions returns no secrets.
func (c *Call) allSubscriptions() any {
	all := []record.Subscription{}
	for _, sub := range book.All[record.Subscription](c.Tables) {
		row := *sub
		row.Secret = ""
		all = append(all, row)
	}
	return all
}
