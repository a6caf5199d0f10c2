package lending_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// cuts is a service that ends the first upload in the middle, with a response or without, and accepts the second.
func cuts(t *testing.T, response string) (*lending.Client, *[][]byte) {
	t.Helper()
	observed := lending.WithObserver(func(ctx context.Context, _ lending.Call) (context.Context, func(lending.Call)) {
		return ctx, func(c lending.Call) {
			if c.Err != nil {
				seen, next := c.Err.Error(), lending.NextOf(c.Err)
				t.Cleanup(func() { // the error of an observer does not change afterwards
					assert.Equal(t, seen, c.Err.Error())
					assert.Equal(t, next, lending.NextOf(c.Err))
				})
			}
		}
	}, nil)
	accepted, first, gone := new([][]byte), true, make(chan struct{})
	client := pipeService(t, func(conn net.Conn, r *http.Request) {
		if first {
			first = false
			_, _ = io.CopyN(io.Discard, r.Body, 100_000)
			if _, _ = io.WriteString(conn, response); response != "" {
				<-gone // the end of the connection must not overtake the response
			}
			return
		}
		var content []byte
		if json.NewDecoder(r.Body).Decode(&content) == nil {
			*accepted = append(*accepted, content)
			_, _ = io.WriteString(conn, wire.RawReply(200, map[string]string{"Content-Type": "application/json"}, "true"))
		}
	}, lending.WithIdempotency(fake.Must(idempotency.NewLog(store.NewMemory(), nil))), observed)
	t.Cleanup(func() { close(gone) })
	return client, accepted
}

// TestRepeatedUploadIsWhole follows NextOf after an upload that the service cut, with the same Document.
func TestRepeatedUploadIsWhole(t *testing.T) {
	const size = 300_000
	whole := file(size)
	path := filepath.Join(t.TempDir(), "statement.pdf")
	require.NoError(t, os.WriteFile(path, whole, 0o600))
	for _, content := range []struct {
		name  string
		open  func(t *testing.T) io.Reader
		size  int64
		stops bool
	}{
		{"bytes", func(*testing.T) io.Reader { return bytes.NewReader(whole) }, 0, false},
		{"string", func(*testing.T) io.Reader { return strings.NewReader(string(whole)) }, 0, false},
		{"section", func(*testing.T) io.Reader { return io.NewSectionReader(bytes.NewReader(whole), 0, size) }, 0, false},
		{"file", func(t *testing.T) io.Reader {
			t.Helper()
			opened := fake.Must(os.Open(path))
			t.Cleanup(func() { _ = opened.Close() })
			return opened
		}, 0, false},
		{"behind a header", func(t *testing.T) io.Reader {
			t.Helper()
			content := bytes.NewReader(append([]byte("header"), whole...))
			_, err := io.CopyN(io.Discard, content, 6)
			require.NoError(t, err)
			return content
		}, 0, false},
		{"buffer", func(*testing.T) io.Reader { return bytes.NewBuffer(bytes.Clone(whole)) }, 0, true},
		{"stream", func(*testing.T) io.Reader { return readerFunc(bytes.NewReader(whole).Read) }, 0, true},
		{"stream of known size", func(*testing.T) io.Reader { return readerFunc(bytes.NewReader(whole).Read) }, size, true},
	} {
		for _, test := range []struct{ name, key, response string }{
			{"broken", "", ""},
			{"broken, with a key", "the/key", ""},
			{"503", "", wire.RawReply(503, nil, "")},
			{"503, with a key", "the/key", wire.RawReply(503, nil, "")},
			{"408", "", wire.RawReply(408, nil, "")},
			{"429", "", wire.RawReply(429, nil, "")},
		} {
			t.Run(content.name+" "+test.name, func(t *testing.T) {
				client, accepted := cuts(t, test.response)
				doc := statement(content.open(t))
				doc.Size = content.size
				ctx := t.Context()
				if test.key != "" {
					ctx = lending.WithIdempotencyKey(ctx, test.key)
				}
				submit := func() error { return upload(ctx, client, doc) }
				err := submit()
				require.Error(t, err)
				want := lending.OutcomeNotSent
				if test.name == "429" {
					want = lending.OutcomeRejected
				}
				assert.Equal(t, want, lending.OutcomeOf(err), "%v", err)
				next := lending.NextOf(err)
				require.Equal(t, !content.stops, next.Retry, "%v", err)
				if content.stops {
					assert.ErrorContains(t, err, "open the document again")
					return
				}
				require.NoError(t, submit())
				require.Len(t, *accepted, 1)
				assert.True(t, bytes.Equal(whole, (*accepted)[0]))
			})
		}
	}
}

// blockedFile is a Seeker whose Read blocks.
type blockedFile struct {
	io.ReadSeeker
	open chan struct{}
}

func (b blockedFile) Read(p []byte) (int, error) {
	<-b.open
	return b.ReadSeeker.Read(p)
}

// TestBlockedReadIsNotRepeated ends an upload whose Read still blocks: the Read could move the position later.
// The client waits a second for the Read.
func TestBlockedReadIsNotRepeated(t *testing.T) {
	for _, test := range []struct {
		name, key string
		opens     time.Duration // after the deadline; 0 for never
		retries   bool
	}{
		{name: "without a key"},
		{name: "with a key", key: "the/key"},
		{name: "for a moment, without a key", opens: time.Second / 2, retries: true},
		{name: "for a moment, with a key", key: "the/key", opens: time.Second / 2, retries: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := wire.InMemory(t, func(r *http.Request) (*http.Response, error) {
					_, err := io.Copy(io.Discard, r.Body)
					return nil, err
				}, lending.WithIdempotency(fake.Must(idempotency.NewLog(store.NewMemory(), nil))))
				content := blockedFile{bytes.NewReader(file(1000)), make(chan struct{})}
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				if test.key != "" {
					ctx = lending.WithIdempotencyKey(ctx, test.key)
				}
				if test.opens > 0 {
					time.AfterFunc(time.Minute+test.opens, func() { close(content.open) })
				}
				start := time.Now()
				err := upload(ctx, client, statement(content))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				assert.LessOrEqual(t, time.Since(start), time.Minute+time.Second)
				assert.Equal(t, test.retries, lending.NextOf(err).Retry, "%v", err)
				if !test.retries {
					assert.Equal(t, lending.Next{}, lending.NextOf(err), "%v", err)
					close(content.open)
				}
			})
		})
	}
}
