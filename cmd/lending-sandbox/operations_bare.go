//go:build bare

package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/lendingapi/lending-go/lendingtest"
)

// operated returns an error: the image of the Dockerfile has only the service, so that its build
// fetches no module.
func operated(context.Context, *lendingtest.Service) (http.Handler, error) {
	return nil, errors.New("-ops is not part of this image: run the sandbox from a clone")
}
