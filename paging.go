package lending

import "strconv"

// MaxTake is the most records that the loan lists and the message list return at a time.
const MaxTake = 200

// ListOptions select a part of a list. A nil pointer leaves both to the service.
//
// Skipping is not a snapshot: records that come or go between two calls shift the rest.
type ListOptions struct {
	Skip int // how many records to leave out
	Take int // how many to return at most; 0 for the service's default
}

func (o *ListOptions) query() []param {
	if o == nil {
		return nil
	}
	return []param{countParam("skip", o.Skip), countParam("take", o.Take)}
}

// PagedOptions select a part of a list that can be turned round.
type PagedOptions struct {
	Skip       int // how many records to leave out
	Take       int // how many to return at most; 0 for the service's default
	Descending bool
}

func (o *PagedOptions) query() []param {
	if o == nil {
		return nil
	}
	return []param{countParam("skip", o.Skip), countParam("take", o.Take), boolParam("descending", o.Descending)}
}

// Page is a part of a list, and how long the whole list is.
type Page[T any] struct {
	Record
	Data       []T `json:"data"`
	TotalCount int `json:"totalCount"` // of the whole list
}

// UnmarshalJSON keeps data as the [Record].
func (p *Page[T]) UnmarshalJSON(data []byte) error { return unmarshalRecord(data, p) }

// MarshalJSON writes the page as it was received.
func (p Page[T]) MarshalJSON() ([]byte, error) { return marshalRecord(p.Record, p) }

// countParam is a parameter that is left out where it is 0.
func countParam(name string, n int) param {
	if n == 0 {
		return param{name: name}
	}
	return param{name, strconv.Itoa(n), false}
}
