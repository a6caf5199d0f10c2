package ops

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/webhook"
)

// Options are the parts of a [Handler]. Every field is optional.
type Options struct {
	Path    string                         // path of the handler; "/ops/" if empty
	Log     *idempotency.Log               // the mutations with an idempotency key
	Inboxes map[string]webhook.DeadLetters // the webhooks set aside, by a name for people
	// Sessions are those of the clients, by a name of their account for people: see
	// [lending.Client.Session].
	Sessions map[string]*lending.Session

	// Client makes the reads of an audit of the log that a person starts. Without Client nobody can start an audit.
	Client *lending.Client

	// Who names the person behind a request, and reports whether the person may act. The name
	// goes to the log of actions and into resolved entries. Without Who nobody may act.
	Who func(r *http.Request) (name string, mayAct bool)

	// Show reports whether the person may see the data of a webhook, which holds codes and
	// personal data. Without Show nobody may.
	Show func(r *http.Request) bool

	// About describes in words what a key is about: the order, the customer, the amount. ids are those of
	// its records by name, such as loanId. For a webhook set aside, key is empty. The page calls About for
	// each row that it shows.
	About func(ctx context.Context, key string, ids map[string]string) string

	// Resolved is called with a key after a person's verdict, so that its order goes on at once:
	// call Worker.Hint of package orders with the order of the key.
	Resolved func(key string)

	Logger *slog.Logger // for the actions, and the stacks of panics; slog.Default() if nil
}

// desk is the state of a handler.
type desk struct {
	Options
	origin http.CrossOriginProtection

	reads chan struct{} // has an element for each read
}

const (
	timeout  = 4 * time.Second // of a read of a store, and of an action with a single entry
	patience = 5 * time.Second // with a store that ignores its context; a shutdown of the server waits as long
	maxReads = 16              // at a time: a store can ignore its context, and its reads outlive their requests

	long          = 50 * time.Second // of an action with many entries: lending-ops and most gateways wait for a minute
	whole         = 6 * time.Hour    // of an action with all entries: lending-ops waits as long
	signInTimeout = 30 * time.Second // the service may be slow, and the function TwoFactor waits for a person
)
