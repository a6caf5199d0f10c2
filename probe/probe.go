// Package probe tells what the real service does: it measures the assumptions of this project, which
// docs/dev/assumptions.md lists, follows a client in production with [Watch], and teaches lendingtest.WithService. The
// command lending-probe is this package on a command line. In the tests of a partner:
//
//	func TestService(t *testing.T) {
//		learned, err := probe.Load("service.json") // of an earlier run
//		if err != nil {
//			t.Fatal(err)
//		}
//		probe.Run(t, probe.Options{BaseURL: address, Credentials: credentials, Against: learned})
//	}
//
// Without further options the probe only reads. It moves no money.
//
// The package prints and saves no value of a record, with two exceptions: at most 20 short words of a field that is
// called a status, type, kind, stage, phase, frequency or category, and the number of digits and the offset of a time.
// A word must occur in three different records.
//
// Names of members can be values too, for example user names. The package keeps the names that lendingtest or a loaded
// service.json has. Any other name must occur in three different records, or in a record of the walk. Further rules
// keep out maps:
//
//   - If all members of an object have values of the same kind, a name must be in more than half of the objects,
//     and a record of the walk is not enough.
//   - A name without letters, or of several words with a capital letter first, must be in every object.
//   - E-mail addresses, names with more than five digits and names above 100 bytes are never kept.
//
// Records are different if their id is, or without an id the members whose names end with Id, or else any byte.
package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go"
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

	// Partner, Customer and Loan name records to read. The probe finds further customers in the partner's
	// applications and further loans among those of the customers: up to three of each.
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

	// WebhookURL is an https address of a server, which serves the handler that Listen gets. The
	// probe subscribes the customer of the walk, and ends the subscription.
	WebhookURL string
	Listen     func(http.Handler)

	// File lists the records of all walks, as lines of JSON. The probe appends each new record at once. A walk needs
	// a file. After a kill the next walk creates another marked customer.
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
	Made     []Made // by this run
	// MaxLateness is the least value for idempotency.Options.MaxLateness that agrees with the
	// waits of the run; 0 without a walk. A measurement proves no limit.
	MaxLateness time.Duration
	Err         error
}

// Run measures the assumptions.
func Run(t Reporter, o Options) Result {
	t.Helper()
	o.Against = cmp.Or(o.Against, Assumed())
	p := &prober{
		t: t, o: o, why: map[string]string{}, run: uuid.NewString()[:8], learned: Watch(nil, nil), compared: Watch(o.Against, nil),
	}
	err := p.open()
	if err == nil {
		err = p.all(t.Context())
		p.client.Close()
	}
	if p.file.File != nil {
		err = errors.Join(err, p.file.Close())
	}
	result := Result{Err: err, Made: p.made}
	if p.allowed > 0 {
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

type prober struct {
	t        Reporter
	o        Options
	client   *lending.Client
	learned  *Watcher          // from this run alone
	compared *Watcher          // knows the earlier run
	why      map[string]string // from an assumption to the reason why it was not seen
	run      string            // part of the names that the probe makes
	email    string            // of the marked customer
	file     madeFile
	made     []Made
	longest  time.Duration // read lag

	refused, allowed, limited int // 403, 2xx and 429
}

func (p *prober) open() (err error) {
	p.o.LagLimit = cmp.Or(p.o.LagLimit, time.Minute)
	local, host, ok := strings.Cut(p.o.Email, "@")
	p.email = fmt.Sprintf("%s+probe-%s@%s", local, p.run, host)
	switch {
	case p.o.Create && p.o.File == "":
		return errors.New("lending/probe: creating needs File, which lists what was created")
	case p.o.Create && (!ok || local == "" || host == ""):
		return errors.New("lending/probe: creating needs Email, an address of yours")
	}
	if p.o.Create {
		if p.file, err = openMade(p.o.File); err != nil {
			return err
		}
	}
	p.client, err = lending.New(p.o.BaseURL,
		p.options(lending.WithCredentials(p.o.Credentials), lending.WithObserver(p.observe, nil))...)
	return err
}

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
	p.fact(assumption.RateLimit, either(p.limited > 0, "429", "none met"))
	return context.Cause(ctx)
}

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

func (p *prober) observe(ctx context.Context, _ lending.Call) (context.Context, func(lending.Call)) {
	var r lending.Response
	return lending.CaptureResponse(ctx, &r), func(call lending.Call) {
		p.learned.learn(ctx, call, r)
		p.compared.learn(ctx, call, r)
		switch {
		case r.StatusCode == http.StatusTooManyRequests:
			p.limited++
		case r.StatusCode == http.StatusForbidden:
			p.refused++
		case r.StatusCode/100 == 2 && call.Effect == lending.Read && ctx.Value(markKey{}) != quiet:
			p.allowed++
		}
	}
}

// fact records a measured value, a word, a status or a duration and never a value of a record, for an
// assumption or for "assumption: subject".
func (p *prober) fact(name, value string) { p.learned.service.Facts[name] = value }

func (p *prober) unseen(name, why string) {
	name, _, _ = strings.Cut(name, ": ")
	p.why[name] = cmp.Or(p.why[name], why)
}

// result compares the facts with those of the earlier run, or with the assumptions.
func (p *prober) result() Result {
	learned := p.learned.Service()
	r := Result{Service: learned, Made: p.made, MaxLateness: learned.maxLateness()}
	seen := map[string]bool{assumption.Fields: true, assumption.Words: true}
	for name := range learned.Facts {
		name, _, _ = strings.Cut(name, ": ")
		seen[name] = true
	}
	found := differences(p.o.Against, &Service{Facts: learned.Facts, Shapes: p.compared.service.Shapes})
	for _, a := range assumption.All() {
		f := Finding{Name: a.Name, State: Held, Lines: found[a.Name]}
		switch {
		case len(f.Lines) > 0:
			f.State, f.Set = Differs, a.Set
			if a.Name == missingAndUnknown {
				f.Set = `lending.WithMissing("` + strings.ReplaceAll(learned.Facts[a.Name], ", ", `", 404), lending.WithMissing("`) + `", 404)`
			}
		case !seen[a.Name]:
			f.State, f.Lines = NotSeen, []string{cmp.Or(p.why[a.Name], p.missing(a))}
		}
		r.Findings = append(r.Findings, f)
	}
	return r
}

func (p *prober) missing(a assumption.Assumption) string {
	ran := map[assumption.Level]bool{
		assumption.Walk: p.o.Create, assumption.Events: p.o.Create && p.o.WebhookURL != "",
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
		fmt.Fprintf(w, "\nThe file of created records has %d more.\n", len(r.Made))
	}
}
