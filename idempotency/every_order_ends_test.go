package idempotency_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

// endings are the faults of the first send of a mutation.
var endings = []struct {
	name  string
	fault lendingtest.Fault
}{
	{"lost", lendingtest.Fault{ResetAfter: true}},
	{"never arrived", lendingtest.Fault{ResetBefore: true}},
	{"cut", lendingtest.Fault{CutBody: -1}},
	{"500 after execution", lendingtest.Fault{Status: http.StatusInternalServerError, Executes: true}},
	{"late", lendingtest.Fault{Late: 2 * time.Minute}},
	{"undecodable", lendingtest.Fault{}},
}

// personsAnswers are the responses of a person, by the kind of response. The reads list the
// same id.
var personsAnswers = func() []any {
	const id = "00000001-0001-4000-8000-000000000009"
	record := map[string]any{"id": id}
	return []any{nil, true, id, record, []any{record, record}}
}()

// TestEveryMutationComesToAnEnd takes every mutation with every fault through the loop of AGENTS.md:
// it succeeds, or needs a person, and again after a sweep. A key that needs a person, and no other,
// is in the list and in the counts of a review, and the verdict of the person ends it.
func TestEveryMutationComesToAnEnd(t *testing.T) {
	routes := catalog.Routes(t)
	for name, row := range checkRows {
		if row.how == noKey {
			continue
		}
		for _, ending := range endings {
			t.Run(name+"/"+ending.name, func(t *testing.T) {
				withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, log *idempotency.Log) {
					client := process()
					route := routes[name].Method + " " + routes[name].Path
					answer := wire.Answer(http.StatusOK, routes[name].Success()) // the records of the catalog do not exist
					service.Answer(route, func(w http.ResponseWriter, r *http.Request) {
						if strings.Contains(name, "CreateCustomer") {
							service.Answer(fake.EmailRoute, wire.Answer(http.StatusOK, emptyReads["Applications.ListByCustomer"]))
						}
						if ending.name == "undecodable" {
							service.Answer(route, answer)
							wire.Answer(http.StatusOK, `{"half":7}`)(w, r)
							return
						}
						answer(w, r)
					})
					for _, read := range row.reads {
						if body, ok := emptyReads[read]; ok {
							service.Answer(routes[read].Method+" "+routes[read].Path, wire.Answer(http.StatusOK, body))
						}
					}
					service.Fail(route, ending.fault)
					step := func() error {
						_, err := catalog.Calls[name](lending.WithIdempotencyKey(t.Context(), "the/key"), client)
						return err
					}
					require.NoError(t, drive(t, log, step))
					bubble.Elapse(31 * 24 * time.Hour)
					fake.Must(log.Sweep(t.Context()))
					require.NoError(t, drive(t, log, step), "its response is swept")
				})
			})
		}
	}
}

// drive is the loop of AGENTS.md, with a person for the reviews.
func drive(t *testing.T, log *idempotency.Log, step func() error) error {
	t.Helper()
	for range 30 {
		err := step()
		next := lending.NextOf(err)
		counts := fake.Must(log.Counts(t.Context()))
		keys := fake.Must(log.Keys(t.Context(), doubtful))
		if needs := len(keys) > 0 && keys[0].NeedsPerson && keys[0].HappenedAfter == 0; next.Person || needs {
			require.True(t, needs, "a person sees it: %v", err)
			assert.Equal(t, 1, counts.NeedsReview.Count)
			require.NotEmpty(t, keys[0].Why)
			bubble.Elapse(keys[0].NotHappenedAfter)
			decide(t, log, keys[0])
			continue
		}
		assert.Zero(t, counts.NeedsReview.Count, "a person is not needed: %v", err)
		if err == nil || !next.Retry {
			return err
		}
		bubble.Elapse(max(next.After, time.Second))
	}
	return step()
}

// decide is a person whose verdict is Happened, with a response of the right form.
func decide(t *testing.T, log *idempotency.Log, key idempotency.KeyStatus) {
	t.Helper()
	var err error
	for _, answer := range personsAnswers {
		said := idempotency.Resolution{
			By: "ada", Why: "the support has it", Verdict: idempotency.Happened(answer), Sends: key.Sends,
		}
		if err = log.Resolve(t.Context(), key.Key, said); err == nil {
			return
		}
	}
	require.NoError(t, err)
}
