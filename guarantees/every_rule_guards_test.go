package guarantees_test

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// Bytes that are not UTF-8, and what others have made of them, name nothing: sent on they would be another name.
func TestWhatIsNotUTF8IsRefused(t *testing.T) {
	for _, value := range []string{"a\xffb", "a\uFFFDb"} {
		t.Run(value, func(t *testing.T) {
			_, err := wire.Silent(t).Do(t.Context(), lending.RawRequest{Method: "GET", Path: "/api/Thing/{id}",
				Args: []string{value}})
			assert.Equal(t, "id unsafe", catalog.Refused(t, err))
			_, err = wire.Silent(t).Do(t.Context(), lending.RawRequest{Method: "GET", Path: "/api/Thing",
				Query: url.Values{"q": {value}}})
			assert.Equal(t, "q unsafe", catalog.Refused(t, err))
		})
	}
}

func TestZeroIDsInExtraAreRefused(t *testing.T) {
	for _, id := range []any{lending.LoanID{}, &lending.LoanID{}} {
		t.Run(fmt.Sprintf("%T", id), func(t *testing.T) {
			err := wire.Silent(t).Approval.AddCompanyDetails(t.Context(), catalog.Application,
				lending.CompanyDataRequest{Extra: catalog.Unpublished{"a": []any{id}}})
			assert.Equal(t, "Extra.a[0] required", catalog.Refused(t, err))
		})
	}
}
