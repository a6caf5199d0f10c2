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
		`NEW`, `{"id":NEW}`, `{"Id":NEW}`, `{"guid":NEW}`, `{"data":NEW}`, `{"value":NEW,"statusCode":200}`,
		`{"result":NEW,"targetUrl":null,"success":true,"error":null,"unAuthorizedRequest":false,"__abp":true}`,
		`{"data":NEW,"message":"The withdrawal is on its way","succeeded":true,"errors":[]}`,
		`{"data":NEW,"message":null,"errors":{ },"isSuccess":"True"}`, `{"id":NEW,"message":"OK","code":0}`,
		`{"id":NEW,"loanId":HELD,"status":"Completed","fee":0,"dateUTC":"2024-01-02T03:04:05Z","currency":"USD"}`,
		`{"id":NEW,"success":1,"hasErrors":false,"failed":false,"requiresOtp":false,"errorCode":"0"}`,
		`{"id":NEW,"correlationId":NEW,"data":{"amount":1,"parts":[{"amount":1}]}}`,
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
		{`{"success":"false","id":NEW}`, "success"},
		{`{"Success":0,"id":NEW}`, "Success"},
		{`{"success":"no","id":NEW}`, "success"},
		{`{"accepted":false,"id":NEW}`, "accepted"},
		{`{"otpValid":"False","id":NEW}`, "otpValid"},
		{`{"message":"OTP invalid","id":NEW}`, "message"},
		{`{"message":"Please ask for another code","id":NEW}`, "message"},
		{`{"message":"The code has expired","success":true,"id":NEW}`, "message"},
		{`{"status":"Rejected","id":NEW}`, "status"},
		{`{"status":"404","id":NEW}`, "status"},
		{`{"statusCode":400,"id":NEW}`, "statusCode"},
		{`{"code":"OTP_INVALID","id":NEW}`, "code"},
		{`{"code":-1,"id":NEW}`, "code"},
		{`{"state":"waiting","data":NEW}`, "state"},
		{`{"otp":"invalid","id":NEW}`, "otp"},
		{`{"errorMessage":"no","id":NEW}`, "errorMessage"},
		{`{"error":{"code":7},"id":NEW}`, "error"},
		{`{"errors":["no"],"id":NEW}`, "errors"},
		{`{"failed":true,"id":NEW}`, "failed"},
		{`{"requiresOtp":true,"id":NEW}`, "requiresOtp"},
		{`{"id":NEW,"response":{"success":false}}`, "success"},
		{`{"id":NEW,"steps":[{"ok":true},{"ok":false}]}`, "ok"},
	} {
		t.Run(row.answer, func(t *testing.T) {
			ok, contradiction := judge(row.answer)
			assert.False(t, ok)
			assert.Equal(t, row.contradiction, contradiction)
		})
	}
}
