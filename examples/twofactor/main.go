// Twofactor shows both ways to sign in with a two-factor code:
//
//   - A program with a user at hand has a function for the code.
//   - A web service cannot ask the user in the middle of a request. The sign-in returns a
//     challenge, which the service saves as JSON. Another request, perhaps in another process,
//     completes the challenge.
//
// The program needs only Go, because it contains the service.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"sync"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "twofactor:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("twofactor", flag.ContinueOnError)
	flags.SetOutput(stderr)
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	say(stdout, "== A function that returns the code")
	if err := callback(ctx, stdout); err != nil {
		return err
	}
	say(stdout, "\n== Two requests of a web service")
	return web(ctx, stdout)
}

// callback signs in with a function that asks a person for the code. The person first enters a
// wrong code.
func callback(ctx context.Context, out io.Writer) error {
	service := lendingtest.NewServer()
	defer service.Close()
	client, err := lending.New(service.URL, lending.WithCredentials(lending.Credentials{
		Username: lendingtest.Username,
		Password: lending.NewSecret(lendingtest.Password),
		TwoFactor: func(_ context.Context, challenge lending.Challenge) (string, error) {
			if challenge.Attempt == 1 {
				say(out, "Asked for the code: entered a wrong code.")
				return "000000", nil
			}
			say(out, "Asked again: entered the code from the phone.")
			return service.TwoFactorCode(lendingtest.Username), nil
		},
	}))
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Session().SignIn(ctx); err != nil {
		return err
	}
	say(out, "Signed in. Codes sent: %d.", len(service.Sent()))
	return nil
}

// web signs in with two requests to a web service with two replicas. The first request reports
// the need for a code. The second request, at the other replica, has the code.
func web(ctx context.Context, out io.Writer) error {
	service := lendingtest.NewServer()
	defer service.Close()
	tokens := lending.NewMemoryTokenStore() // between machines use contrib/redis
	challenges := &shelf{}
	var replicas [2]string // their addresses
	for i := range replicas {
		address, stop, err := replica(service.URL, tokens, challenges)
		if err != nil {
			return err
		}
		defer stop() //nolint:gocritic // both run until the end
		replicas[i] = address
	}

	customer := url.Values{"email": {"ada@example.com"}}
	for _, step := range []struct {
		replica int
		path    string
		form    url.Values
	}{
		{0, "/customers", customer},
		{1, "/code", url.Values{"code": {"000000"}}},
		{1, "/code", nil}, // with the correct code
		{0, "/customers", customer},
	} {
		if step.form == nil {
			step.form = url.Values{"code": {service.TwoFactorCode(lendingtest.Username)}}
		}
		answer, err := post(ctx, replicas[step.replica]+step.path, step.form)
		if err != nil {
			return err
		}
		say(out, "POST %-10s at replica %d: %s", step.path, step.replica+1, answer)
	}
	say(out, "Codes sent: %d.", len(service.Sent()))
	return nil
}

// replica starts a replica of the web service.
func replica(service string, tokens lending.TokenStore, challenges *shelf) (address string, stop func(), err error) {
	client, err := lending.New(service, lending.WithTokenStore(tokens), lending.WithCredentials(lending.Credentials{
		Username: lendingtest.Username,
		Password: lending.NewSecret(lendingtest.Password),
	}))
	if err != nil {
		return "", nil, err
	}
	server := httptest.NewServer(handler(client, challenges))
	return server.URL, func() { server.Close(); client.Close() }, nil
}

// shelf keeps the challenge that waits for its code. A real web service uses a row in its
// database. The challenge stays on the server; never send the challenge to the browser.
type shelf struct {
	mu   sync.Mutex
	text []byte
}

func (s *shelf) put(challenge lending.Challenge) error {
	text, err := json.Marshal(challenge)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = text
	return nil
}

func (s *shelf) take() (challenge lending.Challenge, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err = json.Unmarshal(s.text, &challenge)
	return challenge, err
}

// handler is the web service. It has a page that calls the lending service and a page for the
// code.
func handler(client *lending.Client, challenges *shelf) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /customers", func(w http.ResponseWriter, r *http.Request) {
		created, err := client.Applications.CreateCustomer(r.Context(), lending.UserRequest{
			FirstName: "Ada", LastName: "Lovelace", Email: r.FormValue("email"),
			Password: lending.NewSecret("Analytical-Engine-1"), MobileNumber: "4155550100",
		})
		var required *lending.TwoFactorRequiredError
		switch {
		case errors.As(err, &required):
			if err := challenges.put(required.Challenge); err != nil {
				http.Error(w, "the challenge cannot be kept", http.StatusInternalServerError)
				return
			}
			http.Error(w, "enter the code that was sent to you", http.StatusUnauthorized)
		case err != nil:
			http.Error(w, err.Error(), http.StatusBadGateway)
		default:
			fmt.Fprintf(w, "created customer %s\n", created.ID)
		}
	})
	mux.HandleFunc("POST /code", func(w http.ResponseWriter, r *http.Request) {
		challenge, err := challenges.take()
		if err != nil {
			http.Error(w, "no code is due", http.StatusConflict)
			return
		}
		switch err := client.Session().CompleteTwoFactor(r.Context(), challenge, r.FormValue("code")); {
		case lending.OutcomeOf(err) == lending.OutcomeRejected:
			http.Error(w, "this code is wrong, try again", http.StatusBadRequest)
		case err != nil:
			http.Error(w, err.Error(), http.StatusBadGateway)
		default:
			fmt.Fprintln(w, "signed in")
		}
	})
	return mux
}

// post sends a form and returns status and text of the response.
func post(ctx context.Context, address string, form url.Values) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return fmt.Sprintf("%d %s", response.StatusCode, strings.TrimSpace(string(text))), err
}

func say(out io.Writer, format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
