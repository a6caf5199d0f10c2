package lendingtest_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/lendingtest"
)

// One journey through all 69 routes, over a socket.
func TestJourneyTakesEveryRoute(t *testing.T) {
	t.Parallel()
	r := serverRig(t, lendingtest.WithLoopbackReceivers(), lendingtest.WithBasePath("/lending/"))
	journey(t, r)
	assert.Len(t, r.Routes(), 69)
	for _, route := range r.Routes() {
		assert.NotZero(t, r.Executed(route), route)
	}
	fieldsPage(t, r)
}

// journey takes the steps of testdata/journey.txt.
func journey(t *testing.T, r *rig) {
	t.Helper()
	steps, err := os.ReadFile("testdata/journey.txt")
	require.NoError(t, err)
	receiver := newReceiver(t)
	r.token = ""
	known := map[string]string{
		"mine": mine[1:], "partner": lendingtest.PartnerID, "agent": lendingtest.AgentID, "receiver": receiver.URL,
		"bank": bankData, "invoice": invoice,
		"signatures": signatures, "more": `"password":"Secret-12","mobileNumber":"(555) 010-0199"`,
	}
	fill := func(text string) string {
		return placeholder.ReplaceAllStringFunc(text, func(name string) string {
			switch name = strings.Trim(name, "{}"); name {
			case "code":
				return r.TwoFactorCode(lendingtest.Username)
			case "otp":
				return r.OTP(known["loan"])
			}
			return known[name]
		})
	}
	for line := range strings.Lines(string(steps)) {
		if strings.HasPrefix(line, "#") || line == "\n" {
			continue
		}
		row := strings.Split(strings.TrimSuffix(line, "\n"), "|")
		captures, request := strings.TrimSpace(row[0]), fill(strings.TrimSpace(row[1]))
		if r.token = known["token"]; captures == "nobody" || captures == "admin" {
			r.token, captures = known[captures], ""
		}
		answer := r.request(request)
		answer.has(request, fill(strings.TrimSpace(row[2])))
		for capture := range strings.FieldsSeq(captures) {
			name, path, _ := strings.Cut(capture, "=")
			known[name] = answer.member(path)
		}
	}

	require.NoError(t, r.Wait(t.Context()))
	assert.Subset(t, receiver.events(), []string{
		"WB_Loan_Created", "WB_Customer_Created", "WB_Application_Created", "WB_Customer_And_Application_Created",
		"WB_Bank_Transactions_Refresh", "WB_Application_Status_Changed", "WB_Application_Ready", "WB_Loan_Opened",
		"WB_Send_Loan_Otp", "WB_Loan_Withdrawal_Completed", "WB_Communication_Sent", "WB_Application_Cancelled",
		"WB_Send_Secondary_Applicant_Notice", "WB_Under_Review", "WB_Send_Application_Ready",
		"WB_Application_Current_Process",
	})
	bodies := receiver.verified(known["secret"])
	assert.True(t, slices.ContainsFunc(bodies, func(body []byte) bool {
		return bytes.Contains(body, []byte(`"withdrawalId":`))
	}))
	for _, body := range bodies {
		assert.True(t, json.Valid(body))
		assert.NotContains(t, string(body), r.OTP(known["loan"]), "a delivery carries no code")
	}
}

// has compares an answer with the third column of testdata/journey.txt.
func (r reply) has(request, wants string) {
	r.t.Helper()
	require.NoError(r.t, r.err)
	status := http.StatusOK
	for want := range strings.SplitSeq(wants, "; ") {
		switch {
		case want == "204":
			status = http.StatusNoContent
		case strings.HasPrefix(want, "!"):
			require.NotContains(r.t, r.body, want[1:], request)
		case strings.HasPrefix(want, "#"):
			require.Equal(r.t, want[1:], strconv.Itoa(len(r.list())), request)
		default:
			require.Contains(r.t, r.body, want, request)
		}
	}
	require.Equal(r.t, status, r.status, request+r.body)
}

// member returns a member of an answer: "1.id" is the id of the second element, "" the answer itself.
func (r reply) member(path string) string {
	var v any
	require.NoError(r.t, json.Unmarshal([]byte(r.body), &v), r.body)
	for name := range strings.FieldsFuncSeq(path, func(c rune) bool { return c == '.' }) {
		if rows, ok := v.([]any); ok {
			v = rows[must(strconv.Atoi(name))]
		} else {
			v = v.(map[string]any)[name]
		}
	}
	return v.(string)
}

// The same calls in the same order give the same answers.
func TestRunsAreTheSame(t *testing.T) {
	t.Parallel()
	run := func(seed uint32) (string, string, string) {
		r := newRig(t, lendingtest.WithSeed(seed))
		loan := r.withdrawing()
		return loan.ID, r.OTP(loan.ID), r.token
	}
	id, otp, token := run(7)
	id2, otp2, token2 := run(7)
	assert.Equal(t, []string{id, otp, token}, []string{id2, otp2, token2})
	id3, otp3, token3 := run(8)
	assert.NotEqual(t, id, id3)
	assert.NotEqual(t, otp, otp3)
	assert.NotEqual(t, token, token3)
}
