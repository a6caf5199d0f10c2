// Package openapi holds openapi.yaml, a description of the lending service in
// OpenAPI 3, and the tests that hold packages lending and lendingtest to it.
//
// The description is written from the published interface alone, by somebody else's
// reading than that of the client and of lendingtest. Generate a client in another
// language from it, make a mock server of it, or look at it in any OpenAPI viewer. Where
// the interface shows no fields, it has none either. Prism, a proxy of other people's that
// validates, has read it as well: make openapi-peer sends the tests through it.
package openapi

import _ "embed" // for the description

// Description is openapi.yaml.
//
//go:embed openapi.yaml
var Description []byte
