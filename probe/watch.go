package probe

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/assumption"
)

// The limits of a Watcher. A larger response is ignored.
const (
	maxRoutes = 200
	maxBody   = 1 << 20 // bytes
)

// Watcher follows the responses of a client. Its methods are safe for concurrent use.
type Watcher struct {
	report func(change string)

	mu      sync.Mutex
	service *Service
	public  Seen // after the last change
	money   withdrawals
}

// Watch returns a watcher that knows a service, of which known may be nil. Pass its Observe to
// lending.WithObserver. The watcher calls report once for each change, in the goroutine of
// the call:
//
//	fields: GET /api/Loan/get-loan/{loanId} .rate: was number, is string
//
// A change has names and types, and never a value. The first response of a route is not a
// change. A panic of report is logged with its type. A watcher keeps up to 200 routes with 2,000
// fields each, and ignores responses above 1 MiB.
//
// The watcher also learns the forms of refusals and, from a single withdrawal at a time, the
// assumptions with the level "watch": start a withdrawal at staging, confirm it with a wrong one-time password and then
// with the right one, and read the withdrawals before the start, before the confirmation, and then until the new one is there.
func Watch(known *Service, report func(change string)) *Watcher {
	known = cmp.Or(known, newService())
	return &Watcher{report: report, service: known.clone(), public: known.clone().Shapes}
}

// Observe is the function for lending.WithObserver.
func (w *Watcher) Observe(ctx context.Context, start lending.Call) (context.Context, func(lending.Call)) {
	var r lending.Response
	return lending.CaptureResponse(ctx, &r), func(call lending.Call) {
		for _, change := range w.learn(ctx, call, r) {
			w.tell(change)
		}
	}
}

// tell reports a change. The mutation has happened: a panic of the report must not reach its caller.
func (w *Watcher) tell(change string) {
	defer func() {
		if v := recover(); v != nil {
			slog.Error("lending/probe: the report of a change panicked", "panic", fmt.Sprintf("%T", v))
		}
	}()
	w.report(change)
}

// Service returns everything learned so far, to save and for the next Watch.
func (w *Watcher) Service() *Service {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.service.clone()
}

// The marks of a context: a call that may show no record, and a call about a record of the walk.
type mark int

const (
	quiet mark = iota + 1
	own
)

type markKey struct{}

func as(ctx context.Context, m mark) context.Context { return context.WithValue(ctx, markKey{}, m) }

func (w *Watcher) learn(ctx context.Context, call lending.Call, r lending.Response) (changes []string) {
	fresh := call.Idempotency == "" || call.Idempotency == "sent" || call.Idempotency == "check" // no response of an idempotency log
	if !fresh || r.StatusCode == 0 || len(r.Body) > maxBody || strings.Contains(call.Route, "/Authenication/") {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	facts := w.money.learn(call, r)
	if r.StatusCode/100 == 4 {
		name := fmt.Sprint(assumption.ProblemRecord, ": ", r.StatusCode)
		facts[name] = addForm(w.service.Facts[name], refusalForm(r))
	}
	found := differences(w.service, &Service{Facts: facts})
	maps.Copy(w.service.Facts, facts)
	refused := call.Effect != lending.Read && call.Err != nil && call.Outcome != lending.OutcomeDone
	if r.StatusCode/100 == 2 && !refused && ctx.Value(markKey{}) != quiet {
		w.learnShape(found, call.Method+" "+call.Route, r.Body, ctx.Value(markKey{}) == own)
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		for _, line := range found[name] {
			changes = append(changes, name+": "+line)
		}
	}
	return changes
}

func (w *Watcher) learnShape(found map[string][]string, route string, body []byte, own bool) {
	known, all := w.public[route], w.service.Shapes
	if all[route] == nil && len(all) >= maxRoutes {
		return
	}
	if r := all.learn(route, body, own); r != nil && r.news {
		w.public[route] = all[route].public()
		if known != nil {
			place(found, route+" ", known, w.public[route], 0, 0)
		}
	}
}
