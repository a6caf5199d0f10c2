package lendingtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// Step is an order that a scenario gives at a time: the name and the body of a POST of
// [Service.Control], as CONTROL.md lists them.
type Step struct {
	// On starts the step each time that a route has done its work, for example
	// "GET /api/Application/process-application/{applicationId}". Empty starts it once, at Play.
	On string `json:"on,omitempty"`
	// After is how long after that the order is given, by the service's clock: "10m", "72h".
	After span `json:"after,omitempty"`
	// Order is the order's name, for example "update".
	Order string `json:"order"`
	// Body is the order's body. {customerId}, {applicationId} and {loanId} stand for what the
	// execution of On was about.
	Body json.RawMessage `json:"body,omitempty"`
}

// Play adds the steps of a scenario, which is a JSON array of them, to those that are playing.
// The steps happen as the service's clock moves: by itself, by [Service.Advance], or in a
// bubble of testing/synctest. A step that fails is reported to watchers. Reset ends all
// scenarios.
func (s *Service) Play(scenario []byte) error {
	var steps []Step
	d := json.NewDecoder(bytes.NewReader(scenario))
	d.DisallowUnknownFields()
	if err := d.Decode(&steps); err != nil {
		return fmt.Errorf("lendingtest: the scenario: %w", err)
	}
	return s.play(steps)
}

func (s *Service) play(steps []Step) error {
	all := orders()
	for i, step := range steps {
		switch o, ok := all[step.Order]; {
		case !ok || o.method != http.MethodPost:
			return fmt.Errorf("lendingtest: step %d of the scenario: no order %q that changes something", i+1, step.Order)
		case step.On != "" && s.routes[step.On] == nil:
			return fmt.Errorf("lendingtest: step %d of the scenario: no route %q; perhaps %q", i+1, step.On, s.nearest(step.On))
		case step.After < 0:
			return fmt.Errorf("lendingtest: step %d of the scenario: a time before its start", i+1)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, step := range steps {
		if step.On == "" {
			s.schedule(step, nil)
		} else {
			s.steps = append(s.steps, step)
		}
	}
	return nil
}

// schedule has an order given later. It needs s.mu.
func (s *Service) schedule(step Step, about []string) {
	body := slot.ReplaceAllStringFunc(string(step.Body), func(name string) string {
		for _, id := range about {
			switch {
			case name == "{loanId}" && s.loans.get(id) != nil, name == "{applicationId}" && s.applications.get(id) != nil,
				name == "{customerId}" && s.customers.get(id) != nil:
				return id
			}
		}
		return name
	})
	s.at(s.base().Add(step.After.duration()), func(_ time.Time) { s.give(step.Order, body) })
}

var slot = regexp.MustCompile(`\{(customerId|applicationId|loanId)\}`)

// give gives an order, and tells watchers if it fails.
func (s *Service) give(name, body string) {
	if body == "" {
		body = "{}"
	}
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "/"+name, strings.NewReader(body))
	if err == nil {
		_, err = orders()[name].obey(s, r)
	}
	if err != nil {
		s.notify(Event{Failed: fmt.Errorf("lendingtest: the scenario's %s: %w", name, err)})
	}
}

// executedOn starts the steps that wait for a route. It needs s.mu.
func (s *Service) executedOn(c *call) {
	for _, step := range s.steps {
		if step.On == c.route.pattern {
			s.schedule(step, c.entry.about)
		}
	}
}
