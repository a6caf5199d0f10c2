package browser_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// With the keyboard alone a person opens a loan and plans a fault, which the next call meets.
func TestPageByKeyboard(t *testing.T) {
	s := startSandbox(t)
	s.signIn()
	var loan lendingtest.Loan
	require.NoError(t, s.control.Post(t.Context(), "add-loan", lendingtest.Loan{}, &loan))
	s.post("Loan/make-withdrawal-line-of-credit/"+loan.ID, `{"amount":100}`, nil)
	b := browser.open(t, s.url, 800, false)
	b.waitText("#customers", loan.ID)
	b.tabTo("#sent a")
	b.press("Enter")
	b.wait("document.querySelector('#loan-" + loan.ID + "').checkVisibility()") // its parents have opened
	b.run(`document.querySelectorAll("#customers details").forEach((d) => d.open = false); location.hash = ""`)
	for _, of := range []string{
		"#customer-" + loan.CustomerID, "#application-" + loan.ApplicationID,
		"#loan-" + loan.ID,
	} {
		t.Run(of, func(t *testing.T) {
			b.tabTo(of + " > summary")
			assert.True(t, value[bool](b, `getComputedStyle(document.activeElement).outlineStyle === "solid" && `+
				`parseInt(getComputedStyle(document.activeElement).outlineWidth) >= 2`), "the focus is seen")
			b.press("Enter")
			b.wait("document.querySelector('" + of + "').open")
		})
	}
	assert.True(t, value[bool](b, "[...document.querySelectorAll('#loan-"+loan.ID+
		" dl')].every((e) => e.checkVisibility())"))

	b.tabTo("[name='fault.status']")
	b.typed("503")
	b.tabTo("[data-order=fail] > button")
	b.press("Enter")
	b.waitText("#said", "The fault is planned.")
	b.waitText("#faults", `*, 1 time: {"status":503,"times":1}`)
	assert.Equal(t, http.StatusServiceUnavailable, s.get("Loan/get-loan/"+loan.ID))
	assert.Equal(t, http.StatusOK, s.get("Loan/get-loan/"+loan.ID))
	b.waitText("#faults", "No fault is planned.")
	assert.True(t, value[bool](b, "document.activeElement.matches('[data-order=fail] > button')"),
		"the focus has stayed")
	assert.Empty(t, b.complaints())
}

// Each form has its effect, and shows a rejection.
func TestFormsControlTheService(t *testing.T) {
	s := startSandbox(t)
	made := s.fill("Lovelace & Sons")
	ctx := t.Context()
	require.NoError(t, s.control.Post(ctx, "wait", nil, nil))
	b := browser.open(t, s.url, 1600, true)
	b.waitText("#connection", "Live")
	set := func(field, to string) {
		t.Helper()
		b.run(`document.querySelector("[name='` + field + `']").` + to)
	}

	const route = "POST /api/Communication/post-messages/{applicationId}"
	set("route", "value = '"+route+"'")
	set("fault.resetAfter", "checked = true")
	b.send("[data-order=fail]", "The fault is planned.", "")
	assert.Zero(t, s.call(http.MethodPost, "/api/Communication/post-messages/"+made.application, `{"message":"lost"}`,
		nil))
	b.wait(`(([answer, outcome]) => answer === "no answer" && outcome === "executed")(
		[...document.querySelectorAll("#requests tbody tr:first-child td")].slice(1, 3).map((e) => e.textContent))`)
	b.waitText("#customers", "lost")

	set("fault.resetAfter", "checked = false")
	set("fault.status", "value = '504'")
	set("fault.late", "value = '1ms'")
	set("fault.header", `value = 'X-Reason: a\nx-reason:b\nnothing'`)
	set("fault.body", `value = '<b>late</b>'`)
	b.send("[data-order=fail]", "The fault is planned.", "")
	b.waitText("#faults", `{"status":504,"body":"\u003cb\u003elate\u003c/b\u003e","header":{"X-Reason":["a"],`+
		`"x-reason":["b"]},"late":"1ms","times":1}`)
	assert.Equal(t, 504, s.call(http.MethodPost, "/api/Communication/post-messages/"+made.application,
		`{"message":"behind"}`, nil))
	b.waitText("#newest", "post-messages/{applicationId}: 504, executed")

	b.send("[data-order=fail]", "The fault is planned.", "")
	b.send("[data-order=clear-faults]", "No fault is planned any more.", "")
	b.waitText("#faults", "No fault is planned.")
	set("fault.late", "value = 'soon'")
	b.send("[data-order=fail]", "invalid duration", "")

	set("by", "value = '2h'")
	b.send("[data-order=advance]", "The clock has moved.", "")
	assert.Equal(t, http.StatusUnauthorized, s.get("Loan/get-loan/"+made.loan), "the token has expired")
	b.send("[data-order=add-loan]", "A loan was added.", "")
	b.wait(`document.querySelectorAll("#customers > details").length === 2`)
	set("fault.late", "value = '1h'")
	b.send("[data-order=fail]", "The fault is planned.", "")
	assert.Equal(t, 504, s.call(http.MethodPost, "/api/Communication/post-messages/"+made.application,
		`{"message":"later"}`, nil))
	b.waitText("#newest", "post-messages/{applicationId}: 504, not executed")
	b.send("[data-order=reset]", "All is as at the start.", "")
	b.waitText("#customers", "None yet")
	b.waitText("#requests", "None yet")
	assert.Len(t, b.complaints(), 1, "the fault that was refused")
}

// If the control has a token, the forms need it, and the page does not contain it.
func TestFormsNeedTheControlToken(t *testing.T) {
	s := startSandbox(t, "-control-token", "t0p")
	b := browser.open(t, s.url, 360, true)
	b.waitText("#connection", "Live")
	b.send("[data-order=add-loan]", "the control token is missing or wrong", "")
	b.send("[data-order=add-loan]", "A loan was added.", `document.querySelector("#token").value = "t0p"`)
	b.waitText("#customers", "customer1@example.com")
	assert.NotContains(t, value[string](b, "document.documentElement.outerHTML"), "t0p")
}

// The pages of other sites cannot control the service, not even through a host name of this machine.
func TestOtherSitesControlNothing(t *testing.T) {
	s := startSandbox(t)
	require.NoError(t, s.control.Post(t.Context(), "add-loan", lendingtest.Loan{}, &lendingtest.Loan{}))
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<title>other</title>"))
	}))
	t.Cleanup(other.Close)
	port := s.url[strings.LastIndex(s.url, ":"):]
	b := browser.open(t, other.URL, 800, false)
	for _, headers := range []string{`{}`, `{"Content-Type": "application/json"}`} {
		for _, mode := range []string{"no-cors", "cors"} {
			assert.Equal(t, "nothing", value[string](b, `fetch("`+s.url+`/_control/reset", {method: "POST", mode: "`+
				mode+`", headers: `+headers+`, body: "{}"})
				.then((r) => r.type === "opaque" ? "nothing" : "read", () => "nothing")`))
		}
	}
	b.run(`document.body.innerHTML = '<form method=post enctype=text/plain action="` + s.url +
		`/_control/reset"><input name="{}" value=""></form>'; document.forms[0].submit()`)
	b.waitText("body", "error")
	var snap lendingtest.Snapshot
	require.NoError(t, s.control.Get(t.Context(), "snapshot", nil, &snap))
	assert.Len(t, snap.Loans, 1)

	b = browser.open(t, "http://evil.example"+port+"/", 800, false)
	b.waitText("body", "The sandbox does not answer to this host name.")
	b = browser.open(t, other.URL, 800, false)
	b.run(`document.body.innerHTML = '<iframe src="` + s.url + `/"></iframe>'`)
	b.waitComplaint("frame-ancestors")
}

// New rows appear without a reload, and do not disturb the reader.
func TestPageRefreshes(t *testing.T) {
	s := startSandbox(t)
	s.signIn()
	for range 40 {
		s.get("Webhook/get-all-subscriptions")
	}
	var loan lendingtest.Loan
	require.NoError(t, s.control.Post(t.Context(), "add-loan", lendingtest.Loan{}, &loan))
	b := browser.open(t, s.url, 800, false)
	b.waitText("#customers", loan.ID)
	b.waitText("#connection", "Live")
	b.run(`stays = document.querySelector("#again-20"); ` + unfolded + `;
		document.querySelector("#requests").scrollTop = 900; scrollTo(0, 200);
		getSelection().selectAllChildren(stays.querySelector("pre"));
		field = document.querySelector("[name=by]"); field.value = "ha";
			document.querySelector("#again-20 summary").focus({preventScroll: true});
		top0 = stays.getBoundingClientRect().top`)
	look := func() []any {
		return value[[]any](b, `[stays === document.querySelector("#again-20"), stays.open, getSelection().toString(),
			field.value,
			document.activeElement === stays.querySelector("summary"), scrollY,
			Math.round(stays.getBoundingClientRect().top - top0)]`)
	}
	before := look()
	assert.Equal(t, true, before[4])
	assert.EqualValues(t, 200, before[5])
	s.get("Loan/get-loan/" + loan.ID)
	require.NoError(t, s.control.Post(t.Context(), "add-loan", lendingtest.Loan{}, &lendingtest.Loan{}))
	b.waitText("#newest", "GET /api/Loan/get-loan/{loanId}: 200, executed")
	b.wait(`document.querySelectorAll("#customers > details").length === 2`)
	after := look()
	assert.Equal(t, before[:6], after[:6])
	assert.InDelta(t, 0, after[6], 1, "the row stands where it stood")
	assert.Equal(t, "request-42", value[string](b, `document.querySelector("#requests tbody tr").id`))
	b.run(`document.querySelector("#again-21").open = false`)
	for range 55 {
		s.get("Loan/get-loan/" + loan.ID)
	}
	b.wait(`document.querySelector("#request-97") && !document.querySelector("#request-21")`)
	assert.True(t, value[bool](b, `stays === document.querySelector("#again-20")`), "an open row stays beside the newest")

	b.run(`document.querySelector("#refresh").click()`)
	b.waitText("#connection", "Not refreshed")
	s.get("Loan/get-loan/x")
	b.run(`document.querySelector("#refresh").click()`)
	b.waitText("#newest", "GET /api/Loan/get-loan/{loanId}: 400, not executed")
	b.waitText("#connection", "Live")
	assert.Empty(t, b.complaints())
}

// send fills a form with a script, submits the form and waits for its message.
func (b *tab) send(form, said, set string) {
	b.Helper()
	b.run(`{ const form = document.querySelector(` + strconv.Quote(form) + `);
		const set = (name, to) => form.elements[name].value = to;
		document.querySelector("#said").textContent = ""; ` + set + `; form.requestSubmit(); }`)
	b.waitText("#said", said)
}

// Each form for the life of a loan has its effect.
func TestFormsChangeRecords(t *testing.T) {
	s := startSandbox(t)
	made := s.fill("Lovelace & Sons")
	ctx := t.Context()
	b := browser.open(t, s.url, 1600, false)
	b.waitText("#connection", "Live")
	b.send("[data-order=update]", "The record was changed.", `set("id", "`+made.application+
		`"); set("set", '{"status":"On Hold"}')`)
	b.waitText("#customers", "On Hold")
	b.send("[data-order=update]", "The field is no JSON.", `set("set", "{")`)
	b.send("[data-order=update]", `unknown field "stauts"`, `set("set", '{"stauts":1}')`)
	b.send("[data-order=decision]", "Decisions go this way", `set("after", "10m")`)
	b.send("[data-order=delivery-mode]", "Webhooks go this way", `set("copies", "1")`)
	b.send("[data-order=repay]", "The repayment is made.", `set("loanId", "`+made.loan+`"); set("amount", "12.50")`)
	b.waitText("#customers", "Repayment")
	b.send("[data-order=add-account]", "account1@example.com", "")
	b.send("[data-order=services]", "/services/", "")
	b.send("[data-body*=Maintenance]", "The service is under maintenance.", "")
	assert.Equal(t, http.StatusServiceUnavailable, s.get("Loan/get-loan/"+made.loan))
	b.waitText("#requests", "<h1>Maintenance</h1>")
	b.send("[data-order=clear-faults]", "No fault is planned any more.", "")
	b.send("[data-order=revoke-tokens]", "All tokens are revoked.", "")
	assert.Equal(t, http.StatusUnauthorized, s.get("Loan/get-loan/"+made.loan))
	var snap lendingtest.Snapshot
	require.NoError(t, s.control.Get(ctx, "snapshot", nil, &snap))
	assert.Equal(t, "On Hold", snap.Applications[0].Status)
	assert.Equal(t, lendingtest.Cents(2487_50), snap.Loans[0].Balance)
	assert.Len(t, b.complaints(), 1, "the update that was refused")
}
