package verdict_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lendingapi/lending-go/internal/verdict"
)

func TestFailureInARecord(t *testing.T) {
	for record, member := range map[string]string{
		`{"status":409,"title":"no"}`: "status", `{"status":503,"detail":"no"}`: "status",
		`{"status":200,"title":"no"}`: "", `{"status":4090,"title":"no"}`: "", `{"status":4e2,"title":"no"}`: "",
		`{"status":409}`: "", `{"status":409,"correlationId":"c"}`: "status", `{"error":"no"}`: "error", `{"error":null}`: "",
		`{"errorCode":"E1"}`: "errorCode", `{"ErrorCode":0}`: "", `{"errorCode":""}`: "",
	} {
		assert.Equal(t, member, verdict.FailureIn([]byte(record)), record)
	}
}
