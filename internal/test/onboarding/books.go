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

// Where workers report, below the address of the service.
const (
	// DoubtsPath takes a key of which a worker does not know what became of it: it follows.
	DoubtsPath = "/doubts/"
	// BooksPath shows a person whether a mutation happened, as an employee of the service would
	// say it: the customer's e-mail address and the key, which is an order and a step, follow.
	BooksPath = "/books/"
)

// books counts keys in doubt, and keys looked up by a person.
type books struct {
	mu               sync.Mutex
	inDoubt, lookups map[string]bool
}

func (b *books) serve(mux *http.ServeMux, service *lendingtest.Service, asked func()) {
	b.inDoubt, b.lookups = map[string]bool{}, map[string]bool{}
	note := func(in map[string]bool, key string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		in[key] = true
	}
	mux.HandleFunc("POST "+DoubtsPath+"{key...}", func(_ http.ResponseWriter, q *http.Request) {
		note(b.inDoubt, q.PathValue("key"))
	})
	mux.HandleFunc("GET "+BooksPath+"{email}/{key...}", func(w http.ResponseWriter, q *http.Request) {
		asked()
		key := q.PathValue("key")
		note(b.inDoubt, key)
		note(b.lookups, key)
		_, step, _ := strings.Cut(key, "/")
		_, _ = fmt.Fprint(w, Happened(service.Snapshot(), q.PathValue("email"), step))
	})
}

func (b *books) result() (inDoubt, lookups []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.inDoubt)), slices.Sorted(maps.Keys(b.lookups))
}

// Happened tells whether a step of a customer's only order is done.
func Happened(state lendingtest.Snapshot, email, step string) bool {
	step, of, _ := strings.Cut(step, "/")
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
	application := state.Applications[index]
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
