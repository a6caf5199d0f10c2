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

// Erase tests that an erased customer is in no dump of the stores, and that everything of another customer
// is. The function dump returns the present records of both stores in any form: text, hexadecimal or base64.
// The stores must be empty and not encrypted. The inbox implements [webhook.DeadLetters]; nil
// leaves it out.
func Erase(tb testing.TB, entries store.Store, inbox webhook.Inbox, dump func() string) {
	tb.Helper()
	type customer struct{ name, id, code string } // the code is in responses and events
	erased := customer{"erased", "8c1b5a6e-2f7d-4b5b-9a51-0c7a3f5d2e10", "731904-erased"}
	other := customer{"other", "3f0e9d2c-77aa-4c3e-8d1f-5b6c7d8e9f01", "731904-other"}
	s := trial[store.Store]{TB: tb, store: entries}
	log, err := idempotency.NewLog(entries, &idempotency.Options{MaxLateness: time.Millisecond})
	s.succeeds("NewLog", err)
	for _, c := range []customer{erased, other} {
		for _, state := range []store.State{store.Free, store.Done, store.Forgotten} {
			s.succeeds("Save", entries.Save(s.Context(), store.Entry{
				Key: fmt.Sprintf(":of-%s/%s", c.name, state), State: state, Lock: string(state) + c.name,
				Data: fmt.Appendf(nil, `{"format":1,"request":{"frozen":true,"route":"POST /a","account":"b",
					"ids":{"customerId":%q},"fingerprint":"AAAA","salt":"c"},"response":{"status":200,"body":%q},
					"history":[{"state":%q,"by":"ada","why":"%[4]s called"}],"later":%[4]q}`,
					c.id, base64.StdEncoding.EncodeToString([]byte(`{"code":"`+c.code+`"}`)), state, c.code),
			}))
		}
		if inbox == nil {
			continue
		}
		for _, path := range []string{"dead letter", "waiting"} {
			s.succeeds("Put", inbox.Put(s.Context(), parsed(`{"webhookEvent":"E","data":{"path":%q,"of":%q,"code":%q}}`, path, c.id, c.code)))
			if path == "dead letter" {
				entry, err := inbox.Take(s.Context())
				s.succeeds("Take", err)
				s.succeeds("DeadLetter", inbox.DeadLetter(s.Context(), entry, errors.New(c.code)))
			}
		}
	}
	shown := func(when string, want bool, of ...string) {
		tb.Helper()
		all := dump()
		for _, canary := range of {
			s.require(shows(all, canary) == want, "the dump %s shows %q: got %v, want %v", when, canary, !want, want)
		}
	}
	shown("before Erase", true, erased.id, erased.code, other.id, other.code)
	n := 0
	eventually(func() bool {
		var some int
		some, err = log.Erase(s.Context(), idempotency.Decision{By: "kim", Why: "asked"}, erased.id)
		n += some
		return err == nil
	})
	s.require(err == nil && n == 3, "Erase of the log: got %d entries and error %v, want 3", n, err)
	if letters, ok := inbox.(webhook.DeadLetters); ok {
		n, err = letters.Erase(s.Context(), webhook.Decision{By: "kim", Why: "asked"}, erased.id)
		s.require(err == nil && n == 2, "Erase of the inbox: got %d events and error %v, want 2", n, err)
	}
	shown("after Erase", false, erased.id, erased.code)
	shown("after Erase", true, other.id, other.code, "of-"+erased.name, "kim")
}

// shows reports whether the dump has the text, also as hexadecimal digits or inside base64.
func shows(dump, text string) bool {
	forms := []string{text}
	for before := range 3 { // bytes before the text in its group of three
		coded := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("-", before) + text))
		forms = append(forms, coded[(before+2)/3*4:(before+len(text))/3*4])
	}
	for _, form := range forms {
		if strings.Contains(dump, form) || strings.Contains(strings.ToLower(dump), hex.EncodeToString([]byte(form))) {
			return true
		}
	}
	return false
}
