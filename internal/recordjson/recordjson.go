// Package recordjson writes and reads the records of a service as JSON: fields by their json
// tags, secrets revealed, and received records with all their members.
package recordjson

import (
	"reflect"
)

// Types are the types with their own JSON.
type Types struct {
	// Secret has the methods Reveal (for the service) and UnmarshalJSON.
	Secret reflect.Type

	// Record is the type of the first field of a received record. Its method Raw returns the
	// JSON of the record. A record of the same package is for requests if it has an untagged
	// field Extra.
	Record reflect.Type

	MaxSize int // of written JSON, in bytes
	Page    int // the usual largest number of records in a list
}
