package ops_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/ops"
)

// TestAuditIsShownToEverybody has a person start an audit of a loan with a withdrawal of another program.
func TestAuditIsShownToEverybody(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	assert.Equal(t, "{}\n", b.read("api/audit"))
	assert.Contains(t, b.read(""), "No audit has compared the keys with the service yet.")
	assert.Contains(t, b.refused(http.StatusNotFound, "api/audit", map[string]any{"from": "2026-01-01"}), "no Client")
	require.NoError(t, b.withdraw("order-42/confirm")())
	loan := b.service.Snapshot().Loans[0].ID
	b.service.UpdateLoan(loan, func(l *lendingtest.Loan) {
		l.Withdrawals = append(l.Withdrawals, lendingtest.Withdrawal{ID: uuid.NewString(), Amount: 100})
	})

	b.address = b.serve(ops.Options{
		Log: b.log, Client: b.client,
		Who: func(r *http.Request) (string, bool) { return r.Header.Get("X-Person"), true },
	})
	b.refused(http.StatusBadRequest, "api/audit", map[string]any{"from": "yesterday"})
	b.refused(http.StatusBadRequest, "api/audit", map[string]any{"from": "2026-01-02", "to": "2026-01-01"})
	assert.JSONEq(t, `{"done":0}`, b.act("api/audit", map[string]any{"from": "2026-01-31", "to": "2026-01-31"}))
	assert.Contains(t, b.read("api/audit"), `"from":"2026-01-31T00:00:00Z","to":"2026-02-01T00:00:00Z"`)
	from := time.Now().UTC().Add(-time.Hour).Format(time.DateTime)
	to := time.Now().UTC().Add(time.Hour).Format(time.DateTime) // the key has changed just now
	assert.JSONEq(t, `{"done":1}`, b.act("api/audit", map[string]any{"from": from, "to": to}))
	assert.Regexp(t, `^{"from":"20[^}]*,"ended":"20[^}]*,"keys":1,"owners":1,"found":{"unexplained":1},`+
		`"differences":\[{"kind":"unexplained","owner":"loan","id":"`+loan, b.read("api/audit"))
	shown := b.read("")
	assert.Contains(t, shown, `<span class="bad">1 difference.</span> <span class="soft">1 key from `)
	assert.Contains(t, shown, `<h3>unexplained: withdrawals</h3>`)
	assert.Contains(t, shown, `<p>loan <code>`+loan+`</code></p>`)

	b.service.Fail("*", lendingtest.Fault{Status: http.StatusBadGateway, Times: 1000})
	assert.JSONEq(t, `{"done":1}`, b.act("api/audit", map[string]any{"from": from, "to": to}), "the loan is unread")
	assert.Contains(t, b.read(""), `<p>Why: <bdi>page at 0: `)
}
