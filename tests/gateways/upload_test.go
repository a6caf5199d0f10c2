package gateways_test

import (
	"bytes"
	"context"
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
	for _, configuration := range []string{
		"nginx/default", "nginx/production", "haproxy/default", "haproxy/production",
		"apache2/default", "apache2/production", "caddy/default", "caddy/production",
	} {
		for _, size := range sizes(1<<20, 1, 15<<20) {
			for _, isKilled := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d bytes/killed %t", configuration, size, isKilled), func(t *testing.T) {
					t.Parallel()
					upload(t, configuration, size, isKilled)
				})
			}
		}
	}
}

func upload(t *testing.T, configuration string, size int, isKilled bool) {
	t.Helper()
	o := newOrigin(t, 0)
	g := start(t, configuration, o)
	content := bytes.Repeat([]byte("document"), size/8+1)[:size]
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	id := lending.ApplicationID(uuid.New())
	reader := &disturbed{Reader: bytes.NewReader(content), half: size / 2}
	if isKilled {
		reader.then = func() { _, _ = o.a.server.Close(), o.b.server.Close() }
	}
	document := lending.Document{Name: nameOf(content), Content: reader}
	err := g.client().Approval.SubmitDocument(ctx, id, "Other", document)
	assert.Zero(t, o.parts)
	runs := o.runs(id.String())
	switch outcome := lending.OutcomeOf(err); {
	case err == nil:
		assert.Equal(t, 1, runs)
	case outcome != lending.OutcomeUnknown:
		assert.Equal(t, outcome == lending.OutcomeDone, runs == 1, "%v", err)
	}
	isRefused := configuration == "nginx/default" && size > 1<<19 // client_max_body_size is 1m
	switch {
	case isKilled:
		require.Error(t, err)
	case isRefused:
		require.ErrorIs(t, err, lending.ErrTooLarge)
	default:
		require.NoError(t, err)
	}
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
