package lending_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/race"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// maxDocument is the size of the largest file the service accepts.
const maxDocument = 15 << 20

func statement(content io.Reader) lending.Document {
	return lending.Document{Name: "statement.pdf", Content: content}
}

func TestUploadIsRefusedBeforeItIsSent(t *testing.T) {
	client := wire.Serve(t, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") })
	directory, err := os.Open(t.TempDir())
	require.NoError(t, err)
	defer directory.Close()
	const unsafe = "must not hold control characters or invalid UTF-8"
	unsized, four := iotest.HalfReader(nil), strings.NewReader("four")
	for _, test := range []struct {
		name                 string
		doc                  lending.Document
		field, message, code string
	}{
		{"no content", statement(nil), "content", "must not be nil", lending.CodeRequired},
		{"nil buffer", statement((*bytes.Buffer)(nil)), "content", "must not be nil", lending.CodeRequired},
		{"nil file", statement((*os.File)(nil)), "content", "must not be nil", lending.CodeRequired},
		{"directory", lending.Document{Content: directory}, "content", "must not be a directory", lending.CodeRequired},
		{"lost its place", statement(&lost{}), "content", "must seek back to where it stood", lending.CodeRequired},
		{"empty section", statement(io.NewSectionReader(four, 0, 0)), "content", "must not be empty", lending.CodeRequired},
		{"empty", statement(strings.NewReader("")), "content", "must not be empty", lending.CodeRequired},
		{
			"one byte too big", statement(bytes.NewReader(make([]byte, maxDocument+1))),
			"content", "must have at most 15 MiB", lending.CodeRange,
		},
		{
			"claimed too big",
			lending.Document{Name: "f", Content: unsized, Size: maxDocument + 1},
			"content", "must have at most 15 MiB", lending.CodeRange,
		},
		{
			"negative size",
			lending.Document{Name: "f", Content: unsized, Size: -1},
			"size", "must not be negative", lending.CodeRange,
		},
		{
			"another size",
			lending.Document{Name: "f", Content: four, Size: 5},
			"size", "must be what the content holds", lending.CodeConflict,
		},
		{
			"size of an empty reader",
			lending.Document{Name: "f", Content: strings.NewReader(""), Size: 5},
			"size", "must be what the content holds", lending.CodeConflict,
		},
		{"no name", lending.Document{Content: four}, "fileName", "must not be empty", lending.CodeRequired},
		{"control in name", lending.Document{Name: "a\nb", Content: four}, "fileName", unsafe, lending.CodeUnsafe},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := upload(t.Context(), client, test.doc)
			var argument *lending.ArgumentError
			require.ErrorAs(t, err, &argument)
			want := lending.FieldError{Field: test.field, Message: test.message, Code: test.code}
			assert.Equal(t, []lending.FieldError{want}, argument.Fields)
			assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
		})
	}
	var argument *lending.ArgumentError
	err = client.Approval.SubmitRequiredDocument(t.Context(), uploadTo, lending.RequirementID{}, "", lending.Document{})
	require.ErrorAs(t, err, &argument)
	assert.Len(t, argument.Fields, 4, "supportingDocumentId, fileType, fileName, content")
}

// lost is a reader that cannot seek back.
type lost struct{ io.Reader }

func (*lost) Seek(offset int64, whence int) (int64, error) {
	if whence == io.SeekStart {
		return 0, errDisk
	}
	return 10 * int64(whence), nil
}

var errDisk = errors.New("disk: secret/path/123-45-6789.pdf")

// TestUploadOfABadReaderIsNeverAccepted sends what a reader holds before it lies or
// fails, at every kind of place, and looks at what the service could make of it.
func TestUploadOfABadReaderIsNeverAccepted(t *testing.T) {
	client, arrived := documents(t)
	const size = 60_000
	content := file(size)
	for _, known := range []bool{true, false} {
		for _, at := range []int{0, 1, 2, 3, 4, 1000, 24<<10 - 1, 24 << 10, 24<<10 + 1, 50_000, size - 1, size} {
			part := content[:at]
			for _, test := range []struct {
				name   string
				reader io.Reader
			}{
				{"fails", io.MultiReader(bytes.NewReader(part), iotest.ErrReader(errDisk))},
				{"ends", io.MultiReader(bytes.NewReader(part))},
				{"longer", io.MultiReader(bytes.NewReader(content), bytes.NewReader(content[:max(at, 1)]))},
			} {
				doc := lending.Document{Name: "f", Content: test.reader}
				want := "document could not be read after"
				switch {
				case known && test.name == "ends" && at == 0:
					want = "the document is empty"
				case known && test.name == "ends":
					want = fmt.Sprintf("the document ended after %d of its %d bytes", at, size)
				case known && test.name == "longer":
					want = fmt.Sprintf("the document holds more than its %d bytes", size)
				case test.name == "ends" && at == 0:
					want = "the document is empty"
				}
				if known {
					doc.Size = size
				}
				if test.name == "ends" && (at == size || !known && at > 0) || test.name == "longer" && !known {
					continue // a good reader
				}
				t.Run(fmt.Sprintf("known %t, %s at %d", known, test.name, at), func(t *testing.T) {
					err := upload(t.Context(), client, doc)
					require.ErrorContains(t, err, want)
					require.NotContains(t, fmt.Sprintf("%+v", err), "123-45-6789")
					require.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
					require.Equal(t, test.name == "fails", errors.Is(err, errDisk))
					select {
					case got := <-arrived:
						require.Error(t, got.err, "the service could read it")
					case <-time.After(time.Minute):
						t.Fatal("the handler is still waiting")
					}
				})
			}
		}
	}
}

func TestUploadOfUnknownSizeIsBounded(t *testing.T) {
	client, arrived := documents(t)
	long := io.MultiReader(bytes.NewReader(make([]byte, maxDocument)), strings.NewReader("!"))
	err := upload(t.Context(), client, statement(long))
	require.ErrorIs(t, err, lending.ErrTooLarge)
	require.ErrorContains(t, err,
		"the document is larger than 15 MiB; the content was read, open the document again: not sent")
	got := <-arrived
	require.Error(t, got.err)
}

func TestErrorOfAnUploadThatTheServiceDidNotAccept(t *testing.T) {
	for body, want := range map[string]string{
		"false":              "the service did not accept the document: outcome unknown, check with Applications.Status",
		`{"ok":true}`:        "the answer is not true: outcome unknown, check with Applications.Status",
		`{"errorCode":"E2"}`: "the answer reports a failure: errorCode",
		"tru":                "the answer is not true",
	} {
		t.Run(body, func(t *testing.T) {
			client := wire.InMemory(t, func(r *http.Request) (*http.Response, error) {
				_, _ = io.Copy(io.Discard, r.Body)
				return wire.Reply(http.StatusOK, body)(r)
			})
			require.ErrorContains(t, upload(t.Context(), client, statement(strings.NewReader("content"))), want)
		})
	}
}

// TestRefusalOfAnUploadIsNeverLost: the service refuses by status alone when it is asked,
// keeps the connection as far as it says, and closes it or reads on. The refusal arrives
// every time, nothing is sent after it, and the source of tokens learns of a 401.
func TestRefusalOfAnUploadIsNeverLost(t *testing.T) {
	const times = 30
	for _, test := range []struct {
		status int
		want   error
	}{{401, lending.ErrUnauthorized}, {417, nil}, {413, lending.ErrTooLarge}} {
		for _, closes := range []bool{true, false} {
			for _, foreign := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d, closes=%t, foreign=%t", test.status, closes, foreign), func(t *testing.T) {
					t.Parallel()
					var inVain atomic.Int64
					url := "http://" + wire.ListenRaw(t, func(conn net.Conn) {
						rest := bufio.NewReader(conn)
						if _, err := http.ReadRequest(rest); err != nil {
							return
						}
						_, _ = io.WriteString(conn, wire.RawReply(test.status, nil, ""))
						if !closes {
							n, _ := io.Copy(io.Discard, rest)
							inVain.Add(n)
						}
					})
					source := &wire.Renewing{}
					opts := []lending.Option{lending.WithTokenSource(source)}
					if foreign {
						transport := &http.Transport{ExpectContinueTimeout: time.Minute}
						defer transport.CloseIdleConnections()
						opts = append(opts, lending.WithHTTPClient(&http.Client{Transport: transport}))
					}
					client := wire.NewClient(t, url, opts...)
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
					defer cancel()
					for range times {
						content := bytes.NewReader(file(maxDocument))
						err := upload(ctx, client, statement(content))
						assert.Equal(t, maxDocument, content.Len(), "nothing was read")
						var failed *lending.Error
						require.ErrorAs(t, err, &failed)
						require.Equal(t, test.status, failed.StatusCode, "%v", err)
						require.Equal(t, lending.OutcomeRejected, failed.Outcome)
						if test.want != nil {
							require.ErrorIs(t, err, test.want)
						}
					}
					assert.Zero(t, inVain.Load(), "bytes sent after the refusal")
					if test.status == http.StatusUnauthorized {
						assert.EqualValues(t, times, source.Refused.Load())
					}
				})
			}
		}
	}
}

// TestUploadIsNotTakenForAcceptedBeforeItWasSent: whatever success the service answers
// with before it has the whole document, it has not stored it.
func TestUploadIsNotTakenForAcceptedBeforeItWasSent(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		for _, early := range []struct {
			status int
			body   string
		}{{204, ""}, {200, ""}, {200, "null"}, {200, "{oops"}, {200, "true"}, {201, "tru"}} {
			t.Run(fmt.Sprintf("%s, %d %s", protocol, early.status, early.body), func(t *testing.T) {
				server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					assert.Equal(t, protocol, r.Proto)
					wire.Answer(early.status, early.body)(w, r)
				}))
				server.EnableHTTP2 = protocol == "HTTP/2.0"
				server.StartTLS()
				t.Cleanup(server.Close)
				// It waits, lest the end of the connection overtakes the answer.
				server.Client().Transport.(*http.Transport).ExpectContinueTimeout = time.Minute
				var seen lending.Outcome
				client := wire.NewClient(t, server.URL, lending.WithTokenSource(lending.StaticToken("t")),
					lending.WithHTTPClient(server.Client()),
					wire.Attempts(func(_ context.Context, a lending.Call) { seen = a.Outcome }))
				err := upload(t.Context(), client, statement(bytes.NewReader(file(maxDocument))))
				require.ErrorContains(t, err, "answered before it had the whole document")
				assert.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(err))
				assert.Equal(t, lending.OutcomeUnknown, seen)
			})
		}
	}
}

// TestUploadThatGoesOnAfterAnEarlyAnswer: the transport may read the rest after it has
// handed on the answer. The outcome does not change under way, and nothing of the
// caller's is called once the upload has returned.
func TestUploadThatGoesOnAfterAnEarlyAnswer(t *testing.T) {
	var body io.Reader
	drain := false
	observer := func(context.Context, lending.Call) {
		if drain {
			_, err := io.Copy(io.Discard, body)
			assert.Error(t, err, "the last byte does not leave after the response")
		}
	}
	client := wire.InMemory(t, func(r *http.Request) (*http.Response, error) {
		body = r.Body
		_, err := io.CopyN(io.Discard, body, 1000) // a part
		assert.NoError(t, err)
		return &http.Response{StatusCode: http.StatusNoContent, Header: http.Header{}, Body: http.NoBody}, nil
	}, wire.Attempts(observer))
	for _, drain = range []bool{false, true} {
		t.Run(fmt.Sprint(drain), func(t *testing.T) {
			content := bytes.NewReader(file(100_000))
			over := false
			doc := statement(content)
			doc.Progress = func(int64, int64) { assert.False(t, over) }
			err := upload(t.Context(), client, doc)
			over = true
			require.ErrorContains(t, err, "answered before it had the whole document")
			assert.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(err))
			if left := content.Len(); !drain {
				n, err := body.Read(make([]byte, 1000))
				assert.Zero(t, n)
				require.Error(t, err)
				assert.Equal(t, left, content.Len(), "it was read after the upload had returned")
			}
		})
	}
}

func TestUploadIsCutByTheService(t *testing.T) {
	content := file(maxDocument)
	whole := int64(len(content)+2)/3*4 + 2
	for _, test := range []struct {
		name    string
		read    int64
		outcome lending.Outcome
	}{
		{"at once", 0, lending.OutcomeNotSent},
		{"in the middle", 1 << 20, lending.OutcomeNotSent},
		{"after the last", whole, lending.OutcomeUnknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			var arrivals atomic.Int32
			address := wire.ListenRaw(t, func(conn net.Conn) {
				r, err := http.ReadRequest(bufio.NewReader(conn))
				if err != nil {
					return
				}
				_, _ = io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\n")
				arrivals.Add(1)
				_, _ = io.CopyN(io.Discard, r.Body, test.read)
				_ = conn.(*net.TCPConn).SetLinger(0) // a reset
			})
			client := wire.NewClient(t, "http://"+address, lending.WithTokenSource(lending.StaticToken("t")))
			err := upload(t.Context(), client, statement(bytes.NewReader(content)))
			require.Error(t, err)
			assert.Equal(t, test.outcome, lending.OutcomeOf(err), "%v", err)
			assert.EqualValues(t, 1, arrivals.Load())
		})
	}
}

// pipeService is a client of a service at the other end of a pipe, for synctest.
func pipeService(t *testing.T, handle func(conn net.Conn, r *http.Request), opts ...lending.Option) *lending.Client {
	t.Helper()
	var serving sync.WaitGroup
	t.Cleanup(serving.Wait)
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn,
		error,
	) {
		near, far := net.Pipe()
		serving.Go(func() {
			defer far.Close()
			if r, err := http.ReadRequest(bufio.NewReaderSize(far, 16)); err == nil {
				handle(far, r)
			}
		})
		return near, nil
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return wire.NewClient(t, "http://localhost", append(opts, lending.WithTokenSource(lending.StaticToken("t")),
		lending.WithHTTPClient(&http.Client{Transport: transport}))...)
}

func TestUploadThatStalls(t *testing.T) {
	for _, test := range []struct {
		name    string
		content int
		read    int64
		outcome lending.Outcome
	}{
		{"in the middle", 1 << 20, 100_000, lending.OutcomeNotSent},
		{"before the answer", 1000, 1338, lending.OutcomeUnknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gone := make(chan struct{})
				client := pipeService(t, func(conn net.Conn, r *http.Request) {
					_, _ = io.CopyN(io.Discard, r.Body, test.read)
					<-gone
				})
				defer close(gone)
				start := time.Now()
				err := upload(t.Context(), client, statement(bytes.NewReader(file(test.content))))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorContains(t, err, "no progress for 2m0s")
				assert.Equal(t, test.outcome, lending.OutcomeOf(err))
				assert.Equal(t, 2*time.Minute, time.Since(start))

				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				start = time.Now()
				err = upload(ctx, client, statement(bytes.NewReader(file(test.content))))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				assert.Equal(t, 10*time.Minute, time.Since(start), "a deadline replaces the limit")
			})
		})
	}
}

// TestUploadToASlowServiceIsNotCut: the limit is on progress, not on the whole.
func TestUploadToASlowServiceIsNotCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		content := file(1 << 20)
		var got []byte
		client := pipeService(t, func(conn net.Conn, r *http.Request) {
			var body bytes.Buffer
			for {
				<-time.After(time.Minute) // 32 KiB a minute
				if _, err := io.CopyN(&body, r.Body, 32<<10); err != nil {
					break
				}
			}
			_ = json.Unmarshal(body.Bytes(), &got)
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "+
				"4\r\n\r\ntrue")
		})
		start := time.Now()
		require.NoError(t, upload(t.Context(), client, statement(bytes.NewReader(content))))
		assert.True(t, bytes.Equal(content, got))
		assert.Greater(t, time.Since(start), 40*time.Minute)
	})
}

// gate is a reader that blocks until it is opened.
type gate struct {
	entered, open chan struct{}
	after         io.Reader
}

func (g *gate) Read(p []byte) (int, error) {
	close(g.entered)
	<-g.open
	return g.after.Read(p)
}

// TestUploadIsCancelled while Content blocks: the call returns, and neither Content nor
// Progress is called again.
func TestUploadIsCancelled(t *testing.T) {
	client, arrived := documents(t)
	ctx, cancel := context.WithCancel(t.Context())
	blocked := &gate{make(chan struct{}), make(chan struct{}), strings.NewReader("late")}
	after := bytes.NewReader(file(100_000))
	var returned atomic.Bool
	done := make(chan error)
	go func() {
		err := upload(ctx, client, lending.Document{
			Name: "f", Content: io.MultiReader(strings.NewReader("first"), blocked, after),
			Progress: func(int64, int64) { assert.False(t, returned.Load()) },
		})
		returned.Store(true)
		done <- err
	}()
	<-blocked.entered
	cancel()
	err := <-done
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
	close(blocked.open)
	got := <-arrived
	require.Error(t, got.err)
}

// TestUploadThatCannotConnectLeavesItsContent: a file that is not sent is not read either,
// although it is read ahead of what is sent.
func TestUploadThatCannotConnectLeavesItsContent(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	client := wire.NewClient(t, "http://"+listener.Addr().String(), lending.WithTokenSource(lending.StaticToken("t")))
	content := strings.NewReader("content")
	err = upload(t.Context(), client, statement(readerFunc(content.Read)))
	require.ErrorContains(t, err, "cannot connect")
	assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
	assert.EqualValues(t, content.Size(), content.Len())
}

func TestUploadReportsItsProgress(t *testing.T) {
	client, arrived := documents(t)
	const size = 1_000_000
	for _, known := range []bool{true, false} {
		t.Run(fmt.Sprint(known), func(t *testing.T) {
			var content io.Reader = bytes.NewReader(file(size))
			total := int64(size)
			if !known {
				content, total = io.MultiReader(content), 0
			}
			var steps []int64 // without a lock: calls come one at a time, before the upload returns
			require.NoError(t, upload(t.Context(), client, lending.Document{
				Name: "f", Content: content,
				Progress: func(sent, of int64) {
					require.Equal(t, total, of)
					steps = append(steps, sent)
				},
			}))
			<-arrived
			require.NotEmpty(t, steps)
			assert.IsIncreasing(t, steps)
			assert.EqualValues(t, size, steps[len(steps)-1])
			assert.Greater(t, len(steps), 30)
			assert.Less(t, len(steps), 400, "it is cheap")
		})
	}
}

// TestUploadThroughATransportThatTakesLittle: whatever a transport asks for at a time, it gets
// the whole, and Progress tells no more than it has.
func TestUploadThroughATransportThatTakesLittle(t *testing.T) {
	var body []byte
	client := wire.InMemory(t, func(r *http.Request) (*http.Response, error) {
		for p := make([]byte, 1000); ; {
			n, err := r.Body.Read(p)
			body = append(body, p[:n]...)
			if err != nil {
				assert.Equal(t, io.EOF, err)
				break
			}
		}
		return wire.Reply(http.StatusOK, "true")(r)
	})
	content := file(100_000)
	doc := statement(readerFunc(bytes.NewReader(content).Read))
	told := int64(0)
	doc.Progress = func(sent, _ int64) {
		assert.LessOrEqual(t, (sent+2)/3*4, int64(len(body))+1000)
		told = sent
	}
	require.NoError(t, upload(t.Context(), client, doc))
	var got []byte
	require.NoError(t, json.Unmarshal(body, &got))
	assert.True(t, bytes.Equal(content, got))
	assert.EqualValues(t, len(content), told)
}

func TestUploadHandsOnAPanic(t *testing.T) {
	client, arrived := documents(t)
	for _, test := range []struct {
		name string
		doc  lending.Document
	}{
		{"content", lending.Document{Name: "f", Content: io.MultiReader(strings.NewReader("first"),
			readerFunc(func([]byte) (int, error) { panic("mine") }))}},
		{"progress", lending.Document{
			Name: "f", Content: strings.NewReader("first"),
			Progress: func(int64, int64) { panic("mine") },
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.PanicsWithValue(t, "mine", func() {
				_ = upload(t.Context(), client, test.doc)
			})
			got := <-arrived
			require.Error(t, got.err)
		})
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestUploadsAtTheSameTime(t *testing.T) {
	client, arrived := documents(t)
	var uploads sync.WaitGroup
	for i := range 8 {
		uploads.Go(func() {
			content := bytes.Repeat([]byte{byte(i)}, 100_000+i)
			assert.NoError(t, upload(t.Context(), client, statement(bytes.NewReader(content))))
		})
	}
	seen := map[byte]bool{}
	for range 8 {
		got := <-arrived
		require.NoError(t, got.err)
		i := got.content[0]
		seen[i] = true
		assert.True(t, bytes.Equal(bytes.Repeat([]byte{i}, 100_000+int(i)), got.content))
	}
	uploads.Wait()
	assert.Len(t, seen, 8)
}

// TestUploadTakesLittleMemory holds the limits of an upload of 15 MiB: 210
// allocations, those of its connection and of the service included, and half a MiB of
// heap at any time.
func TestUploadTakesLittleMemory(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		wire.Answer(http.StatusOK, "true")(w, r)
	}))
	defer server.Close()
	client := wire.NewClient(t, server.URL, lending.WithTokenSource(lending.StaticToken("test-token")))
	content := bytes.NewReader(file(maxDocument))
	const chunks = 4*maxDocument/3/(32<<10) + 1 // net/http allocates for the head of each
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	heap := func() uint64 {
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	for _, test := range []struct {
		name        string
		doc         lending.Document
		allocations float64
	}{
		{"bytes.Reader", statement(content), 210},
		{
			"plain, with size",
			lending.Document{Name: "f", Content: readerFunc(content.Read), Size: maxDocument},
			210,
		},
		{"plain", statement(readerFunc(content.Read)), 210 + chunks},
	} {
		t.Run(test.name, func(t *testing.T) {
			send := func(progress func(int64, int64)) {
				_, _ = content.Seek(0, io.SeekStart)
				doc := test.doc
				doc.Progress = progress
				require.NoError(t, upload(t.Context(), client, doc))
			}
			if !race.Enabled {
				assert.LessOrEqual(t, testing.AllocsPerRun(5, func() { send(nil) }), test.allocations)
			}
			runtime.GC()
			before, peak := heap(), uint64(0)
			send(func(int64, int64) { peak = max(peak, heap()) })
			require.NotZero(t, peak)
			assert.LessOrEqual(t, int64(peak)-int64(before), int64(512<<10))
		})
	}
}

// TestUploadEndsItsReader: the goroutine that reads ends with the upload, although the
// deadline is far away: one that is taken, and one that is refused before all of it was read.
func TestUploadEndsItsReader(t *testing.T) {
	client := wire.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		if n, _ := io.CopyN(io.Discard, r.Body, 1000); n == 1000 {
			wire.Answer(http.StatusBadRequest, `{}`)(w, r)
			return
		}
		wire.Answer(http.StatusOK, "true")(w, r)
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	both := func() {
		content := readerFunc(strings.NewReader("content").Read)
		require.NoError(t, upload(ctx, client, statement(content)))
		content = bytes.NewReader(file(1 << 20)).Read
		err := upload(ctx, client, statement(content))
		require.Error(t, err)
	}
	both()
	base := runtime.NumGoroutine()
	for range 20 {
		both()
	}
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= base+5 }, time.Minute, 10*time.Millisecond)
}

// upload submits a document.
func upload(ctx context.Context, client *lending.Client, doc lending.Document) error {
	return client.Applications.SubmitBankStatement(ctx, uploadTo, doc)
}

var uploadTo = lending.ApplicationID(uuid.MustParse("11111111-2222-3333-4444-555555555555"))

// file returns the first n of shared bytes, of which no two neighbours are the same.
func file(n int) []byte { return pattern()[:n:n] }

var pattern = sync.OnceValue(func() []byte {
	b := make([]byte, maxDocument+2)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
})

// received is a document as it arrived.
type received struct {
	query, expect string
	length        int64
	content       []byte
	err           error // of reading the body as a JSON string of base64
}

// documents accepts every upload and sends what arrived.
func documents(t *testing.T) (*lending.Client, <-chan received) {
	t.Helper()
	arrived := make(chan received, 16)
	client := wire.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		got := received{query: r.URL.RawQuery, length: r.ContentLength, expect: r.Header.Get("Expect")}
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &got.content)
		}
		got.err = err
		arrived <- got
		wire.Answer(http.StatusOK, "true")(w, r)
	})
	return client, arrived
}

func TestUploadIsByteExact(t *testing.T) {
	client, arrived := documents(t)
	sizes := []int{1, 2, 3, 4, 24 << 10, 300_001, maxDocument, maxDocument - 1}
	if race.Enabled { // which reads each byte ten times as slowly
		sizes = sizes[:7]
	}
	for _, size := range sizes {
		content := file(size)
		for _, test := range []struct {
			name   string
			reader io.Reader
		}{
			{"known size", bytes.NewReader(content)},
			{"unknown size", io.MultiReader(bytes.NewReader(content))},
		} {
			err := upload(t.Context(), client, lending.Document{Name: "f", Content: test.reader})
			require.NoError(t, err)
			got := <-arrived
			require.NoError(t, got.err)
			require.True(t, bytes.Equal(content, got.content), "%d bytes, %s", size, test.name)
			if test.name == "known size" {
				require.EqualValues(t, (size+2)/3*4+2, got.length)
			} else {
				require.EqualValues(t, -1, got.length)
			}
			require.Equal(t, test.name == "unknown size" || size > 256<<10, got.expect == "100-continue")
		}
	}
}

func TestDocumentKnowsItsNameAndSize(t *testing.T) {
	client, arrived := documents(t)
	path := filepath.Join(t.TempDir(), "statement.pdf")
	require.NoError(t, os.WriteFile(path, []byte("0123456789"), 0o600))
	osFile, err := os.Open(path)
	require.NoError(t, err)
	defer osFile.Close()
	_, err = osFile.Seek(4, io.SeekStart)
	require.NoError(t, err)
	fsFile, err := fstest.MapFS{"dir/contract.pdf": {Data: []byte("contract")}}.Open("dir/contract.pdf")
	require.NoError(t, err)
	pipe, writer, err := os.Pipe()
	require.NoError(t, err)
	_, err = writer.WriteString("from a pipe")
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	half := bytes.NewBufferString("half read")
	_ = half.Next(5)
	section := io.NewSectionReader(strings.NewReader("a section of it"), 2, 7)
	_, err = section.Seek(2, io.SeekStart)
	require.NoError(t, err)
	part := multipartFile(t, "a part")

	for _, test := range []struct {
		doc           lending.Document
		name, content string
		length        int64
	}{
		{lending.Document{Content: osFile}, "statement.pdf", "456789", 10},
		{lending.Document{Content: fsFile}, "contract.pdf", "contract", 14},
		{lending.Document{Content: pipe, Name: "piped"}, "piped", "from a pipe", -1},
		{lending.Document{Content: half, Name: "half"}, "half", "read", 10},
		{lending.Document{Content: section, Name: "section"}, "section", "ction", 10},
		{lending.Document{Content: part, Name: "part"}, "part", "a part", 10},
		{lending.Document{Content: boxed{strings.NewReader("boxed"), 99}, Name: "boxed"}, "boxed", "boxed", -1},
		{lending.Document{Content: strings.NewReader("s"), Name: "s"}, "s", "s", 6},
		{
			lending.Document{Content: iotest.HalfReader(strings.NewReader("known")), Name: "known", Size: 5},
			"known",
			"known", 10,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.NoError(t, upload(t.Context(), client, test.doc))
			got := <-arrived
			require.NoError(t, got.err)
			assert.Equal(t, "fileName="+test.name, got.query)
			assert.Equal(t, test.content, string(got.content))
			assert.Equal(t, test.length, got.length)
		})
	}
}

// boxed has a Len that is not the number of its bytes, as a list's is not.
type boxed struct {
	io.Reader
	n int
}

func (b boxed) Len() int { return b.n }

// multipartFile is a file as a form brings it.
func multipartFile(t *testing.T, content string) multipart.File {
	t.Helper()
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	part, err := w.CreateFormFile("file", "part.pdf")
	require.NoError(t, err)
	_, err = io.WriteString(part, content)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	r, err := multipart.NewReader(&form, w.Boundary()).ReadForm(1 << 20)
	require.NoError(t, err)
	file, err := r.File["file"][0].Open()
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	return file
}
