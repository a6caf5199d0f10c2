// Package probe measures the assumptions of this project about the service at a real service:
// docs/assumptions.md lists them. The command lending-probe is this package on a
// command line. In the tests of a partner:
//
//	func TestService(t *testing.T) {
//		learned, err := probe.Load("service.json") // of an earlier run
//		if err != nil {
//			t.Fatal(err)
//		}
//		probe.Run(t, probe.Options{BaseURL: address, Credentials: credentials, Against: learned})
//	}
//
// Without further options the probe only reads. It never prints or saves a value of a record.
package probe

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/internal/assumption"
)

// Reporter is the part of a *testing.T for the probe.
type Reporter interface {
	// Context ends the run.
	Context() context.Context
	// Helper marks the probe in the lines of a failure.
	Helper()
	// Logf gets a line before each step.
	Logf(format string, args ...any)
	// Errorf gets a line for each difference, and the reason of an early end.
	Errorf(format string, args ...any)
}

// Options are the options of [Run].
type Options struct {
	BaseURL     string
	Credentials lending.Credentials
	// HTTPClient sends all requests: see lending.WithHTTPClient. Nil means the client's own transport.
	HTTPClient *http.Client

	// Partner, Customer and Loan name records to read. The probe looks for a missing customer in
	// the partner's applications, and for a missing loan among the customer's loans.
	Partner  lending.PartnerID
	Customer lending.CustomerID
	Loan     lending.LoanID

	// Create allows the walk: a marked customer with an application up to the offer. The probe
	// cancels the application in the end. Email is an address of yours, such as
	// "tests@partner.example". The customer gets a variant, such as "tests+probe-1a2b3c4d@partner.example".
	Create bool
	Email  string
	// BankData has the bank data of the application. Nil means the names of lendingtest.
	BankData *lending.BankingDataRequest

	// Withdraw is an amount to withdraw from Loan, "" for none. OTP returns the one-time password
	// of the service.
	Withdraw json.Number
	OTP      func(context.Context) (string, error)

	// WebhookURL is an https address of a server, which serves the handler that Listen gets. The
	// probe subscribes the customer of the walk, and ends the subscription.
	WebhookURL string
	Listen     func(http.Handler)

	// File lists the records and the steps of a run. After a kill, a run with the same file goes on
	// with the same idempotency keys. A walk and a withdrawal need a file.
	File string
	// LagLimit bounds each wait. The default is a minute.
	LagLimit time.Duration
	// Against is the knowledge of an earlier run. Nil means the assumptions of this project.
	Against *Service
}

// State is the result for an assumption.
type State string

// The states of an assumption.
const (
	// Held means: measured, as assumed.
	Held State = "held"
	// Differs means: measured, and the service does something else.
	Differs State = "differs"
	// NotSeen means: not measured.
	NotSeen State = "not seen"
)

// Finding is an assumption with its state.
type Finding struct {
	Name  string
	State State
	Lines []string // the differences, or the reason why the assumption was not seen
	Set   string   // the setting to change if the assumption differs
}

// Result is the result of a run. Err is the reason of an early end.
type Result struct {
	Service  *Service
	Findings []Finding
	Made     []Made // by all runs with the same file
	// MaxLateness is the least value for idempotency.Options.MaxLateness that agrees with the
	// waits of the run; 0 without a walk or a withdrawal. A measurement proves no limit.
	MaxLateness time.Duration
	Err         error
}

//go:embed assumed.json
var assumedJSON []byte

// Assumed returns the assumptions of this project as facts: the answers of lendingtest.
func Assumed() *Service {
	s, err := parse(assumedJSON, "assumed.json")
	if err != nil {
		panic(err) // a test reads the same bytes
	}
	return s
}

// Run measures the assumptions.
func Run(t Reporter, o Options) Result {
	t.Helper()
	p := &prober{t: t, o: o, why: map[string]string{}}
	err := p.open(t.Context())
	if err == nil {
		err = p.all(t.Context())
		p.client.Close()
	}
	result := Result{Err: err}
	if p.run != nil && p.allowed > 0 {
		result = p.result()
		result.Err = err
	}
	for _, f := range result.Findings {
		for _, line := range f.Lines {
			if f.State == Differs {
				t.Errorf("%s: %s", f.Name, line)
			}
		}
	}
	if err != nil {
		t.Errorf("%v", err)
	}
	return result
}

// prober is a run.
type prober struct {
	t      Reporter
	o      Options
	client *lending.Client
	run    *state
	why    map[string]string // from an assumption to the reason why it was not seen

	refused, allowed, limited int // 403, 2xx and 429
}

func (p *prober) open(ctx context.Context) error {
	p.o.LagLimit = cmp.Or(p.o.LagLimit, time.Minute)
	switch local, host, ok := strings.Cut(p.o.Email, "@"); {
	case (p.o.Create || p.o.Withdraw != "") && p.o.File == "":
		return errors.New("lending/probe: creating and withdrawing need File, which lists what was created")
	case p.o.Create && (!ok || local == "" || host == ""):
		return errors.New("lending/probe: creating needs Email, an address of yours")
	case p.o.Withdraw != "" && (p.o.Loan.IsZero() || p.o.OTP == nil):
		return errors.New("lending/probe: a withdrawal needs Loan and OTP")
	case p.o.Withdraw != "" && !isAmount(p.o.Withdraw):
		return errors.New("lending/probe: Withdraw is no amount; give a positive number such as 2500.00")
	}
	var err error
	if !p.o.Create && p.o.Withdraw == "" {
		p.o.File = ""
	}
	if p.run, err = openState(p.o.File, p.o.BaseURL, time.Now()); err != nil {
		return err
	}
	if w := p.run.Withdrawal; w != nil && p.o.Withdraw != "" && (w.LoanID != p.o.Loan || w.Amount != p.o.Withdraw) {
		return fmt.Errorf("lending/probe: %s has an unfinished withdrawal of another amount, or from another loan; "+
			"give the amount and the loan of its member withdrawal, or name another file", p.o.File)
	}
	kept, err := openEntries(ctx, p.run)
	if err != nil {
		return err
	}
	log, err := idempotency.NewLog(kept, &idempotency.Options{MaxLateness: max(5*time.Minute, p.o.LagLimit)})
	if err != nil {
		return err
	}
	p.client, err = lending.New(p.o.BaseURL, p.options(
		lending.WithCredentials(p.o.Credentials), lending.WithIdempotency(log), lending.WithObserver(p.observe, nil))...)
	return err
}

// isAmount reports whether the service can read an amount.
func isAmount(n json.Number) bool {
	amount, err := n.Float64()
	return err == nil && amount > 0 && json.Valid([]byte(n))
}

// options adds the caller's HTTP client.
func (p *prober) options(all ...lending.Option) []lending.Option {
	if p.o.HTTPClient != nil {
		all = append(all, lending.WithHTTPClient(p.o.HTTPClient))
	}
	return all
}

func (p *prober) all(ctx context.Context) error {
	p.t.Logf("Signing in.")
	token, err := p.client.Session().Token(ctx)
	if err != nil {
		return noEntry(err)
	}
	if p.run.Begun["customer"] {
		p.t.Logf("Going on with run %s of %s.", p.run.Run, p.run.Started.Format(time.DateTime))
	}
	if err := p.network(ctx); err != nil {
		return err
	}
	p.session(ctx, token)
	p.look(ctx)
	if p.allowed == 0 && p.refused > 0 {
		return errors.New("lending/probe: the account may read nothing: each read was refused with 403; ask for the rights of a partner")
	}
	if p.o.Create {
		if err := p.walk(ctx); err != nil {
			return err
		}
	}
	if p.o.Withdraw != "" {
		if err := p.money(ctx); err != nil {
			return err
		}
	}
	p.fact("rate limit", either(p.limited > 0, "429", "none met"))
	return errors.Join(p.run.change(func() { p.run.Ended = true }), context.Cause(ctx))
}

// noEntry explains a failed sign-in.
func noEntry(err error) error {
	failed, ok := errors.AsType[*lending.Error](err)
	switch {
	case errors.Is(err, lending.ErrSignInRequired):
		return fmt.Errorf("lending/probe: the sign-in was refused; check the user name, the password and the code: %w", err)
	case ok && failed.StatusCode > 0:
		return fmt.Errorf("lending/probe: the sign-in failed with status %d; check the base URL and the credentials: %w", failed.StatusCode, err)
	}
	return fmt.Errorf("lending/probe: the service cannot be reached; check the base URL and the network: %w", err)
}

// quiet marks the context of a call whose response may show no record.
type quiet struct{}

// hushed returns a context whose responses teach no fields.
func hushed(ctx context.Context) context.Context { return context.WithValue(ctx, quiet{}, true) }

// observe learns from each response.
func (p *prober) observe(ctx context.Context, _ lending.Call) (context.Context, func(lending.Call)) {
	var r lending.Response
	return lending.CaptureResponse(ctx, &r), func(call lending.Call) {
		if call.Idempotency != "" && call.Idempotency != "sent" || strings.Contains(call.Route, "/Authenication/") {
			return // a response of the log, a read of the log that can find nothing, or a published record
		}
		switch learned := p.run.Learned; {
		case r.StatusCode == http.StatusTooManyRequests:
			p.limited++
		case r.StatusCode == http.StatusForbidden:
			p.refused++
		case r.StatusCode/100 == 2 && ctx.Value(quiet{}) == nil:
			if call.Effect == lending.Read {
				p.allowed++
			}
			learned.Shapes.Learn(call.Method+" "+call.Route, r.Body)
		}
		if r.StatusCode/100 == 4 && len(r.Body) > 0 {
			p.run.Learned.Shapes.Learn(Refusals, r.Body)
			p.fact(fmt.Sprint("problem record: ", r.StatusCode), mediaType(r.Header))
		}
	}
}

func mediaType(h http.Header) string {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	if kind = strings.ToLower(strings.TrimSpace(kind)); kind == "" || !fact.MatchString(kind) {
		return "no content type"
	}
	return kind
}

// fact records a measured value, a word, a status or a duration and never a value of a record, for an
// assumption or for "assumption: subject".
func (p *prober) fact(name, value string) { p.run.Learned.Facts[name] = value }

// unseen records why an assumption was not measured.
func (p *prober) unseen(name, why string) {
	name, _, _ = strings.Cut(name, ": ")
	p.why[name] = cmp.Or(p.why[name], why)
}

// result compares the facts with those of the earlier run, or with the assumptions.
func (p *prober) result() Result {
	learned := p.run.Learned
	r := Result{Service: learned, Made: p.run.Made, MaxLateness: learned.maxLateness()}
	seen := map[string]bool{"fields": p.allowed > 0, "words": p.allowed > 0}
	for name := range learned.Facts {
		name, _, _ = strings.Cut(name, ": ")
		seen[name] = true
	}
	found := differences(cmp.Or(p.o.Against, Assumed()), learned)
	for _, a := range assumption.All() {
		f := Finding{Name: a.Name, State: Held, Lines: found[a.Name]}
		switch {
		case len(f.Lines) > 0:
			f.State, f.Set = Differs, a.Set
		case !seen[a.Name]:
			f.State, f.Lines = NotSeen, []string{cmp.Or(p.why[a.Name], p.missing(a))}
		}
		r.Findings = append(r.Findings, f)
	}
	return r
}

// missing tells why an assumption was not measured.
func (p *prober) missing(a assumption.Assumption) string {
	ran := map[assumption.Level]bool{
		assumption.Walk: p.o.Create, assumption.Money: p.o.Withdraw != "", assumption.Events: p.o.Create && p.o.WebhookURL != "",
	}
	if ran[a.Level] {
		a.Level = assumption.Look
	}
	return a.How()
}

// Print writes the table of a result, differences first, and what to set.
func (r Result) Print(w io.Writer) {
	const indent = 44
	for _, state := range []State{Differs, Held, NotSeen} {
		count := 0
		for _, f := range r.Findings {
			if f.State == state {
				count++
				line := fmt.Sprintf("%-10s%-*s%s", state, indent-10, f.Name, strings.Join(f.Lines, "\n"+strings.Repeat(" ", indent)))
				fmt.Fprintln(w, strings.TrimRight(line, " "))
			}
		}
		fmt.Fprintf(w, "%d %s\n\n", count, map[State]string{Differs: "differ", Held: "held", NotSeen: "not seen"}[state])
	}
	advice := ""
	if r.MaxLateness > 0 {
		advice = fmt.Sprintf("  idempotency.Options.MaxLateness: not below %s (default 5m0s)\n", r.MaxLateness)
	}
	for _, f := range r.Findings {
		if f.Set != "" && f.Set != "nothing" && !strings.HasPrefix(f.Set, "nothing: ") {
			advice += fmt.Sprintf("  %s: %s\n", f.Name, f.Set)
		}
	}
	fmt.Fprintf(w, "What to set\n%s", cmp.Or(advice, "  nothing\n"))
	if len(r.Made) > 0 {
		fmt.Fprintf(w, "\nThe file of the run lists %d records that the probe has created.\n", len(r.Made))
	}
}
