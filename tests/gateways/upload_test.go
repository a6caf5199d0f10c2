package gateways_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/lendingapi/lending-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestUploads sends documents through gateways that buffer them and through gateways that do not. In every run a
// document is executed whole or not at all, and the client says which.
func TestUploads(t *testing.T) {
	ends := []struct {
		name   string
		refuse bool
		then   func(o *origin) // in the middle of the upload
	}{
		{"whole", false, func(*origin) {}},
		{"instances killed", false, func(o *origin) { _, _ = o.a.server.Close(), o.b.server.Close() }},
		{"413 of the service", true, func(*origin) {}},
	}
	for _, configuration := range []string{
		"nginx/default", "nginx/production", "haproxy/default", "haproxy/production",
		"apache2/default", "apache2/production", "caddy/default", "caddy/production",
	} {
		for _, size := range sizes(1<<20, 1, 15<<20) {
			for _, end := range ends {
				t.Run(fmt.Sprintf("%s/%d bytes/%s", configuration, size, end.name), func(t *testing.T) {
					t.Parallel()
					o := newOrigin(t, 0)
					o.refusesDocuments = end.refuse
					err := submit(t, start(t, configuration, o).client(), o, size, func() { end.then(o) })
					isRefused := configuration == "nginx/default" && size > 1<<19 // client_max_body_size is 1m
					switch {
					case isRefused && end.name != "instances killed":
						require.ErrorIs(t, err, lending.ErrTooLarge)
					case end.name != "whole":
						require.Error(t, err)
					default:
						require.NoError(t, err)
					}
					t.Logf("%s: %v", t.Name(), err)
				})
			}
		}
	}
}

// TestLimitOfTheGateway has a gateway that refuses a document by its length, before the service has a byte. 15 MiB are
// 20m in base64, and two quotes.
func TestLimitOfTheGateway(t *testing.T) {
	for _, buffering := range []string{"on", "off"} {
		for _, size := range sizes(1<<20, 1, 15<<20) {
			t.Run(fmt.Sprintf("nginx/limit/buffering %s/%d bytes", buffering, size), func(t *testing.T) {
				t.Parallel()
				o := newOrigin(t, 0)
				limit := base64.StdEncoding.EncodedLen(size)
				g := start(t, "nginx/limit", o, func(g *gateway) { g.Limit, g.Buffering = limit, buffering })
				require.ErrorIs(t, submit(t, g.client(), o, size, nil), lending.ErrTooLarge)
				require.Empty(t, o.executed)
				g = start(t, "nginx/limit", o, func(g *gateway) { g.Limit, g.Buffering = limit+2, buffering })
				require.NoError(t, submit(t, g.client(), o, size, nil))
			})
		}
	}
}

// submit uploads a document, and calls then when half of it is read. Whatever the error says of the outcome is true.
func submit(t *testing.T, client *lending.Client, o *origin, size int, then func()) error {
	t.Helper()
	content := bytes.Repeat([]byte("document"), size/8+1)[:size]
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	id := lending.ApplicationID(uuid.New())
	reader := &disturbed{Reader: bytes.NewReader(content), half: size / 2, then: then}
	document := lending.Document{Name: nameOf(content), Content: reader}
	err := client.Approval.SubmitDocument(ctx, id, "Other", document)
	assert.Zero(t, o.parts)
	runs := o.runs(id.String())
	switch outcome := lending.OutcomeOf(err); {
	case err == nil:
		assert.Equal(t, 1, runs)
	case outcome != lending.OutcomeUnknown:
		assert.Equal(t, outcome == lending.OutcomeDone, runs == 1, "%v", err)
	}
	return err
}

// disturbed is a document that calls then once, when half of it is read.
type disturbed struct {
	*bytes.Reader

	half int
	then func()
	did  atomic.Bool
}

func (d *disturbed) Read(p []byte) (int, error) {
	n, err := d.Reader.Read(p)
	if d.then != nil && d.Len() <= d.half && d.did.CompareAndSwap(false, true) {
		d.then()
	}
	return n, err
}
