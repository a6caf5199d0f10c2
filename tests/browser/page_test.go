package browser_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// hostile is a text that tries to run on the page, or to widen the page.
var hostile = `"><img src=x onerror=pwned=1><script>pwned=1</script>'` + strings.Repeat("W", 300)

// unfolded opens every element.
const unfolded = `document.querySelectorAll("details").forEach((d) => d.open = true)`

// The page fits at each width, light and dark, is accessible, and shows the texts of callers as text.
func TestPage(t *testing.T) {
	s := startSandbox(t)
	s.fill(hostile)
	s.call("GET", "/api/Application/"+escape(hostile)+"?name="+escape(hostile)+"&%3Cscript%3Epwned=1", "", nil)
	s.call("POST", "/api/Webhook/handler", `{"id":`+text(hostile)+`,"webhookEvent":`+text(hostile)+`,"data":{`+
		text(hostile)+`:1}}`, nil)
	s.call("POST", "/api/Application/create-application", `{"customerId":"`+hostile, nil)
	s.call("GET", "/api/Application/application-status/x", "", nil)
	require.NoError(t, s.control.Post(t.Context(), "wait", nil, nil))

	b := browser.open(t, s.url, 360, false)
	b.waitText("#connection", "Live")
	b.fits("page", []int{360, 800, 1600})
	shown := value[string](b, "document.body.textContent")
	assert.Greater(t, strings.Count(shown, hostile), 10, "it stands there as text")
	assert.Equal(t, "undefined", value[string](b, "typeof pwned"))
	assert.Zero(t, value[int](b, "document.querySelectorAll('img, main script, iframe, [onerror]').length"))
	assert.Empty(t, b.complaints())

	resp, err := http.Get(s.url)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	policy := resp.Header.Get("Content-Security-Policy")
	assert.Contains(t, policy, "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self';")
	assert.NotContains(t, policy, "unsafe")
	b.run(`const script = document.createElement("script"); script.textContent = "pwned = 1"; ` +
		`document.body.append(script)`)
	assert.Equal(t, "undefined", value[string](b, "typeof pwned"), "the policy stops what would get through")
	b.waitComplaint("script-src")
}

// fits checks the page at each width, light and dark, folded and unfolded.
func (b *tab) fits(page string, widths []int) {
	b.Helper()
	for _, width := range widths {
		for _, dark := range []bool{false, true} {
			b.resize(width, dark)
			name := fmt.Sprintf("%s %d %s", page, width, map[bool]string{false: "light", true: "dark"}[dark])
			b.screenshot(name)
			b.run(unfolded)
			b.screenshot(name + " unfolded")
			assert.Empty(b, value[[]string](b, outside), "%s: does not fit", name)
			assert.Empty(b, value[[]string](b, faint), "%s: cannot be read", name)
			b.accessible(name)
			b.run(`document.querySelectorAll("details").forEach((d) => d.open = false)`)
		}
	}
}

// outside lists elements beyond the edge of the window, and boxes with a horizontal scroll bar.
const outside = `[...document.querySelectorAll("body *")].filter((e) => {
	const box = e.getBoundingClientRect();
	return box.width && (box.right > innerWidth + 1 || box.left < -1) && !e.parentElement.closest(".box");
}).map((e) => e.outerHTML.slice(0, 100)).concat(
	document.documentElement.scrollWidth > innerWidth ? ["the page scrolls"] : [],
	[...document.querySelectorAll(".box")].filter((e) => e.scrollWidth > e.clientWidth + 1)
			.map((e) => "scrolls: " + e.outerHTML.slice(0, 100)))`

// faint lists the texts, placeholders and edges of fields with less contrast than level AA of WCAG
// 2.2.
const faint = `(() => {
	const rgb = (color) => color.match(/[\d.]+/g).map(Number);
	const light = (color) => rgb(color).slice(0, 3).map((v) => v / 255)
		.map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
		.reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
	const ground = (e) => {
		for (; e; e = e.parentElement) {
			const color = getComputedStyle(e).backgroundColor;
			if ((rgb(color)[3] ?? 1) === 1) return color;
		}
	};
	const contrast = (a, b) => {
			const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
	const found = [];
	const want = (ratio, color, e, what) => {
		const has = contrast(color, ground(e));
		if (has < ratio) found.push(what + " " + has.toFixed(2) + " " + e.outerHTML.slice(0, 80));
	};
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (texts.nextNode()) {
		const e = texts.currentNode.parentElement;
		if (texts.currentNode.data.trim() && e.checkVisibility()) want(4.5, getComputedStyle(e).color, e, "text");
	}
	for (const e of document.querySelectorAll("input, select, textarea, button")) {
		if (!e.checkVisibility()) continue;
		want(3, getComputedStyle(e).borderTopColor, e.parentElement, "edge");
		if (e.placeholder) want(4.5, getComputedStyle(e, "::placeholder").color, e, "placeholder");
	}
	return found;
})()`

// nameless lists the visible things to operate without a name.
const nameless = `[...document.querySelectorAll("button, a, summary, input, select, textarea, [role=region]")]
	.filter((e) => e.checkVisibility() && !(e.ariaLabel || e.getAttribute("aria-labelledby") || e.labels?.length ||
		e.textContent.trim() && e.matches("button, a, summary"))).map((e) => e.outerHTML.slice(0, 100))`

// accessible checks the names of things to operate, and the rules of axe-core, if LENDING_TEST_AXE names its script.
func (b *tab) accessible(name string) {
	b.Helper()
	assert.Empty(b, value[[]string](b, nameless), name)
	if axe != "" {
		b.run(axe)
		assert.Empty(b, value[[]string](b, `axe.run().then((found) => found.violations.flatMap((rule) =>
			rule.nodes.map((node) => rule.id + ": " + node.failureSummary + " " + node.html.slice(0, 200))))`), name)
	}
}

// The page is usable without requests and with 2,000 requests, and shows the newest.
func TestPageOfManyRequests(t *testing.T) {
	for _, requests := range []int{0, 30, 2000} {
		t.Run(fmt.Sprint(requests), func(t *testing.T) {
			s := startSandbox(t)
			if requests > 0 {
				s.signIn()
			}
			for i := 1; i < requests; i++ {
				s.get([]string{"Webhook/get-all-subscriptions", "Loan/get-loan/x", "Loan/get-loan/" + lendingtest.PartnerID}[i%3])
			}
			b := browser.open(t, s.url, 360, false)
			b.waitText("#connection", "Live")
			assert.Equal(t, min(requests, 50), value[int](b, `document.querySelectorAll("#requests tbody tr").length`))
			b.fits(fmt.Sprint(requests, " requests"), []int{360, 900, 1400})
			assert.Empty(t, b.complaints())
		})
	}
}

// Without its script the page is readable, and has no forms without an effect.
func TestWithoutScript(t *testing.T) {
	s := startSandbox(t)
	made := s.fill("Lovelace & Sons")
	b := browser.open(t, "about:blank", 800, false)
	b.do("Emulation.setScriptExecutionDisabled", params{"value": true}, nil)
	b.do("Page.navigate", params{"url": s.url}, nil)
	b.wait("document.readyState === 'complete' && document.getElementById('requests')")
	for _, want := range []string{
		"Lovelace & Sons", made.loan, "POST /api/Loan/confirm-withdrawal-invoice/{loanId}",
		"WB_Loan_Created", "Reload to see what is new",
	} {
		assert.Contains(t, value[string](b, "document.body.textContent"), want)
	}
	assert.Zero(t, value[int](b, "[...document.querySelectorAll('button, input')].filter((e) => "+
		"e.checkVisibility()).length"))
	assert.Empty(t, value[string](b, "document.getElementById('connection').textContent"))
}

// Two rows with the same identifier are both shown, and no later row is lost. The clock moves without
// an event.
func TestRowsWithTheSameIdentifierAreShown(t *testing.T) {
	s := startSandbox(t)
	b := browser.open(t, s.url, 1600, false)
	b.waitText("#connection", "Live")
	for _, summary := range []string{"1 loan", "2 loans", "3 loans"} {
		t.Run(summary, func(t *testing.T) {
			loan := lendingtest.Loan{Transactions: []lendingtest.Transaction{{ID: "same"}, {ID: "same"}}}
			require.NoError(t, s.control.Post(t.Context(), "add-loan", loan, &loan))
			b.waitText("#summary", summary)
		})
	}
	require.Equal(t, 3, value[int](b, `document.querySelectorAll("#customers > details").length`))
	require.Equal(t, 6, value[int](b, `document.querySelectorAll("#transaction-same").length`))
	require.Empty(t, b.complaints())
	clock := value[string](b, `document.querySelector("#clock").textContent`)
	require.Eventually(t, func() bool {
		return value[string](b,
			`document.querySelector("#clock").textContent`) != clock
	}, patience, 100*time.Millisecond)
}
