package verdict_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/lendingapi/lending-go/internal/verdict"
)

const (
	fresh = `"5e0f2a9c-7a53-4f0e-9d6b-0a9c2f3b1e77"`
	held  = `"0b6c1a52-35b2-4a55-8d0c-b6a1c9a0d111"`
)

func judge(answer string) (bool, string) {
	answer = strings.NewReplacer("NEW", fresh, "HELD", held).Replace(answer)
	return verdict.Confirms([]byte(answer), func(id uuid.UUID) bool { return `"`+id.String()+`"` == held })
}

func TestConfirmations(t *testing.T) {
	for _, answer := range []string{
		`NEW`, `{"id":NEW}`, `{"Id":NEW}`, `{"guid":NEW}`, `{"data":NEW}`, `{"result":NEW,"statusCode":200}`,
		`{"result":NEW,"targetUrl":null,"success":true,"error":null,"unAuthorizedRequest":false,"__abp":true}`,
		`{"data":NEW,"message":"The withdrawal is on its way","succeeded":true,"errors":[]}`,
		`{"data":NEW,"message":null,"errors":{ },"isSuccess":"True"}`, `{"id":NEW,"message":"OK","code":0}`,
		`{"id":NEW,"loanId":HELD,"status":"Completed","fee":0,"dateUTC":"2024-01-02T03:04:05Z","currency":"USD"}`,
		`{"id":NEW,"success":1,"hasErrors":false,"failed":false,"requiresOtp":false,"errorCode":"0"}`,
		`{"id":NEW,"correlationId":NEW,"data":{"amount":1,"parts":[{"amount":1}]}}`,

		// Words of the withdrawal's record that say nothing about the call.
		`{"id":NEW,"businessName":"Failsafe Ltd","status":"Active","isRevolving":false}`,
		`{"id":NEW,"message":"The previous code has expired; this one was accepted"}`,
		`{"id":NEW,"accepted":false,"failed":true,"errorMessage":"none of the fees was refused"}`,
		`{"id":NEW,"status":null,"state":"","code":0,"success":null,"previous":{"status":"Rejected"}}`,
	} {
		t.Run(answer, func(t *testing.T) {
			ok, contradiction := judge(answer)
			assert.True(t, ok)
			assert.Empty(t, contradiction)
		})
	}
}

func TestRefusals(t *testing.T) {
	for _, row := range []struct{ answer, contradiction string }{
		{`{"message":"OTP invalid","requestId":NEW}`, ""},
		{`{"detail":"no","correlationId":NEW}`, ""},
		{`{"accepted":false,"loanId":HELD}`, ""},
		{`{"traceId":NEW}`, ""},
		{`{"data":{"id":NEW}}`, ""},
		{`{"data":[NEW]}`, ""},
		{`{"id":HELD}`, ""},
		{`HELD`, ""},
		{`"00000000-0000-0000-0000-000000000000"`, ""},
		{`"confirmed"`, ""},
		{`{"id":12}`, ""},
		{`[NEW]`, ""},
		{`12`, ""},
		{`true`, ""},
		{`{}`, ""},
		{`{"value":NEW}`, ""},
		{`{"success":"false","id":NEW}`, "success"},
		{`{"Success":0,"id":NEW}`, "Success"},
		{`{"success":"no","id":NEW}`, "success"},
		{`{"id":NEW,"response":{"success":false}}`, "success"},
		{`{"id":NEW,"steps":[{"success":true},{"success":false}]}`, "success"},
		{`{"id":NEW,"result":{"errors":["no"]}}`, "errors"},
		{`{"id":NEW,"succeeded":false}`, "succeeded"},
		{`{"status":"Rejected","id":NEW}`, "status"},
		{`{"status":"Inactive","id":NEW}`, "status"},
		{`{"status":"404","id":NEW}`, "status"},
		{`{"status":{"name":"Rejected"},"id":NEW}`, "status"},
		{`{"status":false,"id":NEW}`, "status"},
		{`{"statusCode":400,"id":NEW}`, "statusCode"},
		{`{"code":"OTP_INVALID","id":NEW}`, "code"},
		{`{"code":-1,"id":NEW}`, "code"},
		{`{"state":"waiting","data":NEW}`, "state"},
		{`{"error":{"code":7},"id":NEW}`, "error"},
		{`{"error":"no","id":NEW}`, "error"},
		{`{"errors":["no"],"id":NEW}`, "errors"},
		{`{"errors":[{}],"success":true,"id":NEW}`, "errors"},
	} {
		t.Run(row.answer, func(t *testing.T) {
			ok, contradiction := judge(row.answer)
			assert.False(t, ok)
			assert.Equal(t, row.contradiction, contradiction)
		})
	}
}

func TestFailureInARecord(t *testing.T) {
	for record, member := range map[string]string{
		`{"status":409,"title":"no"}`: "status", `{"status":503,"detail":"no"}`: "status",
		`{"status":200,"title":"no"}`: "", `{"status":4090,"title":"no"}`: "", `{"status":4e2,"title":"no"}`: "",
		`{"status":409}`: "", `{"error":"no"}`: "error", `{"error":null}`: "",
	} {
		assert.Equal(t, member, verdict.FailureIn([]byte(record)), record)
	}
}
