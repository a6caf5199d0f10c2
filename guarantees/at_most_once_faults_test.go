package guarantees_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// fault is the behavior of the service instead of a response, from testdata/conformance.json.
type fault struct {
	Name   string            `json:"name"`
	Client string            `json:"client"` // whose http.Client: "" is the package's own
	Warm   int               `json:"warm"`   // idle connections before the call
	On     string            `json:"on"`     // "first" request, "always", or "warm" connections
	Status int               `json:"status"` // an answer made of status, header and body
	Header map[string]string `json:"header"`
	Body   string            `json:"body"`
	Raw    string            `json:"raw"`  // an answer as it stands
	Then   string            `json:"then"` // "keep" the connection, "fin", "rst", "hang"; HTTP/2: see h2Conn

	Read     expectation `json:"read"`
	Mutation expectation `json:"mutation"`
}

// expectation is how a call ends under a fault.
type expectation struct {
	Arrivals int    `json:"arrivals"` // at the service, counted there
	Error    string `json:"error"`    // a name in errorNames; "" for success
	Outcome  string `json:"outcome"`
	AtLeast  string `json:"atLeast"` // duration of the call
}

// faultServer is a service on raw sockets with one fault. It counts the requests that
// it has read to their end. Requests outside its base path come from another process, whose service
// had the port before.
type faultServer struct {
	t        *testing.T
	base     string // path of no other service
	listener *net.TCPListener
	fault    fault
	answer   string // of a success
	onHang   func() // called when a request hangs
	warming  atomic.Int32
	barrier  chan struct{}
	foreign  string // address that redirects point to
	also     func() // closed with it
	isDoored bool   // TLS with certificates of both sides, and the header of a gateway
	healed   atomic.Bool
	starved  atomic.Bool // an HTTP/2 server waited for the client in vain

	ended    chan lending.Call // the last call that an observer saw
	arrivals atomic.Int32
	used     atomic.Int32 // connections with a request, or its first byte

	mu    sync.Mutex
	conns map[net.Conn]bool
	done  sync.WaitGroup
}

func newFaultServer(t *testing.T, f fault, answer string) *faultServer {
	t.Helper()
	s := &faultServer{t: t, fault: f, answer: answer}
	s.start(listenTCP(t))
	t.Cleanup(func() { _ = s.listener.Close() })
	return s
}

func listenTCP(t *testing.T) *net.TCPListener {
	t.Helper()
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	return listener
}

// start serves on a listener that no other server uses until Close.
func (s *faultServer) start(listener *net.TCPListener) {
	s.listener, s.barrier, s.conns = listener, make(chan struct{}), map[net.Conn]bool{}
	s.ended = make(chan lending.Call, 1)
	s.base = wire.BasePath + "/" + rand.Text()
	_ = listener.SetDeadline(time.Time{})
	s.done.Go(s.accept)
}

func (s *faultServer) URL() string { return "http://" + s.listener.Addr().String() + s.base }

// observe keeps the end of the last call.
func (s *faultServer) observe(ctx context.Context, _ lending.Call) (context.Context, func(lending.Call)) {
	return ctx, func(c lending.Call) {
		s.forget()
		select {
		case s.ended <- c:
		default: // another call, which warms a connection
		}
	}
}

func (s *faultServer) forget() {
	select {
	case <-s.ended:
	default:
	}
}

// hasTLS reports whether the client has the library's transport, and TLS with certificates of both
// sides.
func (s *faultServer) hasTLS() bool {
	return s.isDoored && slices.Contains([]string{"", "canceled", "renewing", "own h2"}, s.fault.Client)
}

// Close ends the service, and leaves the listener open.
func (s *faultServer) Close() {
	_ = s.listener.SetDeadline(time.Unix(1, 0))
	if s.also != nil {
		s.also()
	}
	s.mu.Lock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.done.Wait()
}

func (s *faultServer) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[conn] = true
		s.mu.Unlock()
		s.done.Go(func() {
			defer conn.Close()
			switch s.fault.Client {
			case "h2c":
				(&h2Conn{conn: conn, request: s.request}).serve()
			case "own h2":
				secure := tlsHTTP2(conn)
				if s.hasTLS() {
					secure = mutualConn(conn, "h2")
				}
				defer secure.Close()
				(&h2Conn{conn: secure, request: s.request}).serve()
			default:
				if s.hasTLS() {
					secure := mutualConn(conn)
					defer secure.Close()
					conn = secure
				}
				s.serve(conn)
			}
		})
	}
}

func (s *faultServer) serve(conn net.Conn) {
	reader, warm := bufio.NewReader(conn), false
	if s.fault.Then == "rst-early" {
		if _, err := reader.Peek(1); err == nil && s.used.Add(1) == 1 {
			reset(conn)
			return
		}
	}
	for first := true; ; first = false {
		request, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		if !strings.HasPrefix(request.URL.Path, s.base) {
			s.t.Logf("a request of another process: %s %s", request.Method, request.URL)
			return
		}
		if first {
			s.used.Add(1)
		}
		if s.isDoored {
			assert.Equal(s.t, []string{"north"}, request.Header["X-Tenant"])
		}
		if _, err := io.Copy(io.Discard, request.Body); err != nil {
			return
		}
		if s.warming.Load() > 0 {
			s.meet()
			warm = true
			_, _ = io.WriteString(conn, wire.RawReply(200, nil, `"warm"`))
			continue
		}
		if s.healed.Load() {
			_, _ = io.WriteString(conn, wire.RawReply(200, nil, `"healed"`))
			continue
		}
		n := s.arrivals.Add(1)
		if s.fault.On == "never" || s.fault.On == "first" && n > 1 || s.fault.On == "warm" && !warm {
			_, _ = io.WriteString(conn, wire.RawReply(200, nil, s.answer))
			continue
		}
		if !s.fail(conn) {
			return
		}
	}
}

// meet waits until all warming requests are here, so that each has a connection.
func (s *faultServer) meet() {
	if s.warming.Add(-1) == 0 {
		close(s.barrier)
	}
	<-s.barrier
}

var fill = strings.Repeat("x", 300<<10)

// fail does what the fault says, and reports whether the connection goes on.
func (s *faultServer) fail(conn net.Conn) bool {
	text := s.fault.Raw
	if s.fault.Status != 0 {
		text = wire.RawReply(s.fault.Status, s.fault.Header, s.fault.Body)
	}
	text = strings.NewReplacer(
		wire.BasePath+"/", s.base+"/", // where a redirect leads to this service
		"{{foreign}}", s.foreign,
		"{{soon}}", time.Now().Add(2*time.Second).UTC().Format(http.TimeFormat),
		"{{fill}}", fill,
	).Replace(text)
	_, _ = io.WriteString(conn, text)
	switch s.fault.Then {
	case "fin":
		return false
	case "rst":
		reset(conn)
		return false
	case "hang":
		s.onHang()
		_, _ = conn.Read(make([]byte, 1)) // until the client goes
		return false
	}
	return true
}

func reset(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}

// The parts of HTTP/2 (RFC 9113) that the faults need.
const (
	frameData, frameHeaders, frameReset, frameSettings, framePing, frameGoAway = 0, 1, 3, 4, 6, 7
	flagEndStream, flagEndHeaders, flagAck                                     = 1, 4, 1
	codeProtocol, codeInternal, codeRefused                                    = 1, 2, 7
	settingMaxHeaderList                                                       = 6
)

// h2Conn serves HTTP/2 on one connection.
type h2Conn struct {
	conn     net.Conn
	settings []byte                              // the payload of the first frame
	request  func(c *h2Conn, stream uint32) bool // answers, and reports whether the connection goes on
	idle     func(*bufio.Reader)                 // called before each frame between requests; may be nil

	mu     sync.Mutex        // held by write
	bodies map[uint32][]byte // of the requests, as far as they have come
}

// listenHTTP2 serves HTTP/2, and returns the address.
func listenHTTP2(t *testing.T, request func(c *h2Conn, stream uint32) bool) string {
	t.Helper()
	return "https://" + wire.ListenRaw(t, func(conn net.Conn) {
		secure := tlsHTTP2(conn)
		defer secure.Close()
		(&h2Conn{conn: secure, request: request}).serve()
	})
}

func (c *h2Conn) serve() {
	reader := bufio.NewReader(c.conn)
	if _, err := io.CopyN(io.Discard, reader, int64(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
		return
	}
	c.bodies = map[uint32][]byte{}
	c.write(frameSettings, 0, 0, c.settings)
	for inRequest := false; ; {
		if c.idle != nil && !inRequest {
			c.idle(reader)
		}
		var head [9]byte
		if _, err := io.ReadFull(reader, head[:]); err != nil {
			return
		}
		length := int64(head[0])<<16 | int64(head[1])<<8 | int64(head[2])
		payload, err := io.ReadAll(io.LimitReader(reader, length))
		if err != nil {
			return
		}
		kind, flags, stream := head[3], head[4], binary.BigEndian.Uint32(head[5:])
		switch kind {
		case frameHeaders:
			inRequest = true
		case frameData:
			c.bodies[stream] = append(c.bodies[stream], payload...)
		}
		switch {
		case kind == frameSettings && flags&flagAck == 0:
			c.write(frameSettings, flagAck, 0, nil)
		case kind == framePing && flags&flagAck == 0:
			c.write(framePing, flagAck, 0, payload)
		case (kind == frameHeaders || kind == frameData) && flags&flagEndStream != 0:
			if inRequest = false; !c.request(c, stream) {
				return
			}
		}
	}
}

// request answers a request of HTTP/2, and reports whether the connection goes on.
func (s *faultServer) request(c *h2Conn, stream uint32) bool {
	if s.warming.Load() > 0 {
		s.meet()
		c.respond(stream, `"warm"`)
		return true
	}
	if s.arrivals.Add(1) > 1 && s.fault.On == "first" {
		c.respond(stream, s.answer)
		return true
	}
	code := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	switch s.fault.Then {
	case "reset-protocol":
		c.write(frameReset, 0, stream, code(codeProtocol))
	case "reset-refused":
		c.write(frameReset, 0, stream, code(codeRefused))
	case "reset-internal":
		c.write(frameReset, 0, stream, code(codeInternal))
	case "goaway-before": // says that the stream was not processed
		c.write(frameGoAway, 0, 0, append(code(0), code(0)...))
		return false
	case "goaway-after": // says that it may have been
		c.write(frameGoAway, 0, 0, append(code(stream), code(codeInternal)...))
		return false
	case "fin":
		return false
	default:
		s.t.Errorf("unknown fault %q", s.fault.Then)
	}
	return true
}

// respond answers 200 with JSON: index 8 of HPACK's static table is ":status: 200",
// 31 is "content-type".
func (c *h2Conn) respond(stream uint32, body string) {
	const media = "application/json"
	c.write(frameHeaders, flagEndHeaders, stream, append([]byte{0x88, 0x0f, 31 - 15, byte(len(media))}, media...))
	c.write(frameData, flagEndStream, stream, []byte(body))
}

// fail answers with a status of an error. The field has the name of index 8, and a new value.
func (c *h2Conn) fail(stream uint32, status string) {
	c.write(frameHeaders, flagEndHeaders|flagEndStream, stream, append([]byte{8, byte(len(status))}, status...))
}

func (c *h2Conn) write(kind, flags byte, stream uint32, payload []byte) {
	var frame bytes.Buffer
	n := len(payload)
	frame.Write([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags})
	frame.Write(binary.BigEndian.AppendUint32(nil, stream))
	frame.Write(payload)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.conn.Write(frame.Bytes()); err != nil && !errors.Is(err, net.ErrClosed) {
		return // the client has gone
	}
}
