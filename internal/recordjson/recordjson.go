// Package recordjson writes and reads the records of a service as JSON: the fields by their
// json tags, secrets revealed, and of a record that was received all that it came with.
package recordjson

import (
	"reflect"
)

// Types are the types that are written and read in a way of their own.
type Types struct {
	// Secret has the methods Reveal and String, of which the first is for the service, and
	// UnmarshalJSON.
	Secret reflect.Type

	// Record is the type of the first field of a record that was received. Its method Raw
	// returns the JSON of the record. The records of its package are sent if they have a
	// field called Extra, which no tag names.
	Record reflect.Type

	MaxSize int // of what is written, in bytes
	Page    int // how many records a list has at most, usually
}
