package ops_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/catalog"
)

// A person who looks at a key needs no Go: each read that shows a mutation stands there as a request.
func TestReadsOfEachMutationAreRequests(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	routes := catalog.Routes(t)
	const id = "8c1b5a6e-2f7d-4b5b-9a51-0c7a3f5d2e10"
	for method, route := range routes {
		if route.Reads {
			continue
		}
		target := "partnerId"
		if method == "Webhooks.Unregister" {
			target = "customerId"
		}
		t.Run(method, func(t *testing.T) {
			checkWith, ids := catalog.CheckWith(t, method), map[string]string{}
			var want []string
			for name := range strings.SplitSeq(checkWith, ", ") {
				if name == "" {
					continue
				}
				read := routes[name].Path
				for _, of := range []string{"applicationId", "customerId", "loanId"} {
					if strings.Contains(read, "{"+of+"}") {
						ids[of] = id
					}
				}
				switch name {
				case "Customers.GetByEmail":
					read += "?email={email}"
				case "Webhooks.Subscription":
					read, ids[target] = read+"?"+target+"={"+target+"}", id
				}
				want = append(want, "GET "+strings.NewReplacer("{applicationId}", id, "{customerId}", id, "{loanId}", id,
					"{"+target+"}", id).Replace(read))
			}
			request, err := json.Marshal(map[string]any{"route": route.Path, "checkWith": checkWith, "ids": ids})
			require.NoError(t, err)
			require.NoError(t, b.entries.Save(t.Context(), store.Entry{
				Key: ":" + method, State: store.NeedsReview, Data: fmt.Appendf(nil, `{"request":%s}`, request),
			}))
			var shown struct{ LookAt []string }
			require.NoError(t, json.Unmarshal([]byte(b.read("api/key?key="+method)), &shown))
			assert.Equal(t, want, shown.LookAt)
		})
	}
}
