package guarantees_test

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lendingapi/lending-go"
)

// Bytes that are not UTF-8, and what others have made of them, name nothing: sent on they would be another name.
func TestWhatIsNotUTF8IsRefused(t *testing.T) {
	for _, value := range []string{"a\xffb", "a\uFFFDb"} {
		_, err := silent(t).Do(t.Context(), lending.RawRequest{Method: "GET", Path: "/api/Thing/{id}", Args: []string{value}})
		assert.Equal(t, "id unsafe", refused(t, err))
		_, err = silent(t).Do(t.Context(), lending.RawRequest{Method: "GET", Path: "/api/Thing", Query: url.Values{"q": {value}}})
		assert.Equal(t, "q unsafe", refused(t, err))
	}
}

func TestZeroIDsInExtraAreRefused(t *testing.T) {
	for _, id := range []any{lending.LoanID{}, &lending.LoanID{}} {
		err := silent(t).Approval.AddCompanyDetails(t.Context(), theApplication, lending.CompanyDataRequest{Extra: unpublished{"a": []any{id}}})
		assert.Equal(t, "Extra.a[0] required", refused(t, err))
	}
}
