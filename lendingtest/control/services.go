package control

import (
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Services opens further services for testers in the same process: each has a state, a clock, faults, counters and
// webhooks of its own. It serves them below /services/.
type Services struct {
	// Open returns the handler of a new service, which has its control below /_control/. path is the place of the service,
	// which the handler does not see. stop ends the service.
	Open func(path string) (handler http.Handler, stop func())

	mu   sync.Mutex
	open map[string]opened
}

// maxServices limits the services at a time. A service without records takes about 1 MB.
const maxServices = 100

type opened struct {
	handler http.Handler
	stop    func()
}

// Service is a service of [Services].
type Service struct {
	ID      string `json:"id"`
	URL     string `json:"url"`     // base URL of the API and address of the page
	Control string `json:"control"` // URL of its control
}

// ServeHTTP takes a request to its service.
func (s *Services) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, _, inside := strings.Cut(strings.TrimPrefix(r.URL.Path, "/services/"), "/")
	s.mu.Lock()
	found, ok := s.open[id]
	s.mu.Unlock()
	if !ok {
		http.Error(w, "There is no such service: it was deleted, or opened by a sandbox that has ended.", http.StatusNotFound)
		return
	}
	if !inside {
		http.Redirect(w, r, "/services/"+id+"/", http.StatusPermanentRedirect) //nolint:gosec // id is an open service's
		return
	}
	http.StripPrefix("/services/"+id, found.handler).ServeHTTP(w, r)
}

// Close ends all services.
func (s *Services) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.open {
		o.stop()
	}
	s.open = nil
}

func describe(r *http.Request, id string) Service {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	url := scheme + "://" + r.Host + "/services/" + id
	return Service{id, url, url + "/_control"}
}

func openService(c *Control, r *http.Request) (any, error) {
	s := c.options.Services
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) >= maxServices {
		return nil, &refusal{http.StatusTooManyRequests, fmt.Sprintf("%d services are open; send delete-service for one of them", maxServices)}
	}
	if s.open == nil {
		s.open = map[string]opened{}
	}
	id := strings.ToLower(rand.Text()[:12]) // an old address never reaches another tester's service
	handler, stop := s.Open("/services/" + id)
	s.open[id] = opened{handler, stop}
	return describe(r, id), nil
}

func listServices(c *Control, r *http.Request, _ []byte) (any, error) {
	s := c.options.Services
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []Service{}
	for _, id := range slices.Sorted(maps.Keys(s.open)) {
		all = append(all, describe(r, id))
	}
	return all, nil
}

func (s *Services) close(id string) error {
	s.mu.Lock()
	o, ok := s.open[id]
	delete(s.open, id)
	s.mu.Unlock()
	if !ok {
		return fmt.Errorf("no service %q", id)
	}
	o.stop()
	return nil
}
