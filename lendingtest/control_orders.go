package lendingtest

import (
	"cmp"
	"io"
	"net/http"
)

// The bodies of orders.
type (
	faultOrder struct {
		Route string `json:"route"`
		Fault Fault  `json:"fault"`
	}
	answerOrder struct {
		Route  string       `json:"route"`
		Answer *FixedAnswer `json:"answer"` // null brings the service's back
	}
	timeOrder struct {
		By span `json:"by"`
	}
	deliveryOrder struct {
		Number int `json:"number"`
	}
	applicationOrder struct {
		ApplicationID string `json:"applicationId"`
	}
	nothing struct{}
)

// FixedAnswer is what [Remote.Answer] has a route answer.
type FixedAnswer struct {
	Status      int         `json:"status,omitempty"` // 200 unless told
	ContentType string      `json:"contentType,omitempty"`
	Header      http.Header `json:"header,omitempty"`
	Body        string      `json:"body,omitempty"`
}

// ServeHTTP answers a request with it.
func (a *FixedAnswer) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	for key, values := range a.Header {
		w.Header()[http.CanonicalHeaderKey(key)] = values
	}
	if a.ContentType != "" {
		w.Header().Set("Content-Type", a.ContentType)
	}
	w.WriteHeader(cmp.Or(a.Status, http.StatusOK))
	_, _ = io.WriteString(w, a.Body)
}

func asked(r *http.Request, name string) string { return r.URL.Query().Get(name) }

func orders() map[string]order {
	return map[string]order{
		"fail": {do: func(s *Service, r *http.Request) (any, error) {
			o, err := read[faultOrder](r)
			if err == nil {
				s.Fail(o.Route, o.Fault)
			}
			return nil, err
		}},
		"clear-faults": {do: func(s *Service, r *http.Request) (any, error) {
			_, err := read[nothing](r)
			if err == nil {
				s.ClearFaults()
			}
			return nil, err
		}},
		"answer": {do: func(s *Service, r *http.Request) (any, error) {
			o, err := read[answerOrder](r)
			switch {
			case err != nil:
			case o.Answer == nil:
				s.Answer(o.Route, nil)
			default:
				s.Answer(o.Route, o.Answer.ServeHTTP)
			}
			return nil, err
		}},
		"arrived": {query: []string{"route"}, do: func(s *Service, r *http.Request) (any, error) {
			return s.Arrived(asked(r, "route")), nil
		}},
		"executed": {query: []string{"route", "for"}, do: func(s *Service, r *http.Request) (any, error) {
			if r.URL.Query().Has("for") {
				return s.ExecutedFor(asked(r, "route"))[asked(r, "for")], nil
			}
			return s.Executed(asked(r, "route")), nil
		}},
		"executed-for": {query: []string{"route"}, do: func(s *Service, r *http.Request) (any, error) {
			return s.ExecutedFor(asked(r, "route")), nil
		}},
		"otp": {query: []string{"loan"}, do: func(s *Service, r *http.Request) (any, error) {
			return s.OTP(asked(r, "loan")), nil
		}},
		"two-factor-code": {query: []string{"username"}, do: func(s *Service, r *http.Request) (any, error) {
			return s.TwoFactorCode(asked(r, "username")), nil
		}},
		"snapshot": {query: []string{}, do: func(s *Service, _ *http.Request) (any, error) {
			return s.Snapshot(), nil
		}},
		"restore": {do: func(s *Service, r *http.Request) (any, error) {
			snap, err := read[Snapshot](r)
			if err == nil {
				err = s.Restore(snap)
			}
			return nil, err
		}},
		"reset": {do: func(s *Service, r *http.Request) (any, error) {
			_, err := read[nothing](r)
			if err == nil {
				s.Reset()
			}
			return nil, err
		}},
		"advance": {do: func(s *Service, r *http.Request) (any, error) {
			o, err := read[timeOrder](r)
			s.Advance(o.By.duration())
			return nil, err
		}},
		"add-loan": {do: func(s *Service, r *http.Request) (any, error) {
			l, err := read[loanForm](r)
			if err != nil {
				return nil, err
			}
			return loanForm(s.AddLoan(Loan(l))), nil
		}},
		"expire-offer": {do: func(s *Service, r *http.Request) (any, error) {
			o, err := read[applicationOrder](r)
			if err == nil {
				s.ExpireOffer(o.ApplicationID)
			}
			return nil, err
		}},
		"deliveries": {query: []string{}, do: func(s *Service, _ *http.Request) (any, error) {
			return s.Deliveries(), nil
		}},
		"redeliver": {do: func(s *Service, r *http.Request) (any, error) {
			o, err := read[deliveryOrder](r)
			if err != nil {
				return nil, err
			}
			return nil, s.redeliver(o.Number)
		}},
		"wait": {do: func(s *Service, r *http.Request) (any, error) {
			_, err := read[nothing](r)
			if err == nil {
				err = s.Wait(r.Context())
			}
			return nil, err
		}},
	}
}
