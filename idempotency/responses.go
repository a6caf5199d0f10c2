package idempotency

import (
	"bytes"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go"
)

// form is the form of the response of a route.
type form struct {
	name string
	fits func(answer []byte) bool
}

// The forms of responses, as the methods decode them.
var (
	aBoolean  = form{"a boolean", decodes[bool]}
	aUUID     = form{"a UUID", decodesID}
	anObject  = form{"an object", func(answer []byte) bool { return answer[0] == '{' }}
	objects   = form{"an array of objects", decodes[[]map[string]any]}
	withUUID  = form{"a UUID, or an object with a UUID", func(answer []byte) bool { return len(uuidsIn(string(answer))) > 0 }}
	aCustomer = form{"an object whose id is a UUID", isCustomer}
	customers = form{"an array of objects whose id is a UUID", isCustomers}
	nothing   = form{"nothing, or true", func(answer []byte) bool { return bytes.Equal(answer, []byte("true")) }}
)

// formOf returns the form of the response of a method and path template.
func formOf(route string) form {
	switch route {
	case "POST /api/Application/quick-test/{applicationId}",
		"POST /api/Application/add-or-update-banking-data/{applicationId}",
		"GET /api/Application/update-application-name/{applicationId}",
		"GET /api/Application/update-application-name-and-zip-code/{applicationId}",
		"GET /api/Application/update-customer-data/{applicationId}",
		"GET /api/Application/update-application-data/{applicationId}":
		return aBoolean
	case "POST /api/Application/create-application", "POST /api/Application/create-application-and-applicant",
		"GET /api/Application/process-application/{applicationId}", "POST /api/Loan/resend-withdrawal-otp/{loanId}":
		return aUUID
	case "POST /api/Application/create-customer":
		return aCustomer
	case "POST /api/ApplicationBulk/create-customers":
		return customers
	case "POST /api/Loan/confirm-withdrawal-invoice/{loanId}":
		return withUUID
	case "POST /api/ApplicationBulk/create-applications", "POST /api/Calculation/application-loc-calculation-slider":
		return objects
	case "POST /api/Application/create-customer-and-application",
		"POST /api/Application/create-customer-and-application-and-applicant",
		"GET /api/Application/application-offer/{applicationId}",
		"POST /api/Calculation/application-loc-calculation", "POST /api/Calculation/application-invoice-calculation",
		"POST /api/Loan/make-withdrawal-line-of-credit/{loanId}", "POST /api/Loan/make-withdrawal-invoice/{loanId}":
		return anObject
	}
	return nothing
}

func decodes[T any](answer []byte) bool {
	return json.Unmarshal(answer, new(T)) == nil && string(answer) != "null"
}

func decodesID(answer []byte) bool {
	var id uuid.UUID
	return json.Unmarshal(answer, &id) == nil && id != uuid.Nil
}

func isCustomer(answer []byte) bool {
	var customer lending.UserResponse
	return json.Unmarshal(answer, &customer) == nil && !customer.ID.IsZero()
}

func isCustomers(answer []byte) bool {
	var all []json.RawMessage
	if json.Unmarshal(answer, &all) != nil {
		return false
	}
	for _, one := range all {
		if !isCustomer(one) {
			return false
		}
	}
	return len(all) > 0
}

// withoutPersonalData keeps a boolean, a UUID, and the ids of a record if a later step needs
// only the ids.
func (r response) withoutPersonalData(route string) response {
	if isScalar(r.Body) {
		return r
	}
	if rowOf(route).ids {
		if ids := onlyIDs(r.Body); ids != nil {
			return response{Status: r.Status, Media: mediaJSON, Body: ids, Rebuilt: true}
		}
	}
	return response{}
}

// isScalar reports whether answer is a boolean or a UUID.
func isScalar(answer []byte) bool {
	text := bytes.TrimSpace(answer)
	if string(text) == "true" || string(text) == "false" {
		return true
	}
	_, err := uuid.ParseBytes(bytes.Trim(text, `"`)) // text/plain has no quotes
	return err == nil
}

// onlyIDs returns the UUIDs of answer under their names, or nil if answer has none.
func onlyIDs(answer []byte) []byte {
	var value any
	if json.Unmarshal(answer, &value) != nil || !prune(value) {
		return nil
	}
	text, _ := json.Marshal(value) //nolint:errchkjson // value was decoded from JSON
	return text
}

// prune removes every member except UUIDs from an object, or from the objects of a list. It
// reports whether each object still has a UUID.
func prune(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			if text, ok := member.(string); !(ok && uuid.Validate(text) == nil) && !prune(member) {
				delete(value, name)
			}
		}
		return len(value) > 0
	case []any:
		for _, element := range value {
			if !prune(element) {
				return false
			}
		}
		return len(value) > 0
	}
	return false
}
