package gateways_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/lendingapi/lending-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestUnknownWithoutFault counts the mutations that become unknown although neither the service nor the gateway
// fails: nginx ends a connection after a number of requests, and refuses streams above a number.
func TestUnknownWithoutFault(t *testing.T) {
	if document == "" {
		t.Skip("the short form is too short to count them")
	}
	text := "| nginx | callers | mutations | unknown | not sent |\n|---|--:|--:|--:|--:|\n"
	for _, test := range []struct {
		requests, streams, callers, calls, bursts int
		most                                      int // unknown
	}{
		{1000, 128, 1, 10_000, 1, 0},
		{1000, 128, 4, 10_000, 1, 0},
		{1000, 128, 16, 10_000, 1, 0},
		{1000, 128, 48, 10_000, 1, 0},
		{100, 128, 1, 10_000, 1, 0},
		{100, 128, 4, 10_000, 1, 0},
		{100, 128, 16, 10_000, 1, 0},
		{100, 128, 48, 10_000, 1, 0},
		{1000, 10, 200, 200, 5, 0},
		{1000, 3, 200, 200, 5, 0},
		{1000, 8, 60, 300, 5, 0},
	} {
		name := fmt.Sprintf("keepalive_requests %d, %d streams", test.requests, test.streams)
		t.Run(fmt.Sprint(name, "/", test.callers), func(t *testing.T) {
			o := newOrigin(t, 0)
			g := start(t, "nginx/few", o, func(g *gateway) { g.Requests, g.Streams = test.requests, test.streams })
			sum := &tally{twice: map[string]int{}}
			for range test.bursts {
				r := load(t, g.client(), o, test.callers, test.calls*4/3, closed)
				t.Logf("%s: %s", t.Name(), r)
				assert.Zero(t, r.wrong)
				assert.Zero(t, r.failedReads)
				assert.Equal(t, r.unknown, r.needless)
				sum.add(r)
			}
			assert.LessOrEqual(t, sum.unknown, test.most)
			text += fmt.Sprintf("| %s | %d | %d | %d | %d |\n", name, test.callers, sum.sent, sum.unknown, sum.lost)
		})
	}
	write(t, "without fault", text)
}

// TestLongAddressCostsNobody calls with a long address beside nine callers. Each gateway takes the longest address that
// the client sends. A gateway would end the connection at a longer address, which the client refuses.
func TestLongAddressCostsNobody(t *testing.T) {
	long := strings.Repeat("n", 20_000)
	for _, configuration := range []string{"nginx/default", "haproxy/default", "apache2/default", "caddy/default"} {
		t.Run(configuration, func(t *testing.T) {
			t.Parallel()
			o := newOrigin(t, 0)
			g := start(t, configuration, o)
			client, refused := g.client(), make(chan struct{})
			go func() {
				defer close(refused)
				for range 5 {
					_, err := client.Applications.UpdateName(t.Context(), lending.ApplicationID(uuid.New()), long)
					var invalid *lending.ArgumentError
					assert.ErrorAs(t, err, &invalid)
					id := lending.ApplicationID(uuid.New())
					_, _ = client.Applications.UpdateName(t.Context(), id, long[:7_904])
					assert.Equal(t, 1, o.runs(id.String()))
				}
			}()
			r := load(t, client, o, 9, 240, refused)
			require.Zero(t, r.unknown+r.lost+r.failedReads, "%s", r.examples)
		})
	}
}
