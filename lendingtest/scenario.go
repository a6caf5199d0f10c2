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

// Step is an order of a scenario: the name and the body of a POST of [Service.Control], as
// CONTROL.md lists them.
type Step struct {
	// On starts the step each time that this route has run, for example "GET
	// /api/Application/process-application/{applicationId}". Empty starts the step once, at
	// Play.
	On string `json:"on,omitempty"`
	// After delays the order by the service's clock: "10m", "72h".
	After span `json:"after,omitempty"`
	// Order is the name of the order, for example "update".
	Order string `json:"order"`
	// Body is the body of the order. {customerId}, {applicationId} and {loanId} are replaced by
	// the identifiers of the run of On.
	Body json.RawMessage `json:"body,omitempty"`
}

// Play adds the steps of a scenario, which is a JSON array, to the scenarios in progress. The
// steps run as the service's clock advances: by itself, by [Service.Advance], or in a bubble of
// testing/synctest. Watchers receive the error of a failed step. Reset ends all scenarios.
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
			return fmt.Errorf("lendingtest: step %d of the scenario: after is negative", i+1)
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

// schedule schedules an order. It needs s.mu.
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

// give runs an order. If the order fails, give notifies the watchers.
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

// executedOn starts the steps for a route. It needs s.mu.
func (s *Service) executedOn(c *call) {
	for _, step := range s.steps {
		if step.On == c.route.pattern {
			s.schedule(step, c.entry.about)
		}
	}
}
