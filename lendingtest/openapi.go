package lendingtest

import _ "embed" // for openapi.yaml

//go:embed openapi.yaml
var openAPI string

// OpenAPI returns the service's description in OpenAPI 3, as YAML.
func OpenAPI() string { return openAPI }
