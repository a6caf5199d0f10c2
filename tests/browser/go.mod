module github.com/lendingapi/lending-go/tests/browser

go 1.26.0

replace github.com/lendingapi/lending-go => ../..

require (
	github.com/lendingapi/lending-go v0.1.0
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/google/uuid v1.6.0
	github.com/hashicorp/go-cleanhttp v0.5.2 // indirect
	github.com/hashicorp/go-retryablehttp v0.7.8 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)
