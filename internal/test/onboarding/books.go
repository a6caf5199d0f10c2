package onboarding

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/lendingapi/lending-go/lendingtest"
)

// BooksPath is a path below the address of the service, where a person reads whether a mutation happened, as an employee
// of the service would say it. The customer's e-mail address and the key follow; the key is an order and a step.
const BooksPath = "/books/"

type books struct {
	mu      sync.Mutex
	lookups map[string]bool
}

func (b *books) serve(mux *http.ServeMux, service *lendingtest.Service, asked func()) {
	b.lookups = map[string]bool{}
	mux.HandleFunc("GET "+BooksPath+"{email}/{key...}", func(w http.ResponseWriter, q *http.Request) {
		asked()
		key := q.PathValue("key")
		b.mu.Lock()
		b.lookups[key] = true
		b.mu.Unlock()
		_, step, _ := strings.Cut(key, "/")
		_, _ = fmt.Fprint(w, Happened(service.Snapshot(), q.PathValue("email"), step))
	})
}

func (b *books) reviewed() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.lookups))
}

// Happened tells whether a step of a customer's only order is done.
func Happened(state lendingtest.Snapshot, email, step string) bool {
	customer := slices.IndexFunc(state.Customers, func(c lendingtest.Customer) bool { return c.Email == email })
	if customer < 0 {
		return false
	}
	index := slices.IndexFunc(state.Applications, func(a lendingtest.Application) bool {
		return a.CustomerID == state.Customers[customer].ID
	})
	if index < 0 {
		return false
	}
	return Did(state.Applications[index], step)
}

// Did tells whether a step of an order with an application is done.
func Did(application lendingtest.Application, step string) bool {
	step, of, _ := strings.Cut(step, "/")
	switch step {
	case "process":
		return application.ProcessRuns > 0
	case "company":
		return application.Company != nil
	case "applicant":
		return len(application.Applicants) > 0
	case "account":
		return application.PrimaryAccountID != ""
	case "document":
		return slices.ContainsFunc(application.Requirements, func(r lendingtest.Requirement) bool {
			return r.FileType == of && r.IsSubmitted
		})
	case "sign":
		return slices.ContainsFunc(application.Applicants, func(a lendingtest.Applicant) bool { return a.ID == of && a.HasSigned })
	}
	panic("nobody can look up " + step)
}
