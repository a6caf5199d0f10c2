// Package openapi holds the tests that hold packages lending and lendingtest to
// lendingtest/openapi.yaml, a description of the lending service in OpenAPI 3.
//
// The description is written from the published interface alone, by somebody else's
// reading than that of the client and of lendingtest. Generate a client in another
// language from it, make a mock server of it, or look at it in any OpenAPI viewer. Where
// the interface shows no fields, it has none either. Prism, a proxy of other people's that
// validates, has read it as well: make openapi-peer sends the tests through it.
package openapi

import "github.com/lendingapi/lending-go/lendingtest"

// Description is openapi.yaml.
var Description = []byte(lendingtest.OpenAPI())
