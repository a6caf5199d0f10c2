package lendingtest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lendingapi/lending-go/lendingtest"
)

// Rules of the model that no sentence of the interface holds.

func TestProcessingAgainKeepsTheStatus(t *testing.T) {
	r := newRig(t)
	id, _ := r.approved()
	r.get("/api/Application/process-application/" + id).ok()
	assert.Equal(t, lendingtest.StatusInApproval, r.get("/api/Application/application-status/"+id).text())
}

func TestOnlyOneRouteChangesTheZipCode(t *testing.T) {
	r := newRig(t)
	path := "/api/Application/update-application-name/" + r.application()
	r.get(path + "?name=A&zipCode=20002").ok()
	assert.Equal(t, "10001", r.Snapshot().Applications[0].BusinessZip)
}
