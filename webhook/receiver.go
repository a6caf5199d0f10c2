package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/claimer"
	"github.com/lendingapi/lending-go/internal/redact"
	"github.com/lendingapi/lending-go/internal/safely"
)

// EventFunc handles or stores an event. If the function returns nil or [ErrDuplicate], the event
// counts as accepted. After another error, a panic or [runtime.Goexit] the event does not.
//
// Return nil for events that do not concern you. Events arrive in any order, more than once, and
// with unknown names. Many goroutines call the function at the same time.
type EventFunc func(ctx context.Context, event *Event) error

// ErrDuplicate is the result of an [EventFunc] for an event that was accepted before: a success.
var ErrDuplicate = errors.New("lending/webhook: the event was accepted before")

func accepted(err error) bool { return err == nil || errors.Is(err, ErrDuplicate) }

// EventFuncs has a function for each event name.
type EventFuncs map[lending.EventName]EventFunc

// Or returns an [EventFunc] that calls the function for the event's name, or other for an event
// without a function: the service may add events at any time. If other is nil, the result is nil.
func (f EventFuncs) Or(other EventFunc) EventFunc {
	if other == nil {
		return nil
	}
	return func(ctx context.Context, event *Event) error {
		if handle := f[event.Name]; handle != nil {
			return handle(ctx, event)
		}
		return other(ctx, event)
	}
}

// SecretsFunc returns the possible secrets of a delivery's signature, for example by the path or
// host of the request. If the function returns none, the receiver refuses the delivery. The
// receiver calls the function before it reads the body: nothing in the request is verified yet.
type SecretsFunc func(r *http.Request) ([]lending.Secret, error)

// SignedWith accepts deliveries signed with any of the secrets. During a rotation pass two, the
// more frequent secret first.
//
// If a secret is empty, for example because an environment variable is not set, SignedWith
// returns nil, which [NewReceiver] refuses.
func SignedWith(secrets ...lending.Secret) SecretsFunc {
	if slices.ContainsFunc(secrets, lending.Secret.IsZero) {
		return nil
	}
	return func(*http.Request) ([]lending.Secret, error) { return secrets, nil }
}

// SignatureHeader is the header of a delivery that carries its signature: see [lending.Verify].
const SignatureHeader = "abp-webhook-signature"

// ReceiverOptions change a receiver. Zero fields mean the defaults.
type ReceiverOptions struct {
	MaxBytes int64 // largest body; 1 MiB

	// ReadTimeout is the time for the whole body to arrive; 10 s. The ResponseWriter must have
	// SetReadDeadline, or an Unwrap method for [http.ResponseController]. Behind a middleware
	// without these, set the ReadTimeout of the [http.Server].
	ReadTimeout time.Duration

	// Timeout is the deadline of the function's context; 30 s, half of the service's own
	// timeout. The context has the values of the request's context, and does not end when the
	// service closes the connection.
	Timeout time.Duration

	// MaxAge refuses events created longer ago, equally far in the future, or at an unknown
	// time. It limits the time in which an attacker can repeat a delivery. An
	// [Inbox] that remembers keys for at least this time prevents repetitions. The default
	// accepts any age.
	MaxAge time.Duration

	// Observe is called for each request, for logs and metrics. The response waits for its return. Its
	// panics are dropped.
	Observe func(Delivery)
}

// Delivery is the result of a request to a receiver. Of the body, a Delivery holds only the name of
// the event, after a valid signature: log it if the errors of your function hold no more.
type Delivery struct {
	Status   int // of the answer
	Event    lending.EventName
	Key      string // see [Event.Key]; empty if the signature was wrong
	Bytes    int    // read of the body
	Duration time.Duration

	// Err is the reason of a refusal, or the error of the function, unchanged: also
	// [ErrDuplicate], although the event was accepted.
	Err error
}

// LogValue logs the fields.
func (d Delivery) LogValue() slog.Value {
	attrs := []slog.Attr{slog.Int("status", d.Status), slog.Int("bytes", d.Bytes), slog.Duration("duration", d.Duration)}
	if d.Key != "" {
		attrs = append(attrs, slog.String("event", redact.Name(string(d.Event))), slog.String("key", d.Key))
	}
	if d.Err != nil {
		attrs = append(attrs, slog.String("error", d.Err.Error()))
	}
	return slog.GroupValue(attrs...)
}

// NewReceiver returns a handler for the deliveries of the service. The handler verifies the
// signature of the body, parses the body, and calls handle. If handle returns nil, the response is
// 204. Responses have empty bodies, because the service stores the bodies. Other responses:
//
//	400  the signature is right, and the body is no event
//	401  no signature, a wrong signature, or too old an event
//	405  the method is not POST
//	408  the body arrived too slowly
//	413  the body is too large
//	415  the body is not plain JSON
//	500  secrets or handle failed
//
// The service may send an event again after a response other than 2xx, and promises no schedule.
//
// NewReceiver fails if secrets or handle is nil.
func NewReceiver(secrets SecretsFunc, handle EventFunc, opts *ReceiverOptions) (http.Handler, error) {
	switch {
	case secrets == nil:
		return nil, errors.New("lending/webhook: receiver: no secrets: SignedWith got an empty secret, or the SecretsFunc is nil")
	case handle == nil:
		return nil, errors.New("lending/webhook: receiver: the EventFunc is nil")
	}
	r := &receiverHandler{secrets: secrets, handle: handle, ReceiverOptions: *cmp.Or(opts, new(ReceiverOptions))}
	claimer.SetDefault(&r.MaxBytes, 1<<20)
	claimer.SetDefault(&r.ReadTimeout, 10*time.Second)
	claimer.SetDefault(&r.Timeout, 30*time.Second)
	return r, nil
}

type receiverHandler struct {
	ReceiverOptions
	secrets SecretsFunc
	handle  EventFunc
}

type refusal struct {
	status int
	err    error
}

// These errors are made once, so that a flood of forgeries allocates little.
var (
	errNoSignature = fmt.Errorf("%w: the header is missing or repeated", lending.ErrSignature)
	errNoSecrets   = fmt.Errorf("%w: the SecretsFunc returned no secret for the request", lending.ErrSignature)
)

func refuse(status int, reason string) *refusal {
	return &refusal{status, errors.New("lending/webhook: delivery refused: " + reason)}
}

func (h *receiverHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	// The deadline holds for refused requests too: the server reads the rest of their bodies. At
	// the end of a body the server removes it. An error means that w has no deadline: see
	// ReadTimeout.
	_ = http.NewResponseController(w).SetReadDeadline(start.Add(h.ReadTimeout))
	d := Delivery{Status: http.StatusNoContent}
	if refused := h.receive(w, r, &d); refused != nil {
		d.Status, d.Err = refused.status, refused.err
	}
	if d.Status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodPost)
	}
	w.WriteHeader(d.Status)
	d.Duration = time.Since(start)
	if h.Observe != nil {
		_ = safely.Call[lending.PanicError](func() error { // after a panic net/http would send no answer
			h.Observe(d)
			return nil
		})
	}
}

func (h *receiverHandler) receive(w http.ResponseWriter, r *http.Request, d *Delivery) *refusal {
	body, refused := h.signed(w, r)
	if d.Bytes = len(body); refused != nil {
		return refused
	}
	event, err := Parse(body)
	if err != nil {
		return &refusal{http.StatusBadRequest, err}
	}
	d.Event, d.Key = event.Name, event.Key()
	if age := time.Since(event.Created).Abs(); h.MaxAge > 0 && age > h.MaxAge {
		return refuse(http.StatusUnauthorized, "it was not created recently")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), h.Timeout) // also if the sender hangs up
	defer cancel()
	d.Err = safely.Call[lending.PanicError](func() error { return h.handle(ctx, event) })
	if accepted(d.Err) {
		return nil
	}
	return &refusal{http.StatusInternalServerError, d.Err}
}

// signed returns the body, as far as read, after the checks before parsing, the cheapest first.
// Without a refusal the signature is valid.
func (h *receiverHandler) signed(w http.ResponseWriter, r *http.Request) (body []byte, refused *refusal) {
	if refused := h.checkHead(r); refused != nil {
		return nil, refused
	}
	signatures := r.Header.Values(SignatureHeader)
	if len(signatures) != 1 {
		return nil, &refusal{http.StatusUnauthorized, errNoSignature}
	}
	var secrets []lending.Secret
	err := safely.Call[lending.PanicError](func() (err error) {
		secrets, err = h.secrets(r)
		return err
	})
	if err != nil {
		return nil, &refusal{http.StatusInternalServerError, err}
	}
	if body, refused = h.read(w, r); refused != nil {
		return body, refused
	}
	if err := verifyAny(secrets, body, signatures[0]); err != nil {
		return body, &refusal{http.StatusUnauthorized, err}
	}
	return body, nil
}

func (h *receiverHandler) checkHead(r *http.Request) *refusal {
	media, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset, given := parameters["charset"]
	encoding := r.Header.Get("Content-Encoding")
	switch {
	case r.Method != http.MethodPost:
		return refuse(http.StatusMethodNotAllowed, "it is not a POST")
	case err != nil || media != "application/json" && media != "text/json" && !strings.HasSuffix(media, "+json"):
		return refuse(http.StatusUnsupportedMediaType, "it is not JSON")
	case given && !strings.EqualFold(charset, "utf-8"):
		return refuse(http.StatusUnsupportedMediaType, "it is not UTF-8")
	case encoding != "" && !strings.EqualFold(encoding, "identity"):
		return refuse(http.StatusUnsupportedMediaType, "it is compressed") // nothing unverified is unpacked
	case r.ContentLength > h.MaxBytes:
		return refuse(http.StatusRequestEntityTooLarge, "it is too large")
	}
	return nil
}

// read reads the body within MaxBytes and ReadTimeout.
func (h *receiverHandler) read(w http.ResponseWriter, r *http.Request) ([]byte, *refusal) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.MaxBytes))
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return body, refuse(http.StatusRequestEntityTooLarge, "it is too large")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return body, refuse(http.StatusRequestTimeout, "it came too slowly")
	case err != nil:
		return body, refuse(http.StatusBadRequest, "it broke off")
	}
	return body, nil
}

func verifyAny(secrets []lending.Secret, body []byte, signature string) error {
	err := errNoSecrets
	for _, secret := range secrets {
		if err = lending.Verify(secret.Reveal(), body, signature); err == nil {
			return nil
		}
	}
	return err
}
