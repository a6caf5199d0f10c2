package lendingbolt_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/lendingapi/lending-go"

	lendingbolt "github.com/lendingapi/lending-go/contrib/bolt"
)

const (
	secret   = "whs_0123456789abcdef0123456789abcdef" // of the subscription
	delivery = `{"webhookEvent":"WB_Loan_Opened","data":{"loanId":"11111111-2222-3333-4444-555555555555"}}`
)

// deliver posts the delivery, signed as the service signs.
func deliver(receiver http.Handler) int {
	r := httptest.NewRequest(http.MethodPost, "/webhooks", strings.NewReader(delivery))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(lending.SignatureHeader, lending.Sign(secret, []byte(delivery)))
	w := httptest.NewRecorder()
	receiver.ServeHTTP(w, r)
	return w.Code
}

// A delivery is answered when it is on the disk. What a program did not come to act on
// before its end, it does when it runs again.
func Example() {
	directory, err := os.MkdirTemp("", "lending")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(directory)
	path := filepath.Join(directory, "webhooks.db") // in its place: one that stays

	inbox, err := lendingbolt.Open(path, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	receiver := lending.NewReceiver(lending.SignedWith(lending.NewSecret(secret)), inbox.Put, nil)
	fmt.Println("answered:", deliver(receiver))
	fmt.Println("closed:", inbox.Close())

	inbox, err = lendingbolt.Open(path, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer inbox.Close()
	ctx, stop := context.WithCancel(context.Background())
	lending.Work(ctx, inbox, func(_ context.Context, event *lending.Event) error {
		fmt.Println("acted on", event.Name)
		stop() // a program works until it ends
		return nil
	}, nil)
	// Output:
	// answered: 204
	// closed: <nil>
	// acted on WB_Loan_Opened
}

// A person looks at what was put aside, and has it tried again when the cause is mended.
func ExampleInbox_Dead() {
	directory, err := os.MkdirTemp("", "lending")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(directory)
	inbox, err := lendingbolt.Open(filepath.Join(directory, "webhooks.db"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer inbox.Close()
	deliver(lending.NewReceiver(lending.SignedWith(lending.NewSecret(secret)), inbox.Put, nil))
	ctx := context.Background()
	entry, err := inbox.Take(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("put aside:", inbox.Bury(ctx, entry)) // as lending.Work does after MaxTries

	dead, err := inbox.Dead(ctx)
	for _, entry := range dead {
		fmt.Println(entry.Event.Name, "revived:", inbox.Revive(ctx, entry))
	}
	counts, _ := inbox.Counts(ctx)
	fmt.Println("waiting:", counts.Waiting, err)
	// Output:
	// put aside: <nil>
	// WB_Loan_Opened revived: <nil>
	// waiting: 1 <nil>
}
