package lendingtest

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lendingapi/lending-go/internal/assumption"
	"github.com/lendingapi/lending-go/lendingtest/internal/clock"
	"github.com/lendingapi/lending-go/lendingtest/internal/reshape"
	"github.com/lendingapi/lending-go/lendingtest/internal/rules"
)

// facts has the facts that [Service.Assume] takes, with the form of their values. RECIPES.md shows them.
func facts() map[string]string {
	const (
		response = `[1-5]\d\d( (` + assumption.Problem + `|` + assumption.Empty + `|null|\{\}|\[\]|` + assumption.OtherJSON + `|` +
			assumption.WithoutToken + `|` + assumption.WithRefusal + `|[a-z]+/[a-z+-]+))?`
		duration = `(\d+[hms])+`
		refusal  = `(` + assumption.Empty + `|[a-z]+/[a-z.+-]+( (` + assumption.FormArray + `|` + assumption.FormDictionary + `|` +
			assumption.FormBareDictionary + `|` + assumption.FormRecord + `|` + assumption.FormOther + `))?)`
	)
	words := func(words ...string) string { return strings.Join(words, "|") }
	return map[string]string{
		assumption.Absence: response, assumption.EmptyList: response, assumption.ForeignRecords: response,
		assumption.Gateway: response, assumption.MalformedIdentifier: response, assumption.WrongPassword: response,
		assumption.WrongOneTimePassword: response, assumption.TokenRefused: response,
		assumption.DuplicateCustomer: words(response, assumption.SecondRecord),
		assumption.SecondProcessing:  words(response, assumption.SameOffer, "200 with another id"),
		assumption.ProblemRecord:     refusal + `(, ` + refusal + `)*`, assumption.TakeCap: `[1-9]\d*|none.*`,
		assumption.Pages:          words(assumption.SameOrder, assumption.AnotherOrder),
		assumption.Totals:         words(assumption.WholeList, assumption.AnotherNumber),
		assumption.Descending:     words(assumption.Reversed, assumption.Ignored),
		assumption.MessageOrder:   words(assumption.OldestFirst, assumption.NewestFirst),
		assumption.ProcessAnswers: words(assumption.OfferID, assumption.AnotherID), assumption.EmailIdentifies: words(assumption.CreatedID, assumption.AnotherID),
		assumption.SameValue: words(assumption.OneAccount, assumption.TwoAccounts),
		assumption.Refresh:   words(assumption.TokenValid, assumption.TokenGone), assumption.Clock: duration, assumption.LateExecution: duration,
		assumption.WithdrawalListed: words(assumption.OneMore, assumption.FromStart),
		assumption.RateLimit:        `\d+ a minute`, assumption.SizeLimit: `\d+ bytes, ` + response,
	}
}

// learnt is what is known about the real service.
type learnt struct {
	mu     sync.Mutex
	facts  map[string]string
	shapes reshape.Routes
	codes  map[string]string // from the code of a refusal to its assumption
	recent []time.Time       // requests of the last minute
}

// know begins with the forms of a framework, and a service.json.
func (l *learnt) know(framework map[string]string, s reshape.Service) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.facts, l.shapes, l.codes, l.recent = map[string]string{}, s.Shapes, map[string]string{}, nil
	maps.Copy(l.facts, framework)
	maps.Copy(l.facts, s.Facts)
	for _, a := range assumption.All() {
		for _, code := range a.Codes {
			l.codes[code] = a.Name
		}
	}
}

// Assume makes the service answer as a real service may. The fact is a name of docs/dev/assumptions.md,
// or "name: action" for a single route, and the value is a word of service.json. For example:
//
//	service.Assume("absence: get-loan", "400 problem record") // a legacy read
//	service.Assume("wrong password", "200 without a token")
//	service.Assume("foreign records", "403 problem record")
//	service.Assume("rate limit", "60 a minute")
//	service.Assume("size limit", "1000000 bytes, 413 text/html") // the page of a gateway
//
// RECIPES.md lists the facts. An empty value restores the behavior of this model. [Service.Reset]
// returns to [WithService]. Assume panics if the service does not take the fact.
func (l *learnt) Assume(fact, value string) {
	if err := checkFact(fact, value); err != nil {
		panic("lendingtest: " + err.Error())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.facts[fact] = value
}

// checkFact returns an error for a fact that [Service.Assume] does not take.
func checkFact(fact, value string) error {
	name, subject, _ := strings.Cut(fact, ": ")
	action, _, _ := strings.Cut(subject, " of ") // of an application without an offer
	form, known := facts()[name]
	switch {
	case !known:
		return fmt.Errorf("no fact %q; lendingtest/RECIPES.md lists the facts", name)
	case subject != "" && name != assumption.ProblemRecord &&
		!slices.ContainsFunc(rules.Routes(), func(rt rules.Route) bool { return rt.Action() == action }):
		return fmt.Errorf("no route has the action %q", action)
	case value != "" && !regexp.MustCompile("^("+form+")$").MatchString(value):
		return fmt.Errorf("the fact %q takes no %q; the form is %s", name, value, form)
	}
	return nil
}

// checkFacts returns an error for the name of a fact that lending-probe never writes: a typo would change nothing.
func checkFacts(learned map[string]string) error {
	for _, fact := range slices.Sorted(maps.Keys(learned)) {
		name, _, _ := strings.Cut(fact, ": ")
		if !slices.ContainsFunc(assumption.All(), func(a assumption.Assumption) bool { return a.Name == name }) {
			return fmt.Errorf("the service.json has the fact %q, which docs/dev/assumptions.md does not list; correct the name, or update the package", fact)
		}
		if facts()[name] != "" {
			if err := checkFact(fact, ""); err != nil {
				return fmt.Errorf("the service.json has the fact %q: %w", fact, err)
			}
		}
	}
	return nil
}

// known returns a fact, "" if nobody has seen it.
func (l *learnt) known(name, subject string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if value := l.facts[name+": "+subject]; value != "" {
		return value
	}
	return l.facts[name]
}

// seen reports whether the real service has shown the rule of an assumption, for any route.
func (l *learnt) seen(name, route string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if name == assumption.Fields {
		return l.shapes[route] != nil
	}
	for fact, value := range l.facts {
		if own, _, _ := strings.Cut(fact, ": "); own == name && value != "" {
			return true
		}
	}
	return false
}

func (l *learnt) duration(name string) time.Duration {
	d, _ := time.ParseDuration(l.known(name, ""))
	return d
}

// limited counts a request, and returns the time to wait if there were too many in the last minute.
func (l *learnt) limited(now time.Time) time.Duration {
	limit, _ := strconv.Atoi(strings.TrimSuffix(l.known(assumption.RateLimit, ""), " a minute"))
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.recent) > 0 && now.Sub(l.recent[0]) >= time.Minute {
		l.recent = l.recent[1:]
	}
	if limit > 0 && len(l.recent) >= limit {
		return l.recent[0].Add(time.Minute).Sub(now)
	}
	if limit > 0 {
		l.recent = append(l.recent, now)
	}
	return 0
}

// sizeLimit returns the largest body that the host accepts, and the form of the response to a larger body.
func (l *learnt) sizeLimit() (limit int64, form string) {
	bytes, form, _ := strings.Cut(l.known(assumption.SizeLimit, ""), " bytes, ")
	if limit, err := strconv.ParseInt(bytes, 10, 64); err == nil {
		return limit, form
	}
	return hostLimit, ""
}

// respond sends the response of the rules in the form that a real service has shown. If nobody has
// seen the rule, the request log names its assumption.
func (x *exchange) respond(a *rules.Answer, refused *rules.Problem) {
	path, route := x.call.Request.URL.Path, x.call.Route
	name := x.assumption(a, refused)
	if name != "" && !x.seen(name, route.Pattern) {
		x.change(func() { x.entry.Assumed = name })
		if x.cfg.onlySeen {
			x.send(rules.Refusal(x.book, onlySeen(name), path))
			return
		}
	}
	subject := route.Action()
	if refused != nil && refused.ErrorCode == "OfferNotFound" {
		subject = assumption.NoOffer
	}
	form := x.known(name, subject)
	if x.tooLarge {
		_, form = x.sizeLimit()
	}
	if refused != nil || form != "" {
		a = x.formed(form, refused)
	} else {
		a.Body = x.shapes.Apply(route.Pattern, path, a.Body)
		a.PlainText(x.call.Request.Header)
	}
	x.send(a)
}

// assumption returns the assumption behind a response, "" for a published rule.
func (x *exchange) assumption(a *rules.Answer, refused *rules.Problem) string {
	switch {
	case refused != nil && x.call.Route.Pattern == "":
		return assumption.Gateway
	case refused != nil:
		for _, e := range refused.Errors {
			if name := x.codes[e.Code]; name != "" {
				return name
			}
		}
		return cmp.Or(refused.Assumption, x.codes[refused.ErrorCode])
	case a.Status == http.StatusNoContent:
		return assumption.Absence
	case string(a.Body) == "[]":
		return assumption.EmptyList
	case bytes.ContainsRune(a.Body, '{') && !strings.Contains(x.call.Route.Pattern, "/Authenication/"):
		return assumption.Fields
	}
	return ""
}

// onlySeen refuses to answer from an assumption.
func onlySeen(name string) *rules.Problem {
	all := assumption.All()
	a := all[slices.IndexFunc(all, func(a assumption.Assumption) bool { return a.Name == name })]
	advice := "Run lending-probe, and give its service.json to WithService."
	if a.Level == assumption.Ask {
		advice = "Ask the owner of the service, and test this without OnlySeen."
	}
	return rules.Refuse(http.StatusNotImplemented, "OnlySeen", fmt.Sprintf("lendingtest: the response rests on the assumption %q, "+
		"which no service.json has shown (%s): %s. %s", name, a.What, a.How(), advice))
}

// formed returns a response of a form such as "404 problem record", "204 empty" or "200 null".
func (x *exchange) formed(form string, refused *rules.Problem) *rules.Answer {
	status, kind, _ := strings.Cut(form, " ")
	n, numeric := strconv.Atoi(status)
	if refused == nil {
		refused = rules.Refuse(n, "NotFound", "There is no such record.")
	}
	if numeric == nil {
		refused.Status = n
	}
	forms := x.known(assumption.ProblemRecord, strconv.Itoa(refused.Status))
	json := func(body string) *rules.Answer {
		return &rules.Answer{Status: n, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(body)}
	}
	switch kind {
	case assumption.Empty:
		return x.call.Formed(x.book, refused, kind)
	case "null", "{}", "[]":
		return json(kind)
	case assumption.WithoutToken:
		return json(`{"requiresTwoFactor":false}`)
	case "", assumption.Problem:
		return x.call.Formed(x.book, refused, forms)
	case assumption.OtherJSON:
		if strings.Contains(forms, assumption.FormBareDictionary) {
			return x.call.Formed(x.book, refused, forms)
		}
	}
	if strings.Contains(kind, "/") {
		return x.call.Formed(x.book, refused, kind+" "+assumption.FormOther)
	}
	return json(`{"success":false}`)
}

// late executes a mutation late whose caller has gone, if the real service does.
func (x *exchange) late() {
	late := x.duration(assumption.LateExecution)
	if late > 0 && x.fault.Late == 0 && !x.call.Reads() && !clock.Pause(x.call.Request.Context(), toLeave, x.done) {
		x.fault.Late = late
	}
}

// toLeave is the time in which a service with late executions sees that a caller has gone.
const toLeave = 10 * time.Millisecond
