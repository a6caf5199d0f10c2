package onboarding

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// documents is the number of documents that the service requires for each application.
const documents = 2

// Count prints the number of records that the customers have in the service after a
// trial. Count returns an error unless every customer has each record once.
func (r Result) Count(out io.Writer, customers int) error {
	offers, submitted, signed, withdrawals := 0, 0, 0, 0
	for _, application := range r.State.Applications {
		offers += application.ProcessRuns
		for _, document := range application.Requirements {
			if document.IsSubmitted {
				submitted++
			}
		}
		for _, applicant := range application.Applicants {
			if applicant.HasSigned {
				signed++
			}
		}
	}
	for _, loan := range r.State.Loans {
		withdrawals += len(loan.Withdrawals)
	}
	var failed error
	_, _ = fmt.Fprintf(out, "\n%-14s  wanted  in the service  commands executed\n", "")
	for _, row := range []struct {
		name, route string
		each, there int
	}{
		{"customers", CreateCustomer, 1, len(r.State.Customers)},
		{"applications", CreateApplication, 1, len(r.State.Applications)},
		{"offers", Process, 1, offers},
		{"applicants", Applicant, 1, signed},
		{"documents", Document, documents, submitted},
		{"signatures", Sign, 1, signed},
		{"withdrawals", Confirm, 1, withdrawals},
	} {
		executed, beyond, missing := r.Of(row.route)
		wanted := customers * row.each
		_, _ = fmt.Fprintf(out, "%-14s  %6d  %14d  %17d\n", row.name, wanted, row.there, executed)
		if row.there != wanted || executed != wanted || beyond > 0 || missing > 0 {
			failed = errors.Join(failed, fmt.Errorf("%s: not %d for each customer: %d too many, missing for %d", row.name, row.each, beyond, missing))
		}
	}
	var repeated []string
	for _, row := range []struct{ name, route string }{
		{"bank data", BankingData}, {"company", Company}, {"account", Account}, {"calculation", Calculation}, {"one-time password", Withdraw},
	} {
		executed, _, missing := r.Of(row.route)
		repeated = append(repeated, fmt.Sprintf("%s %d", row.name, executed))
		if missing > 0 {
			failed = errors.Join(failed, fmt.Errorf("%s: missing for %d customers", row.name, missing))
		}
	}
	_, _ = fmt.Fprintf(out, "\nHarmless to repeat, and executed so often: %s.\n", strings.Join(repeated, ", "))
	return failed
}
