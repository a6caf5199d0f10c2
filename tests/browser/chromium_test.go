package browser_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// chromium is a browser with its events.
type chromium struct {
	process *exec.Cmd
	to      io.WriteCloser

	mu      sync.Mutex // guards the fields below
	calls   int
	waiting map[int]chan message
	events  []message
	gone    error
}

// message is a message of the Chrome DevTools Protocol, in either direction.
type message struct {
	ID        int             `json:"id,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    json.RawMessage `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// patience ends an endless wait. A busy machine may take more than a minute.
const patience = 5 * time.Minute

var errNoChromium = errors.New("chromium is missing: apt-get install chromium runs this; in CI it must run")

// startChromium starts a browser with an empty profile. The browser reaches this machine only.
func startChromium(profile string) (*chromium, error) {
	binary, err := exec.LookPath("chromium")
	if err != nil {
		return nil, errNoChromium
	}
	read, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	from, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c := &chromium{to: to, waiting: map[int]chan message{}}
	c.process = exec.Command(binary, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--host-resolver-rules=MAP * 127.0.0.1",
		"--user-data-dir="+profile, "--remote-debugging-pipe", "about:blank")
	c.process.ExtraFiles = []*os.File{read, write} // its 3 and 4
	if err := c.process.Start(); err != nil {
		return nil, err
	}
	_, _ = read.Close(), write.Close()
	go c.listen(from)
	return c, nil
}

// listen takes in messages, which end with a zero byte.
func (c *chromium) listen(from io.Reader) {
	in := bufio.NewReader(from)
	for {
		text, err := in.ReadBytes(0)
		var m message
		if err == nil {
			err = json.Unmarshal(bytes.TrimSuffix(text, []byte{0}), &m)
		}
		c.mu.Lock()
		switch {
		case err != nil:
			c.gone = fmt.Errorf("chromium has gone: %w", err)
			for _, waiting := range c.waiting {
				close(waiting)
			}
			clear(c.waiting)
			c.mu.Unlock()
			return
		case m.ID != 0:
			c.waiting[m.ID] <- m
			delete(c.waiting, m.ID)
		default:
			c.events = append(c.events, m)
		}
		c.mu.Unlock()
	}
}

// call sends a command to the browser and decodes its result.
func (c *chromium) call(session, method string, params, result any) error {
	p, err := json.Marshal(params)
	if err != nil {
		return err
	}
	answered := make(chan message, 1)
	c.mu.Lock()
	c.calls++
	m := message{ID: c.calls, SessionID: session, Method: method, Params: p}
	gone := c.gone
	if gone == nil {
		c.waiting[m.ID] = answered
	}
	c.mu.Unlock()
	text, err := json.Marshal(m)
	if err := errors.Join(gone, err); err != nil {
		return err
	}
	if _, err := c.to.Write(append(text, 0)); err != nil {
		return err
	}
	select {
	case answer, ok := <-answered:
		switch {
		case !ok:
			return c.gone
		case answer.Error != nil:
			return errors.New(method + ": " + answer.Error.Message)
		case result != nil:
			return json.Unmarshal(answer.Result, result)
		}
		return nil
	case <-time.After(patience):
		return errors.New(method + ": chromium does not answer")
	}
}

func (c *chromium) stop() {
	_ = c.call("", "Browser.close", struct{}{}, nil)
	_ = c.to.Close()
	_ = c.process.Wait()
}

// params of a command.
type params map[string]any

// tab is a page in the browser.
type tab struct {
	*testing.T
	browser *chromium
	context string // of cookies and permissions
	session string
}

// open opens a page in a context of its own, as wide as told.
func (c *chromium) open(t *testing.T, url string, width int, dark bool) *tab {
	t.Helper()
	var context struct{ BrowserContextID string }
	require.NoError(t, c.call("", "Target.createBrowserContext", params{}, &context))
	t.Cleanup(func() { _ = c.call("", "Target.disposeBrowserContext", context, nil) })
	var target struct{ TargetID string }
	require.NoError(t, c.call("", "Target.createTarget",
		params{"url": "about:blank", "browserContextId": context.BrowserContextID}, &target))
	var attached struct{ SessionID string }
	require.NoError(t, c.call("", "Target.attachToTarget", params{"targetId": target.TargetID, "flatten": true},
		&attached))
	b := &tab{t, c, context.BrowserContextID, attached.SessionID}
	for _, domain := range []string{"Page", "Runtime", "Log", "Accessibility", "DOM"} {
		b.do(domain+".enable", params{}, nil)
	}
	b.do("Emulation.setFocusEmulationEnabled", params{"enabled": true}, nil)
	b.resize(width, dark)
	b.do("Page.navigate", params{"url": url}, nil)
	b.wait("document.readyState === 'complete'")
	return b
}

func (b *tab) do(method string, p params, result any) {
	b.Helper()
	require.NoError(b, b.browser.call(b.session, method, p, result))
}

func (b *tab) resize(width int, dark bool) {
	b.Helper()
	scheme := map[bool]string{false: "light", true: "dark"}[dark]
	b.do("Emulation.setDeviceMetricsOverride", params{
		"width": width, "height": 900, "deviceScaleFactor": 1,
		"mobile": width < 600,
	}, nil)
	b.do("Emulation.setEmulatedMedia",
		params{"features": []params{
			{"name": "prefers-color-scheme", "value": scheme},
			{"name": "prefers-reduced-motion", "value": "reduce"},
		}}, nil)
}

// value evaluates an expression, and awaits a promise.
func value[T any](b *tab, expression string) (v T) {
	b.Helper()
	var answer struct {
		Result struct {
			Value json.RawMessage
		}
		ExceptionDetails *struct {
			Exception struct{ Description string }
		}
	}
	b.do("Runtime.evaluate", params{"expression": expression, "awaitPromise": true, "returnByValue": true}, &answer)
	if answer.ExceptionDetails != nil {
		b.Fatalf("%s: %s", expression, answer.ExceptionDetails.Exception.Description)
	}
	if len(answer.Result.Value) > 0 {
		require.NoError(b, json.Unmarshal(answer.Result.Value, &v), expression)
	}
	return v
}

// run runs a script.
func (b *tab) run(script string) { b.Helper(); value[any](b, script+"; undefined") }

// wait returns when an expression has become true.
func (b *tab) wait(expression string) {
	b.Helper()
	for end := time.Now().Add(patience); !value[bool](b, "!!("+expression+
		")"); <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatalf("%s did not come true; the page was\n%.3000s", expression,
				value[string](b, "document.body.innerText"))
		}
	}
}

// waitText returns when an element shows a text.
func (b *tab) waitText(selector, text string) {
	b.Helper()
	b.wait(fmt.Sprintf("document.querySelector(%q)?.textContent.includes(%q)", selector, text))
}

var keys = map[string]struct {
	code int
	text string
}{"Tab": {9, ""}, "Enter": {13, "\r"}, "Space": {32, " "}, "Escape": {27, ""}, "ArrowDown": {40, ""}}

// press presses keys by name, as a keyboard does.
func (b *tab) press(names ...string) {
	b.Helper()
	for _, name := range names {
		key := params{
			"type": "keyDown", "key": name, "code": name, "windowsVirtualKeyCode": keys[name].code,
			"text": keys[name].text,
		}
		if name == "Space" {
			key["key"] = " "
		}
		b.do("Input.dispatchKeyEvent", key, nil)
		key["type"] = "keyUp"
		delete(key, "text")
		b.do("Input.dispatchKeyEvent", key, nil)
	}
}

// tabTo presses Tab until an element has the focus.
func (b *tab) tabTo(selector string) {
	b.Helper()
	for range 400 {
		if value[bool](b, fmt.Sprintf("document.activeElement.matches(%q)", selector)) {
			return
		}
		b.press("Tab")
	}
	b.Fatalf("no way with Tab to %s", selector)
}

func (b *tab) typed(text string) {
	b.Helper()
	b.do("Input.insertText", params{"text": text}, nil)
}

// screenshot keeps a picture of the whole page if LENDING_TEST_SCREENSHOTS names a folder.
func (b *tab) screenshot(name string) {
	b.Helper()
	folder := os.Getenv("LENDING_TEST_SCREENSHOTS")
	if folder == "" {
		return
	}
	var picture struct{ Data string }
	b.do("Page.captureScreenshot", params{"captureBeyondViewport": true}, &picture)
	data, err := base64.StdEncoding.DecodeString(picture.Data)
	require.NoError(b, err)
	require.NoError(b, os.WriteFile(folder+"/"+name+".png", data, 0o600))
}

// complaints are errors and warnings of the page so far: failed scripts, violations of the page's
// policy, dialogs.
func (b *tab) complaints() (all []string) {
	b.browser.mu.Lock()
	defer b.browser.mu.Unlock()
	complaint := []string{
		"Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled",
		"Page.javascriptDialogOpening",
	}
	for _, e := range b.browser.events {
		if e.SessionID == b.session && slices.Contains(complaint, e.Method) {
			all = append(all, string(e.Params))
		}
	}
	return all
}

// waitComplaint waits for a complaint.
func (b *tab) waitComplaint(about string) {
	b.Helper()
	require.Eventually(b, func() bool { return strings.Contains(strings.Join(b.complaints(), "\n"), about) },
		patience, 10*time.Millisecond, "no complaint about %s", about)
}
