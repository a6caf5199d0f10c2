package lending_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/lendingapi/lending-go"
)

// deliverSigned posts body to a path of the receiver, signed as the service signs.
func deliverSigned(receiver http.Handler, path, secret, body string) int {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(lending.SignatureHeader, lending.Sign(secret, []byte(body)))
	w := httptest.NewRecorder()
	receiver.ServeHTTP(w, r)
	return w.Code
}

const loanOpened = `{"webhookEvent":"WB_Loan_Opened","data":{"loanId":"11111111-2222-3333-4444-555555555555"},"creationTimeUtc":"2024-01-02T03:04:05.1234567Z"}`

// A receiver that acts on each delivery once. It goes into any mux.
func ExampleNewReceiver() {
	handle := lending.EventFuncs{
		lending.EventLoanOpened: func(_ context.Context, event *lending.Event) error {
			var data struct{ LoanID lending.LoanID }
			if err := event.Data.Decode(&data); err != nil {
				return err
			}
			fmt.Println("opened:", data.LoanID)
			return nil
		},
	}.Handle
	secret := lending.NewSecret("whs_0123456789abcdef0123456789abcdef") // of the subscription
	receiver := lending.NewReceiver(lending.SignedWith(secret), lending.Once(lending.NewMemoryDeduper(lending.DeduperOptions{}), handle), nil)

	fmt.Println(deliverSigned(receiver, "/webhooks", secret.Reveal(), loanOpened))
	fmt.Println(deliverSigned(receiver, "/webhooks", secret.Reveal(), loanOpened))
	fmt.Println(deliverSigned(receiver, "/webhooks", "not the secret", loanOpened))
	// Output:
	// opened: 11111111-2222-3333-4444-555555555555
	// 204
	// 204
	// 401
}
