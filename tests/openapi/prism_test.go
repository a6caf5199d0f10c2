package openapi_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"

	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/stretchr/testify/require"
)

// prism is a proxy that compares its traffic with openapi.yaml. Its reader of OpenAPI and JSON
// Schema is independent of this repository. LENDING_TEST_PRISM is the path of the program.
type prism struct {
	url     string
	front   *httptest.Server
	behind  atomic.Pointer[lendingtest.Server] // the service of the suite that is running
	process *exec.Cmd
	judged  int // exchanges
}

func startPrism(program string) (*prism, error) {
	p := &prism{}
	p.front = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.behind.Load().ServeHTTP(w, r)
	}))
	p.process = exec.Command(program, "proxy", "../../lendingtest/openapi.yaml", p.front.URL+"/base",
		"--host", "127.0.0.1", "--port", "0")
	p.process.Stderr = os.Stderr
	printed, err := p.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.process.Start(); err != nil {
		return nil, err
	}
	lines, read := bufio.NewReader(printed), strings.Builder{}
	for {
		line, err := lines.ReadString('\n')
		read.WriteString(line)
		if err != nil {
			return nil, fmt.Errorf("prism has ended: %w: %s", err, read.String())
		}
		if _, address, ok := strings.Cut(line, "Prism is listening on "); ok {
			p.url = strings.TrimSpace(address)
			go func() { _, _ = io.Copy(io.Discard, lines) }()
			return p, nil
		}
	}
}

func (p *prism) stop() {
	_ = p.process.Process.Kill()
	_ = p.process.Wait()
	p.front.Close()
}

// takes reports whether a request can go through Prism, which refuses bodies above 10 MB and
// broken JSON, and does not judge a route outside the description.
func (p *prism) takes(s *suite, x exchange) bool {
	if p == nil || x.length > 0 || len(x.body) > 10_000_000 || x.body != "" && !json.Valid([]byte(x.body)) {
		return false
	}
	item := s.doc.Paths.Value(x.path)
	return item != nil && item.GetOperation(x.method) != nil
}

// judge compares the findings of Prism with those of the test: none in a response, and in a request
// if and only if the request is broken.
func (p *prism) judge(s *suite, x exchange, resp *http.Response) {
	s.Helper()
	p.judged++
	var found []struct {
		Location []string
		Message  string
	}
	if header := resp.Header.Get("sl-violations"); header != "" {
		require.NoError(s, json.Unmarshal([]byte(header), &found), header)
	}
	var request, answer []string
	for _, violation := range found {
		if violation.Location[0] == "request" {
			request = append(request, violation.Message)
		} else {
			answer = append(answer, violation.Message)
		}
	}
	at := "Prism, " + x.route() + " " + short(x.body)
	switch {
	case x.declared == unread:
	case x.broken:
		require.NotEmpty(s, request, "%s: the request is broken", at)
	default:
		require.Empty(s, request, "%s: the request is fine", at)
	}
	if x.spoilt {
		require.NotEmpty(s, answer, "%s: the response is not the described one", at)
	} else {
		require.Empty(s, answer, "%s: the answer is fine", at)
	}
}

// unread is a content type whose bodies Prism passes on unchanged. In other types Prism unquotes a
// JSON string.
const unread = "text/json"

// spoil makes a route respond against the description. If Prism cannot compile a schema, it accepts
// every response silently.
func (s *suite) spoil(x exchange) {
	s.Helper()
	success := x.Responses.Status(http.StatusOK).Value.Content.Get("application/json")
	if success == nil {
		return
	}
	wrong := `"text"`
	if success.Schema.Value.Type.Is("string") {
		wrong = "{}"
	}
	s.service.Answer(x.route(), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, wrong)
	})
	defer s.service.Answer(x.route(), nil)
	require.True(s, s.prism.takes(s, x), x.route())
	x.spoilt = true
	s.send(x)
}
