package webhook

import (
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
	"github.com/lendingapi/lending-go/internal/safely"
)

// EventFunc acts on an event, or puts it where it is safe. When it has returned nil
// the event counts as accepted, and is not sent again. An error, a panic, a call of
// [runtime.Goexit] or the end of the process before that means that it was not accepted,
// except for the errors [ErrDuplicate] and [ErrNotRecorded].
//
// Events come in any order, twice, and with names that did not exist when the program
// was written: it returns nil for an event that does not concern it. It is called by
// many goroutines at once.
type EventFunc func(ctx context.Context, event *Event) error

// EventFuncs calls a function by the name of the event.
type EventFuncs map[lending.EventName]EventFunc

// Handle is an [EventFunc]. It returns nil for events that have no function.
func (f EventFuncs) Handle(ctx context.Context, event *Event) error {
	if handle := f[event.Name]; handle != nil {
		return handle(ctx, event)
	}
	return nil
}

// SecretsFunc returns the secrets that may have signed a delivery, by its path or host
// for example, and none if nobody can have. It is called before the body is read:
// nothing in the request has been verified.
type SecretsFunc func(r *http.Request) ([]lending.Secret, error)

// SignedWith accepts deliveries that one of the secrets has signed. Two are for the
// time in which one replaces the other; the usual one is best put first.
//
// If a secret is empty, for example because an environment variable is not set, SignedWith
// returns nil, which [NewReceiver] refuses.
func SignedWith(secrets ...lending.Secret) SecretsFunc {
	if slices.ContainsFunc(secrets, lending.Secret.IsZero) {
		return nil
	}
	return func(*http.Request) ([]lending.Secret, error) { return secrets, nil }
}

// ReceiverOptions are what can be changed in a receiver. A nil pointer and zero fields
// leave it at the defaults.
type ReceiverOptions struct {
	MaxBytes int64 // of a body; 1 MiB

	// ReadTimeout is for the whole body to arrive; 10 s. Only the server can keep it: it
	// has no effect if a middleware in front wraps the ResponseWriter in one without
	// SetReadDeadline and without an Unwrap for [http.ResponseController], nor in a
	// test's recorder. What holds then is the ReadTimeout of the [http.Server] itself.
	ReadTimeout time.Duration

	// Timeout is for the function: the deadline of its context, which has the values of
	// the request's but does not end when the sender hangs up; 30 s, half of what it waits.
	Timeout time.Duration

	// MaxAge refuses events that were created longer ago, or as far in the future, or
	// at a time unknown. It shortens the time in which a delivery that somebody has
	// overheard can be replayed: a [Deduper] that remembers for as long closes it.
	// The default is to take events of any age.
	MaxAge time.Duration

	// Observe is called after each request, for logs and metrics. Its panics are dropped.
	Observe func(Delivery)
}

// Delivery is what became of one request to a receiver. It holds nothing of the body
// but the name of an event whose signature was right, and may be logged.
type Delivery struct {
	Status   int // that was answered
	Event    lending.EventName
	Key      string // see [Event.Key]; empty if the signature was not right
	Bytes    int    // of the body, as far as it was read
	Duration time.Duration

	// Err says why it was not accepted, or is [ErrDuplicate] or [ErrNotRecorded]. What
	// the function returned is here as it is.
	Err error
}

// LogValue logs the fields.
func (d Delivery) LogValue() slog.Value {
	attrs := []slog.Attr{slog.Int("status", d.Status), slog.Int("bytes", d.Bytes), slog.Duration("duration", d.Duration)}
	if d.Key != "" {
		attrs = append(attrs, slog.String("event", d.name()), slog.String("key", d.Key))
	}
	if d.Err != nil {
		attrs = append(attrs, slog.String("error", d.Err.Error()))
	}
	return slog.GroupValue(attrs...)
}

// name returns the name of the event if it is one, and hides it if it can hold anything else.
func (d Delivery) name() string {
	odd := func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_-.:$[]|", r))
	}
	if len(d.Event) > 128 || strings.ContainsFunc(string(d.Event), odd) {
		return "[redacted]"
	}
	return string(d.Event)
}

// NewReceiver returns the handler to which the service posts its events. It verifies
// the signature of the body as it came, then parses it, then calls handle, and answers
// 204 when handle has returned nil. All answers are empty: the service stores them.
//
//	400  the signature is right, but it is no event
//	401  no signature, a wrong one, or too old an event
//	405, 408, 413, 415  not POST, too slow, too large, not plain JSON
//	500  handle failed or panicked, or the secrets could not be had
//	503  the event is being handled at this moment: see [Once]
//
// What is answered otherwise than 2xx may be sent again or not: the service promises
// no schedule. It waits for an answer, so work that takes long or can fail belongs
// behind an [Inbox], whose Put is an [EventFunc].
//
// The error says that secrets or handle is nil.
func NewReceiver(secrets SecretsFunc, handle EventFunc, opts *ReceiverOptions) (http.Handler, error) {
	switch {
	case secrets == nil:
		return nil, errors.New("lending/webhook: receiver: no secrets: the SecretsFunc is nil, or SignedWith got an empty secret")
	case handle == nil:
		return nil, errors.New("lending/webhook: receiver: the EventFunc is nil")
	}
	r := &receiverHandler{secrets: secrets, handle: handle}
	if opts != nil {
		r.ReceiverOptions = *opts
	}
	setDefault(&r.MaxBytes, 1<<20)
	setDefault(&r.ReadTimeout, 10*time.Second)
	setDefault(&r.Timeout, 30*time.Second)
	return r, nil
}

func setDefault[T int | int64 | time.Duration](v *T, usual T) {
	if *v <= 0 {
		*v = usual
	}
}

type receiverHandler struct {
	ReceiverOptions
	secrets SecretsFunc
	handle  EventFunc
}

// refusal is an answer other than success.
type refusal struct {
	status int
	err    error
}

var errNoSignature = fmt.Errorf("%w: the header is missing or repeated", lending.ErrSignature)

func refuse(status int, reason string) *refusal {
	return &refusal{status, errors.New("lending/webhook: delivery refused: " + reason)}
}

func (h *receiverHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	// For what is refused too: of that the server reads the rest. It lifts the deadline
	// when a body has ended. An error means that w cannot: see ReadTimeout.
	_ = http.NewResponseController(w).SetReadDeadline(start.Add(h.ReadTimeout))
	d := Delivery{Status: http.StatusNoContent}
	if refused := h.receive(w, r, &d); refused != nil {
		d.Status, d.Err = refused.status, refused.err
	}
	if p, ok := errors.AsType[*lending.PanicError](d.Err); ok && p.Value == http.ErrAbortHandler { //nolint:errorlint // the very value
		panic(http.ErrAbortHandler) // no failure but a wish, which only a server can fulfil
	}
	switch d.Status {
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodPost)
	case http.StatusRequestTimeout, http.StatusRequestEntityTooLarge:
		w.Header().Set("Connection", "close") // the rest of the body is not wanted
	}
	w.WriteHeader(d.Status)
	d.Duration = time.Since(start)
	if h.Observe != nil {
		_ = safely.Call[lending.PanicError](func() error { // on its panic net/http would send no answer
			h.Observe(d)
			return nil
		})
	}
}

// receive takes a delivery, step by step from what costs least to what must be
// certain first.
func (h *receiverHandler) receive(w http.ResponseWriter, r *http.Request, d *Delivery) *refusal {
	if refused := h.checkHead(r); refused != nil {
		return refused
	}
	signatures := r.Header.Values(lending.SignatureHeader)
	if len(signatures) != 1 {
		return &refusal{http.StatusUnauthorized, errNoSignature}
	}
	var secrets []lending.Secret
	err := safely.Call[lending.PanicError](func() (err error) {
		secrets, err = h.secrets(r)
		return err
	})
	if err != nil {
		return &refusal{http.StatusInternalServerError, err}
	}
	body, refused := h.read(w, r)
	if d.Bytes = len(body); refused != nil {
		return refused
	}
	if err := verifyAny(secrets, body, signatures[0]); err != nil {
		return &refusal{http.StatusUnauthorized, err}
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
	err = safely.Call[lending.PanicError](func() error { return h.handle(ctx, event) })
	switch {
	case accepted(err):
		d.Err = err
		return nil
	case errors.Is(err, ErrClaimed):
		return &refusal{http.StatusServiceUnavailable, err}
	}
	return &refusal{http.StatusInternalServerError, err}
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

// read reads the body within the limits of size and time.
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
	err := lending.Verify("", body, signature) // if there is none
	for _, secret := range secrets {
		if err = lending.Verify(secret.Reveal(), body, signature); err == nil {
			return nil
		}
	}
	return err
}
