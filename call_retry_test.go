package lending

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// FuzzRetryAfter holds that no header makes a caller wait for less than nothing or
// more than a day.
func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{
		"", "0", "120", "-1", "9223372037", "18446744073709551616", "1.5", "+5", "Fri, 31 Dec 1999 23:59:59 GMT",
		"Fri, 31 Dec 9999 23:59:59 GMT", "Friday, 31-Dec-99 23:59:59 GMT", "\x00",
	} {
		f.Add(seed, "Fri, 31 Dec 1999 23:59:00 GMT")
		f.Add(seed, "")
	}
	f.Fuzz(func(t *testing.T, text, date string) {
		wait := retryAfter(http.Header{"Retry-After": {text}, "Date": {date}})
		assert.GreaterOrEqual(t, wait, time.Duration(0))
		assert.LessOrEqual(t, wait, 24*time.Hour)
	})
}
