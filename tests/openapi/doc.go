// Package openapi compares packages lending and lendingtest with lendingtest/openapi.yaml, the
// description of the lending service in OpenAPI 3.
//
// The description comes only from the published interface. Its author did not use the code of
// the client or of lendingtest. The description has no fields where the interface publishes
// none. Generate a client in another language from the file, make a mock server, or open the
// file in an OpenAPI viewer. The tests also run through Prism, a validating proxy: make
// openapi-peer.
package openapi

import "github.com/lendingapi/lending-go/lendingtest"

// Description is the text of openapi.yaml.
var Description = []byte(lendingtest.OpenAPI())
