package idempotency_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

const submitRequired = "POST /api/ApplicationApproval/submit-required-document/{applicationId}"

// TestOnlyTheServicesOwnWordIsBelieved loses an upload between two reads of the required documents.
// ID stands for the requirement, and OTHER for another one.
func TestOnlyTheServicesOwnWordIsBelieved(t *testing.T) {
	for _, test := range []struct {
		name, before, after, want string
	}{
		{"a flag is set", `{"id":"ID","isSubmitted":false}`, `{"id":"ID","isSubmitted":true}`, "done"},
		{"a time is set", `{"x":"ID","submittedUtc":null}`, `{"x":"ID","submittedUtc":"2026-09-01T00:00:00"}`, "done"},
		{
			"a time was none", `{"x":"ID","SubmittedUTC":"0001-01-01T00:00:00"}`,
			`{"x":"ID","SubmittedUTC":"2026-09-01T00:00:00"}`, "done",
		},
		{"a member comes", `{"id":"ID"}`, `{"id":"ID","uploaded_files":[1]}`, "done"},
		{"a status says it", `{"id":"ID","status":"Open"}`, `{"id":"ID","status":"Submitted"}`, "done"},
		{"the record comes", `{"id":"OTHER","isSubmitted":true}`, `{"id":"ID","isSubmitted":true}`, "done"},
		{"in upper case, below", `{"of":{"id":"UPPER","received":0}}`, `{"of":{"id":"UPPER","received":1}}`, "done"},

		{"still not set", `{"id":"ID","isSubmitted":false}`, `{"id":"ID","isSubmitted":false}`, "sent again"},
		{"not set when it comes", `{"id":"OTHER"}`, `{"id":"ID","isSubmitted":false}`, "sent again"},

		{"not set, but changed", `{"id":"ID","isSubmitted":false}`, `{"id":"ID","isSubmitted":false,"n":1}`, "person"},
		{"it was set", `{"id":"ID","isSubmitted":true}`, `{"id":"ID","isSubmitted":true}`, "person"},
		{"nothing says it", `{"id":"ID"}`, `{"id":"ID"}`, "person"},
		{"a member that says nothing of it", `{"id":"ID","isOverdue":false}`, `{"id":"ID","isOverdue":true}`, "person"},
		{"another word", `{"id":"ID","resubmitted":false}`, `{"id":"ID","resubmitted":true}`, "person"},
		{"what must be", `{"id":"ID","mustBeSubmitted":false}`, `{"id":"ID","mustBeSubmitted":true}`, "person"},
		{"another status", `{"id":"ID","status":"Open"}`, `{"id":"ID","status":"Not submitted"}`, "person"},
		{
			"another record", `{"id":"ID"},{"id":"OTHER","isSubmitted":false}`,
			`{"id":"ID"},{"id":"OTHER","isSubmitted":true}`, "person",
		},
		{"no record", ``, ``, "person"},
	} {
		t.Run(test.name, func(t *testing.T) {
			keyed(t, func(t *testing.T, service *lendingtest.Service, process func(...lending.Option) *lending.Client) {
				client := process()
				shows := func(records string) {
					text := strings.NewReplacer("ID", catalog.Requirement.String(), "OTHER", catalog.Applicant.String(),
						"UPPER", strings.ToUpper(catalog.Requirement.String())).Replace(records)
					service.Answer("GET /api/ApplicationApproval/get-required-documents/{applicationId}",
						wire.Answer(http.StatusOK, "["+text+"]"))
				}
				sends := 0
				service.Answer(submitRequired, func(w http.ResponseWriter, r *http.Request) {
					sends++
					_, err := io.Copy(io.Discard, r.Body)
					assert.NoError(t, err)
					wire.Answer(http.StatusServiceUnavailable, `{"status":503}`)(w, r)
				})
				call := func() error {
					return client.Approval.SubmitRequiredDocument(lending.WithIdempotencyKey(t.Context(), "the/key"),
						catalog.Application, catalog.Requirement, "Lease", catalog.File())
				}
				shows(test.before)
				require.ErrorIs(t, call(), lending.ErrOutcomeUnknown)
				shows(test.after)
				err := call()
				if test.want == "done" {
					require.NoError(t, err)
					assert.Equal(t, 1, sends)
					return
				}
				require.Error(t, err)
				assert.Equal(t, 1, sends, "an absence must last")
				bubble.Elapse(maxLateness)
				err = call()
				assert.Equal(t, test.want == "person", sends == 1, err)
				if test.want == "person" {
					assert.ErrorIs(t, err, idempotency.ErrNeedsReview)
				}
			})
		})
	}
}
