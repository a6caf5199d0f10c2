// Package steer sends the orders of lendingtest/CONTROL.md to a service for tests.
package steer

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
)

// Unkept shares no connection with http.DefaultTransport, whose connections the Close of any
// httptest.Server ends, also below a request.
var Unkept = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// Control is the control of a service.
type Control struct {
	URL    string
	Token  string       // if the control has a token
	Client *http.Client // nil for a client that keeps no connection
}

// Fail plans a fault.
func (c Control) Fail(ctx context.Context, route string, fault any) error {
	return c.Post(ctx, "fail", map[string]any{"route": route, "fault": fault}, nil)
}

// Get sends an order without an effect, and decodes its response into result.
func (c Control) Get(ctx context.Context, order string, query url.Values, result any) error {
	return c.send(ctx, http.MethodGet, order+"?"+query.Encode(), nil, result)
}

// Post sends an order with a body, and decodes its response into result. Without a response result is nil.
func (c Control) Post(ctx context.Context, order string, body, result any) error {
	text, err := json.Marshal(cmp.Or(body, any(struct{}{})))
	if err != nil {
		return err
	}
	return c.send(ctx, http.MethodPost, order, text, result)
}

func (c Control) send(ctx context.Context, method, order string, body []byte, result any) error {
	request, err := http.NewRequestWithContext(ctx, method, c.URL+"/"+order, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if c.Token != "" {
		request.Header.Set("Authorization", "Bearer "+c.Token)
	}
	response, err := cmp.Or(c.Client, Unkept).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusNoContent && result == nil:
		return nil
	case response.StatusCode == http.StatusOK && result != nil:
		return json.NewDecoder(response.Body).Decode(result)
	}
	var failed struct{ Error string }
	err = json.NewDecoder(response.Body).Decode(&failed)
	return cmp.Or(err, errors.New(failed.Error))
}
