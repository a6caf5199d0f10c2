package lendingtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
)

// The bodies of orders.
type (
	faultOrder struct {
		Route string `json:"route"`
		Fault *Fault `json:"fault"`
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

func (a *FixedAnswer) serve(w http.ResponseWriter, _ *http.Request) {
	maps.Copy(w.Header(), canonical(a.Header))
	if a.ContentType != "" {
		w.Header().Set("Content-Type", a.ContentType)
	}
	w.WriteHeader(cmp.Or(a.Status, http.StatusOK))
	_, _ = io.WriteString(w, a.Body)
}

// orders is what Control knows, by name.
func orders() map[string]order {
	all := map[string]order{
		"arrived": show(func(s *Service, q url.Values) any { return s.Arrived(q.Get("route")) }, "route"),
		"executed": show(func(s *Service, q url.Values) any {
			if q.Has("for") {
				return s.ExecutedFor(q.Get("route"))[q.Get("for")]
			}
			return s.Executed(q.Get("route"))
		}, "route", "for"),
		"executed-for":    show(func(s *Service, q url.Values) any { return s.ExecutedFor(q.Get("route")) }, "route"),
		"otp":             show(func(s *Service, q url.Values) any { return s.OTP(q.Get("loan")) }, "loan"),
		"two-factor-code": show(func(s *Service, q url.Values) any { return s.TwoFactorCode(q.Get("username")) }, "username"),
		"snapshot":        show(func(s *Service, _ url.Values) any { return s.Snapshot() }),
		"deliveries":      show(func(s *Service, _ url.Values) any { return s.Deliveries() }),
	}
	maps.Copy(all, changes())
	return all
}

// changes are the orders that are POSTs.
func changes() map[string]order {
	return map[string]order{
		"fail": post(func(s *Service, _ context.Context, o faultOrder) (any, error) {
			if err := o.Fault.check(); err != nil {
				return nil, err
			}
			s.Fail(o.Route, *o.Fault)
			return nil, nil
		}),
		"clear-faults": change(func(s *Service, _ nothing) { s.ClearFaults() }),
		"answer": post(func(s *Service, _ context.Context, o answerOrder) (any, error) {
			if o.Answer == nil {
				s.Answer(o.Route, nil)
				return nil, nil
			}
			if err := checkStatus(o.Answer.Status); err != nil {
				return nil, err
			}
			s.Answer(o.Route, o.Answer.serve)
			return nil, nil
		}),
		"reset": change(func(s *Service, _ nothing) { s.Reset() }),
		"advance": post(func(s *Service, _ context.Context, o timeOrder) (any, error) {
			if o.By == 0 {
				return nil, errors.New("advance wants by")
			}
			return nil, s.advance(o.By.duration())
		}),
		"expire-offer": change(func(s *Service, o applicationOrder) { s.ExpireOffer(o.ApplicationID) }),
		"add-loan": post(func(s *Service, _ context.Context, l loanForm) (any, error) {
			return loanForm(s.AddLoan(Loan(l))), nil
		}),
		"restore":   post(func(s *Service, _ context.Context, snap Snapshot) (any, error) { return nil, s.Restore(snap) }),
		"redeliver": post(func(s *Service, _ context.Context, o deliveryOrder) (any, error) { return nil, s.redeliver(o.Number) }),
		"wait":      post(func(s *Service, ctx context.Context, _ nothing) (any, error) { return nil, s.Wait(ctx) }),
	}
}

// show is an order that answers with what f returns. Nothing else may be in its query.
func show(f func(*Service, url.Values) any, query ...string) order {
	return order{method: http.MethodGet, query: query, do: func(s *Service, r *http.Request) (any, error) {
		return f(s, r.URL.Query()), nil
	}}
}

// change is an order that has no answer.
func change[T any](f func(*Service, T)) order {
	return post(func(s *Service, _ context.Context, body T) (any, error) {
		f(s, body)
		return nil, nil
	})
}

func post[T any](f func(*Service, context.Context, T) (any, error)) order {
	return order{method: http.MethodPost, do: func(s *Service, r *http.Request) (any, error) {
		body, err := read[T](r)
		if err != nil {
			return nil, err
		}
		return f(s, r.Context(), body)
	}}
}

// check refuses what would be a fault that never shows, or none that can be sent.
func (f *Fault) check() error {
	switch {
	case f == nil:
		return errors.New("fail wants fault")
	case f.Late < 0 || f.AnswerDelay < 0 || f.DelayBefore < 0 || f.RetryAfter < 0:
		return errors.New("a duration is below zero")
	case f.Times < -1:
		return errors.New("times wants a number from 1, or -1 for ever")
	case f.CutBody < -1:
		return errors.New("cutBody wants a number of bytes, or -1 for none of them")
	case f.changesNothing():
		return errors.New("the fault changes nothing: it wants status, answerDelay, delayBefore, late, cutBody, resetBefore or resetAfter")
	}
	return checkStatus(f.Status)
}

// changesNothing reports whether every request would be answered as usual.
func (f *Fault) changesNothing() bool {
	return f.Status == 0 && f.AnswerDelay == 0 && f.DelayBefore == 0 && f.Late == 0 && f.CutBody == 0 && !f.ResetBefore && !f.ResetAfter
}

func checkStatus(status int) error {
	if status != 0 && (status < 200 || status > 999) {
		return fmt.Errorf("a status of %d cannot be answered", status)
	}
	return nil
}
