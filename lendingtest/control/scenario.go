package control

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/lendingtest/internal/plain"
	"github.com/lendingapi/lending-go/lendingtest/internal/rules"
)

// Step is an order of a scenario: the name and the body of a POST of the control, as CONTROL.md
// lists them.
type Step struct {
	// On starts the step each time that this route has run, for example "GET
	// /api/Application/process-application/{applicationId}". Empty starts the step once, at
	// Play.
	On string `json:"on,omitempty"`
	// After delays the order by the service's clock: "10m", "72h".
	After time.Duration `json:"after,omitempty"`
	// Order is the name of the order, for example "update".
	Order string `json:"order"`
	// Body is the body of the order. {customerId}, {applicationId} and {loanId} are replaced by
	// the identifiers of the run of On, except in a route.
	Body json.RawMessage `json:"body,omitempty"`
}

// MarshalJSON encodes the duration as text.
func (s Step) MarshalJSON() ([]byte, error) { return plain.Marshal(s) }

// UnmarshalJSON rejects unknown names.
func (s *Step) UnmarshalJSON(b []byte) error { return plain.Unmarshal(b, s) }

// Play adds the steps of a scenario, which is a JSON array, to the scenarios in progress. The
// steps run as the service's clock advances: by itself, by Advance, or in a bubble of
// testing/synctest. Reset ends all scenarios. Play checks every step before the first runs.
func (c *Control) Play(scenario []byte) error {
	var steps []Step
	d := json.NewDecoder(bytes.NewReader(scenario))
	if err := d.Decode(&steps); err != nil {
		return fmt.Errorf("lendingtest: the scenario: %w", err)
	}
	return c.play(steps)
}

func (c *Control) play(steps []Step) error {
	for i, step := range steps {
		if err := step.check(); err != nil {
			return fmt.Errorf("lendingtest: step %d of the scenario: %w", i+1, err)
		}
	}
	for _, step := range steps {
		if step.On == "" {
			c.service.After(step.After, func() { c.run(step, nil) })
			continue
		}
		c.service.On(step.On, func(r lendingtest.Request) {
			c.service.After(step.After, func() { c.run(step, r.About) })
		})
	}
	return nil
}

// check rejects a step that could never run, with identifiers in place of the placeholders.
func (s Step) check() error {
	o, ok := orders()["POST "+s.Order]
	switch {
	case !ok:
		return fmt.Errorf("no order %q that changes something", s.Order)
	case s.On != "" && rules.Known(s.On) != nil:
		return rules.Known(s.On)
	case s.After < 0:
		return fmt.Errorf("after is negative")
	}
	body, err := s.filled(func(name string) (string, error) {
		switch {
		case !slices.Contains([]string{"customerId", "applicationId", "loanId"}, name):
			return "", fmt.Errorf("no placeholder {%s}; there are {customerId}, {applicationId} and {loanId}", name)
		case s.On == "":
			return "", fmt.Errorf("{%s} needs on, the route whose identifiers it takes", name)
		}
		return "00000001-0000-4000-8000-000000000001", nil
	})
	if err == nil {
		_, err = o.read(nil, body)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.Order, err)
	}
	return nil
}

// run gives the order of a step. about has the identifiers of the run of On.
func (c *Control) run(s Step, about []string) {
	body, err := s.filled(func(name string) (string, error) {
		i := slices.IndexFunc(about, func(id string) bool { return c.service.Kind(id)+"Id" == name })
		if i < 0 {
			return "", fmt.Errorf("%s had no {%s}", s.On, name)
		}
		return about[i], nil
	})
	if err == nil {
		var do do
		if do, err = orders()["POST "+s.Order].read(nil, body); err == nil {
			_, err = c.give(context.Background(), do, nil)
		}
	}
	if err != nil {
		c.options.Failed(fmt.Errorf("lendingtest: the scenario's %s: %w", s.Order, err))
	}
}

var slot = regexp.MustCompile(`\{\w+\}`)

// filled returns the body with the placeholders replaced.
func (s Step) filled(replace func(name string) (string, error)) (body []byte, err error) {
	var fill func(v any) any
	fill = func(v any) any {
		switch v := v.(type) {
		case string:
			return slot.ReplaceAllStringFunc(v, func(name string) string {
				id, failed := replace(strings.Trim(name, "{}"))
				if err == nil {
					err = failed
				}
				return id
			})
		case []any:
			for i := range v {
				v[i] = fill(v[i])
			}
		case map[string]any:
			for name := range v {
				if name != "route" {
					v[name] = fill(v[name])
				}
			}
		}
		return v
	}
	body = plain.JSON(fill(plain.Decode(s.Body)))
	return body, err
}
