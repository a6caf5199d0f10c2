package storetest

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/webhook"
)

// The customers of Erase, and a code in their responses and events.
var erasable = []struct{ name, id, code string }{
	{"erased", "8c1b5a6e-2f7d-4b5b-9a51-0c7a3f5d2e10", "731904-erased"},
	{"other", "3f0e9d2c-77aa-4c3e-8d1f-5b6c7d8e9f01", "731904-other"},
}

// Erase tests that an erased customer is in no dump of the stores, and that everything of another customer
// is. The function dump returns the present records of both stores in any form: text, hexadecimal or base64.
// The stores must be empty and not encrypted. The inbox implements [webhook.DeadLetters]; nil
// leaves it out.
func Erase(tb testing.TB, entries store.Store, inbox webhook.Inbox, dump func() string) {
	tb.Helper()
	log, err := idempotency.NewLog(entries, &idempotency.Options{MaxLateness: time.Millisecond})
	must(tb, err)
	letters, _ := inbox.(webhook.DeadLetters)
	for _, customer := range erasable {
		for _, state := range []store.State{store.Free, store.Done, store.Forgotten} {
			must(tb, entries.Save(tb.Context(), store.Entry{
				Key: fmt.Sprintf(":of-%s/%s", customer.name, state), State: state, Lock: string(state) + customer.name,
				Data: fmt.Appendf(nil, `{"format":1,"request":{"frozen":true,"route":"POST /a","account":"b",
					"ids":{"customerId":%q},"fingerprint":"AAAA","salt":"c"},"response":{"status":200,"body":%q},
					"history":[{"state":%q,"by":"ada","why":"%[4]s called"}],"later":%[4]q}`,
					customer.id, base64.StdEncoding.EncodeToString([]byte(`{"code":"`+customer.code+`"}`)), state, customer.code),
			}))
		}
		if inbox == nil {
			continue
		}
		for _, path := range []string{"dead letter", "waiting"} {
			event, err := webhook.Parse(fmt.Appendf(nil, `{"webhookEvent":"E","data":{"path":%q,"of":%q,"code":%q}}`,
				path, customer.id, customer.code))
			must(tb, errors.Join(err, inbox.Put(tb.Context(), event)))
			if path == "dead letter" {
				entry, err := inbox.Take(tb.Context())
				must(tb, err)
				must(tb, inbox.DeadLetter(tb.Context(), entry, errors.New(customer.code)))
			}
		}
	}
	erased, other := erasable[0], erasable[1]
	shown := func(when string, want bool, of ...string) {
		tb.Helper()
		all := dump()
		for _, canary := range of {
			if shows(all, canary) != want {
				tb.Fatalf("the dump %s shows %q: got %v, want %v", when, canary, !want, want)
			}
		}
	}
	shown("before Erase", true, erased.id, erased.code, other.id, other.code)
	n := 0
	if !eventually(func() bool {
		var some int
		some, err = log.Erase(tb.Context(), idempotency.Decision{By: "kim", Why: "asked"}, erased.id)
		n += some
		return err == nil
	}) || n != 3 {
		tb.Fatalf("Erase of the log: got %d entries and error %v, want 3", n, err)
	}
	if letters != nil {
		n, err = letters.Erase(tb.Context(), webhook.Decision{By: "kim", Why: "asked"}, erased.id)
		if err != nil || n != 2 {
			tb.Fatalf("Erase of the inbox: got %d events and error %v, want 2", n, err)
		}
	}
	shown("after Erase", false, erased.id, erased.code)
	shown("after Erase", true, other.id, other.code, "of-"+erased.name, "kim")
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatalf("%v", err)
	}
}

// shows reports whether the dump has the text, also as hexadecimal digits or inside base64.
func shows(dump, text string) bool {
	forms := []string{text}
	for before := range 3 { // bytes before the text in its group of three
		coded := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("-", before) + text))
		whole := (before + len(text)) / 3 * 4
		forms = append(forms, coded[(before+2)/3*4:whole])
	}
	for _, form := range forms {
		if strings.Contains(dump, form) || strings.Contains(strings.ToLower(dump), hex.EncodeToString([]byte(form))) {
			return true
		}
	}
	return false
}
