package guarantees_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

// TestVerdictHasAProblemRecord answers a mutation with bodies of the service, of its host and of gateways.
func TestVerdictHasAProblemRecord(t *testing.T) {
	for _, test := range []struct {
		name, body string
		isVerdict  bool
	}{
		{"the interface's array", `{"errors":[{"field":"email","message":"m","code":"Email"}]}`, true},
		{"problem record", `{"type":"about:blank","title":"Bad Request","status":400}`, true},
		{"error code", `{"errorCode":"OfferExpired"}`, true},
		{"the host's dictionary", `{"errors":{"Email":["m"]},"status":400}`, true},
		{"a dictionary alone", `{"Email":["m"],"":["n"]}`, true},
		{"empty", ``, false},
		{"HTML", `<h1>403 Forbidden</h1>`, false},
		{"text", `no healthy upstream`, false},
		{"an API gateway's message", `{"message":"Forbidden"}`, false},
		{"an error of another kind", `{"error":"forbidden","status":403}`, false},
		{"errors that are no records", `{"status":403,"errors":["forbidden"]}`, false},
		{"an empty object", `{}`, false},
		{"a dictionary of empty lists", `{"Email":[]}`, false},
		{"null", `null`, false},
	} {
		for _, status := range []int{400, 403, 404, 409, 413, 415, 421, 431} {
			t.Run(fmt.Sprintf("%s %d", test.name, status), func(t *testing.T) {
				fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
					d := newDesk(t, service)
					fault := lendingtest.Fault{Status: status, Body: []byte(test.body)}
					for key, want := range map[string]lending.Next{"": person, "k": after(30 * time.Second)} {
						err := creating(key, fault)(d)
						assert.Equal(t, lending.OutcomeRejected, lending.OutcomeOf(err))
						isVerdict := test.isVerdict && (status == http.StatusBadRequest || test.name != "a dictionary alone")
						if isVerdict {
							want = stop
						}
						assert.Equal(t, want, lending.NextOf(err), "%v", err)
						if !isVerdict {
							assert.ErrorContains(t, err, "a gateway may have refused the request: the answer is ")
						}
					}
				})
			})
		}
	}
}

// nilCalls are the calls of the routes whose body is optional.
var nilCalls = map[string]func(context.Context, *lending.Client) error{
	"Applications.QuickTest": func(ctx context.Context, c *lending.Client) error {
		return second(c.Applications.QuickTest(ctx, catalog.OtherApplication, nil))
	},
	"Applications.AddOrUpdateBankingData": func(ctx context.Context, c *lending.Client) error {
		return second(c.Applications.AddOrUpdateBankingData(ctx, catalog.OtherApplication, nil, nil))
	},
	"Approval.SignContract": func(ctx context.Context, c *lending.Client) error {
		return c.Approval.SignContract(ctx, catalog.OtherApplication, lending.ApplicantID(catalog.OtherApplication), nil)
	},
	"Calculation.LineOfCreditSlider": func(ctx context.Context, c *lending.Client) error {
		return second(c.Calculation.LineOfCreditSlider(ctx, catalog.OtherApplication, nil))
	},
	"Calculation.LineOfCredit": func(ctx context.Context, c *lending.Client) error {
		return second(c.Calculation.LineOfCredit(ctx, catalog.OtherApplication, nil))
	},
	"Calculation.Invoice": func(ctx context.Context, c *lending.Client) error {
		return second(c.Calculation.Invoice(ctx, catalog.OtherApplication, nil))
	},
	"Communication.Post": func(ctx context.Context, c *lending.Client) error {
		return c.Communication.Post(ctx, catalog.OtherApplication, nil)
	},
}

// TestNilBodyIsNull at a host that answers 415 without a content type, and at hosts that want a body.
func TestNilBodyIsNull(t *testing.T) {
	routes := catalog.Routes(t)
	var nullable []string
	for name, route := range routes {
		if strings.HasSuffix(route.Body, "?") {
			nullable = append(nullable, name)
		}
	}
	require.ElementsMatch(t, nullable, slices.Collect(maps.Keys(nilCalls)))
	for _, test := range []struct {
		name, body string
		status     int
		says       string
	}{
		{"accepted", "", 200, ""},
		{"older host", "", 415, "a body"},
		{"host", `{"title":"Unsupported Media Type","status":415}`, 415, "a body"},
		{"gateway", "<h1>415</h1>", 415, "a gateway"},
		{"older host with a filter", `{"":["refused"]}`, 400, "a body"},
		{"host with a parameter of its code", `{"errors":{"":["refused"],"r":["refused"]},"title":"t"}`, 400, "a body"},
		{"the service's array", `{"title":"t","errors":[{"field":""}]}`, 400, "a body"},
		{"another field", `{"title":"t","errors":[{"field":"otp"}]}`, 400, "rejected"},
	} {
		for name, call := range nilCalls {
			t.Run(test.name+" "+name, func(t *testing.T) {
				client := wire.Serve(t, func(w http.ResponseWriter, r *http.Request) {
					switch body, _ := io.ReadAll(r.Body); {
					case r.Header.Get("Content-Type") != "application/json":
						w.WriteHeader(http.StatusUnsupportedMediaType)
					case string(body) != "null":
						w.WriteHeader(http.StatusInternalServerError)
					case test.status == 200:
						wire.Answer(200, routes[name].Success())(w, r)
					default:
						wire.Answer(test.status, test.body)(w, r)
					}
				})
				err := call(t.Context(), client)
				if test.status == 200 {
					require.NoError(t, err)
					return
				}
				const wanted = "the service wants a body: pass a request, even an empty one"
				says := map[string]string{"a body": wanted}
				require.ErrorContains(t, err, cmp.Or(says[test.says], test.says))
				assert.Equal(t, test.says == "a body", strings.Contains(err.Error(), wanted))
				withBody := catalog.Calls["Applications.CreateCustomer"]
				_, other := withBody(t.Context(), wire.Serve(t, wire.Answer(test.status, test.body)))
				assert.NotContains(t, other.Error(), wanted)
				assert.Equal(t, lending.OutcomeRejected, lending.OutcomeOf(err))
				assert.Equal(t, test.says == "a gateway", lending.NextOf(err).Person)
				assert.False(t, lending.NextOf(err).Retry)
			})
		}
	}
}

// TestGatewayEndsNoOrder has a gateway refuse a mutation for a while. A loop over NextOf goes on, and tells a person
// from MaxLateness on.
func TestGatewayEndsNoOrder(t *testing.T) {
	const maxLateness = 5 * time.Minute
	for _, status := range []int{400, 403, 404, 413, 421, 431} {
		for _, isInDoubt := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d, in doubt %t", status, isInDoubt), func(t *testing.T) {
				fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
					d := newDesk(t, service)
					if isInDoubt {
						require.ErrorIs(t, creating("k", lendingtest.Fault{ResetBefore: true})(d), lending.ErrOutcomeUnknown)
						bubble.Elapse(maxLateness)
					}
					service.Fail(nextCreate, lendingtest.Fault{Status: status, Body: []byte("<h1>maintenance</h1>"), Times: -1})
					start := time.Now()
					var next lending.Next
					for !next.Person {
						err := d.create("k")
						next = lending.NextOf(err)
						require.True(t, next.Retry, "%v", err)
						if next.Person {
							assert.ErrorContains(t, err, "a gateway refuses the mutation: ")
							assert.ErrorContains(t, err, "the answer is HTML")
							break
						}
						require.Less(t, time.Since(start), maxLateness+time.Minute)
						bubble.Elapse(next.After)
					}
					assert.GreaterOrEqual(t, time.Since(start), maxLateness)
					service.ClearFaults()
					for err := d.create("k"); err != nil; err = d.create("k") {
						require.Less(t, time.Since(start), 3*maxLateness, "%v", err)
						bubble.Elapse(max(time.Second, lending.NextOf(err).After))
					}
					assert.Equal(t, 1, service.Executed(nextCreate))
				})
			})
		}
	}
}

// A gateway can replace the response to a mutation that happened: the log finds the record, and sends nothing again.
func TestGatewayHidesASuccess(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		d := newDesk(t, service)
		page := lendingtest.Fault{Status: http.StatusForbidden, Body: []byte("<h1>no</h1>"), Executes: true}
		err := creating("k", page)(d)
		require.Equal(t, after(30*time.Second), lending.NextOf(err))
		bubble.Elapse(30 * time.Second)
		require.NoError(t, d.create("k"))
		assert.Equal(t, 1, service.Executed(nextCreate))
	})
}

// A verdict of the service ends the time that the log counts.
func TestRefusalsOfAGatewayAreCountedInARow(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		d := newDesk(t, service)
		page := lendingtest.Fault{Status: 403, Body: []byte("<h1>no</h1>")}
		require.Equal(t, after(30*time.Second), lending.NextOf(creating("k", page)(d)))
		bubble.Elapse(10 * time.Minute)
		require.Equal(t, stop, lending.NextOf(creating("k", lendingtest.Fault{Status: 400})(d)))
		require.Equal(t, after(30*time.Second), lending.NextOf(creating("k", page)(d)))
	})
}
