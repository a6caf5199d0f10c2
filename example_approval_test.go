package lending_test

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
)

// The first step of the approval.
func ExampleApprovalService_AddCompanyDetails() {
	service, client := demo()
	row := service.AddApplication(lendingtest.Application{Offer: &lendingtest.Offer{Amount: 12_500_00}})
	application := lending.ApplicationID(uuid.MustParse(row.ID))

	type company struct { // made up: the interface does not show the fields
		LegalName string `json:"legalName"`
		TaxID     string `json:"taxId"`
	}
	err := client.Approval.AddCompanyDetails(context.Background(), application, lending.CompanyDataRequest{
		Extra: company{"Lovelace Analytics, LLC", "12-3456789"},
	})
	if err != nil {
		fmt.Println(err) // names the fields that the service refuses
		return
	}
	fmt.Println("the company is known")
	// Output: the company is known
}

// What must not show in logs is a Secret in a map: it is revealed on the wire only.
func ExampleApprovalService_AddPrimaryApplicantDetails() {
	service, client := demo()
	row := service.AddApplication(lendingtest.Application{
		Offer: &lendingtest.Offer{Amount: 12_500_00}, Company: []byte(`{"legalName":"Lovelace Analytics, LLC"}`),
	})
	application := lending.ApplicationID(uuid.MustParse(row.ID))

	ctx := context.Background()
	err := client.Approval.AddPrimaryApplicantDetails(ctx, application, lending.PrimaryApplicantRequest{
		Extra: map[string]any{ // made up: the interface does not show the fields
			"firstName": "Ada", "lastName": "Lovelace", "email": "ada@example.com",
			"ssn": lending.NewSecret("123-45-6789"),
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	applicants, err := client.Approval.Applicants(ctx, application)
	fmt.Println("applicants:", len(applicants), err)
	// Output: applicants: 1 <nil>
}
