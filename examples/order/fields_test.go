package order

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
)

// TestFieldNames compares the guessed names of this package with the responses of the service for tests.
func TestFieldNames(t *testing.T) {
	service := lendingtest.NewServer()
	defer service.Close()
	token := lending.StaticToken(service.Token(lendingtest.Username))
	client, err := lending.New(service.URL, lending.WithTokenSource(token))
	require.NoError(t, err)
	defer client.Close()
	row := service.AddApplication(lendingtest.Application{
		CustomerID: service.AddCustomer(lendingtest.Customer{}).ID, Accounts: []lendingtest.BankAccount{{}},
		Applicants: []lendingtest.Applicant{{}}, Requirements: []lendingtest.Requirement{{}},
	})
	application := lending.ApplicationID(uuid.MustParse(row.ID))

	accounts, err := client.Approval.BankAccounts(t.Context(), application)
	require.NoError(t, err)
	assert.Empty(t, lending.Missing[account](accounts...))
	requirements, err := client.Approval.RequiredDocuments(t.Context(), application)
	require.NoError(t, err)
	assert.Empty(t, lending.Missing[requirement](requirements...))
	applicants, err := client.Approval.Applicants(t.Context(), application)
	require.NoError(t, err)
	assert.Empty(t, lending.Missing[person](applicants...))
}
