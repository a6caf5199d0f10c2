package lending

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"iter"
	"math"
	"slices"
	"strconv"

	"github.com/lendingapi/lending-go/internal/redact"
)

// ListOptions select a part of a list. A nil pointer leaves the choice to the service.
//
// A list is not a snapshot: records that appear or disappear between two calls shift the others.
type ListOptions struct {
	Skip int // number of records to leave out
	Take int // largest number of records to return, up to 200; 0 for the service's default
}

// PagedOptions select a part of a list, in either order.
type PagedOptions struct {
	Skip       int // number of records to leave out
	Take       int // largest number of records to return, up to 200; 0 for the service's default
	Descending bool
}

// paged returns the same options with a direction.
func (o *ListOptions) paged() *PagedOptions {
	if o == nil {
		return nil
	}
	return &PagedOptions{Skip: o.Skip, Take: o.Take}
}

// list returns the same options without the direction.
func (o *PagedOptions) list() *ListOptions { return &ListOptions{Skip: o.Skip, Take: o.Take} }

// page selects a part of a list whose largest page has most records.
func (r request) page(o *PagedOptions, most int) request {
	if o != nil {
		r.query = []param{countParam("skip", o.Skip), countParam("take", o.Take), boolParam("descending", o.Descending)}
		r.also = pageRule{o.Skip, o.Take, most}
	}
	return r
}

type pageRule struct{ skip, take, most int }

func (p pageRule) check(c *checks) {
	c.that(p.skip >= 0 && p.skip <= math.MaxInt32, "skip", CodeRange, "must be from 0 to 2147483647")
	c.that(p.take >= 0 && p.take <= p.most, "take", CodeRange, "must be from 0 to "+strconv.Itoa(p.most))
}

// Page is a part of a list, with the length of the whole list. A response without data is an
// error unless its totalCount is 0.
type Page[T any] struct {
	Record
	Data       []T `json:"data"`
	TotalCount int `json:"totalCount"` // of the whole list, by the service's own count
}

// UnmarshalJSON keeps data as the [Record].
func (p *Page[T]) UnmarshalJSON(data []byte) error { return unmarshalRecord(data, p) }

// MarshalJSON writes the page as received.
func (p Page[T]) MarshalJSON() ([]byte, error) { return marshalRecord(p.Record, p) }

// missing reports an object without a list whose total is not 0: an object of another kind is
// not an empty page.
func (p *Page[T]) missing() *shapeError {
	if p.Data != nil || p.total() == 0 {
		return nil
	}
	return &shapeError{Path: "data", Want: "an array", Got: cmp.Or(p.member("data"), "nothing")}
}

// total is the TotalCount of the service, -1 if the response has no valid total.
func (p *Page[T]) total() int {
	if p.TotalCount > 0 {
		return p.TotalCount
	}
	if said := p.member("totalCount"); said == "" || said == "null" || p.TotalCount < 0 {
		return -1
	}
	return 0
}

// countParam is a parameter whose default is 0.
func countParam(name string, n int) param {
	if n == 0 {
		return param{name: name}
	}
	return param{name, strconv.Itoa(n), false}
}

// PageError is the error of an iterator. Every record before Skip was yielded: a new iterator
// with that Skip resumes.
type PageError struct {
	safe

	Skip int // of the page that failed
	Err  error
}

// Error describes the failure as [Error.Error] does.
func (e *PageError) Error() string {
	return "lending: page at " + strconv.Itoa(e.Skip) + ": " + redact.Describe(e.Err)
}

// Unwrap returns why the page failed: an [*Error], an [*ArgumentError] or [ErrRepeatedPage].
func (e *PageError) Unwrap() error { return e.Err }

type rawRecord interface{ Raw() json.RawMessage }

// page is a part of a list as received.
type page[T rawRecord] struct {
	records []T
	total   int // -1 if the service does not say
	err     error
}

func pageOfList[T rawRecord](records []T, err error) page[T] {
	return page[T]{records: records, total: -1, err: err}
}

func pageOfTotal[T rawRecord](p *Page[T], err error) page[T] {
	if err != nil {
		return page[T]{err: err}
	}
	return page[T]{records: p.Data, total: p.total()}
}

// walk yields the records that fetch returns, from Skip on. It advances by the number of
// received records, and ends at the total or at an empty page. A total that does not exceed a full page
// counts as that of the page.
func walk[T rawRecord](ctx context.Context, opts *PagedOptions, fetch func(context.Context, *PagedOptions) page[T]) iter.Seq2[T, error] {
	o := *cmp.Or(opts, new(PagedOptions))
	o.Take = min(cmp.Or(o.Take, maxTake), maxTake)
	return func(yield func(T, error) bool) {
		seed, seen := maphash.MakeSeed(), map[uint64]bool{}
		for o := o; ; { // each range begins at Skip
			p := fetch(ctx, &o)
			sum := sumOf(seed, p.records)
			if p.err == nil {
				p.err = p.flaw(o.Skip, seen[sum])
			}
			if p.err != nil {
				yield(*new(T), &PageError{Skip: o.Skip, Err: p.err})
				return
			}
			seen[sum] = true
			o.Skip += len(p.records)
			for _, record := range p.records {
				if !yield(record, nil) {
					return
				}
			}
			isOfPage := len(p.records) >= o.Take && p.total <= len(p.records) // the list may be longer
			if len(p.records) == 0 || p.total >= 0 && o.Skip >= p.total && !isOfPage {
				return
			}
		}
	}
}

// flaw returns why the page at skip is none of the list. isRepeated is set if the page came before.
func (p *page[T]) flaw(skip int, isRepeated bool) error {
	if i := slices.IndexFunc(p.records, func(record T) bool { return string(record.Raw()) == "null" }); i >= 0 {
		return &shapeError{Path: fmt.Sprintf("[%d]", i), Want: "an object", Got: "null"}
	}
	switch {
	case len(p.records) == 0 && p.total > skip:
		return errShortList
	case isRepeated:
		return ErrRepeatedPage
	}
	return nil
}

var errShortList error = redact.Text("the service has returned an empty page before the end of the list")

func sumOf[T rawRecord](seed maphash.Seed, records []T) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, record := range records {
		_, _ = h.Write(record.Raw())
		_ = h.WriteByte(0)
	}
	return h.Sum64()
}
