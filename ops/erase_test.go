package ops_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/idempotency/store"
)

const customer = "8c1b5a6e-2f7d-4b5b-9a51-0c7a3f5d2e10"

// save saves an entry of the customer.
func (b *backend) save(key string, state store.State) {
	b.Helper()
	require.NoError(b, b.entries.Save(b.Context(), store.Entry{Key: ":" + key, State: state, Data: []byte(
		`{"request":{"frozen":true,"route":"POST /a","ids":{"customerId":"` + customer + `"}},"send":{"lease":1}}`)}))
}

// TestPersonIsErasedInOneOrder from the log, the events and the dead letters. Nothing else goes.
func TestPersonIsErasedInOneOrder(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	b.setAside(nil, event("a", 1), `{"webhookEvent":"WB_Of","data":{"customerId":"`+customer+`"}}`)
	b.save("order-1/lost", store.NeedsReview)
	b.save("order-1/done", store.Done)
	for _, order := range []map[string]any{
		{"ids": []string{customer}}, {"why": "asked"}, {"ids": []string{"ada"}, "why": "asked"},
	} {
		b.refused(http.StatusBadRequest, "api/erase", order)
	}
	order := map[string]any{"ids": []string{customer}, "why": "request 4711"}
	text := b.refused(http.StatusConflict, "api/erase", order)
	assert.Contains(t, text, "erased 1 record, but not all; repair this and erase again; log: ")
	assert.Contains(t, text, "order-1/lost")
	assert.Contains(t, text, "order-1/done", "within MaxLateness")
	assert.Contains(t, b.read("api/inboxes/web%20hooks/removed"), `"why":"request 4711"`, "the inbox is done")
	assert.Contains(t, b.read("api/inboxes/web%20hooks"), `"event":"a"`)
	assert.NotContains(t, b.read("api/inboxes/web%20hooks"), "WB_Of")
	assert.NotContains(t, b.actions.String(), customer)
}

// TestSendAfterARestoreIsNotCalledTheSecond has a key that was in doubt before the log knew of any send.
func TestSendAfterARestoreIsNotCalledTheSecond(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	require.NoError(t, b.entries.Save(t.Context(), store.Entry{Key: ":order-1/done", State: store.Done, Data: []byte(
		`{"request":{"frozen":true,"route":"POST /a"},"send":{"number":2},"history":[{"state":"in_doubt",` +
			`"why":"the store is a copy"},{"state":"sent","sends":2},"done 1"]}`)}))
	shown := b.read("api/key?key=order-1/done") + b.read("?prefix=order-1")
	assert.Contains(t, shown, `"says":"sent, number 2"`)
	assert.Contains(t, shown, `sent, number 2, happened since `)
	assert.NotContains(t, shown, "2 times")
}

func TestHistoryTellsOfTheErasure(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	require.NoError(t, b.entries.Save(t.Context(), store.Entry{Key: ":order-1/done", State: store.Forgotten, Data: []byte(
		`{"erased":true,"request":{"frozen":true,"route":"POST /a"},"history":["done 1",` +
			`{"state":"forgotten","by":"kim","why":"request 4711"}]}`)}))
	text := b.read("api/key?key=order-1/done")
	assert.Contains(t, text, `"state":"done","says":"happened"`)
	assert.Contains(t, text, `"state":"forgotten","says":"erased","by":"kim","why":"request 4711"`)
}
