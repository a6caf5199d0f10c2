package lending

import (
	"cmp"
	"context"
	"encoding/json"
	"hash/maphash"
	"iter"
	"math"
	"strconv"
	"strings"

	"github.com/lendingapi/lending-go/internal/jsonsplit"
	"github.com/lendingapi/lending-go/internal/redact"
)

// maxTake is the most records that the loan lists and the message list return at a time.
const maxTake = 200

// ListOptions select a part of a list. A nil pointer leaves both to the service.
//
// Skipping is not a snapshot: records that come or go between two calls shift the rest.
type ListOptions struct {
	Skip int // how many records to leave out
	Take int // how many to return at most, up to 200; 0 for the service's default

	// ReadAhead makes an iterator fetch the next page while its caller works on
	// this one. Breaking off cancels that call. Other methods ignore it.
	ReadAhead bool
}

// PagedOptions select a part of a list that can be turned round.
type PagedOptions struct {
	Skip       int // how many records to leave out
	Take       int // how many to return at most, up to 200; 0 for the service's default
	Descending bool

	// ReadAhead makes an iterator fetch the next page while its caller works on
	// this one. Breaking off cancels that call. Other methods ignore it.
	ReadAhead bool
}

// paged returns the same options with a direction.
func (o *ListOptions) paged() *PagedOptions {
	if o == nil {
		return nil
	}
	return &PagedOptions{Skip: o.Skip, Take: o.Take, ReadAhead: o.ReadAhead}
}

// list returns the same options without the direction.
func (o *PagedOptions) list() *ListOptions { return &ListOptions{Skip: o.Skip, Take: o.Take} }

func (o *PagedOptions) query() []param {
	if o == nil {
		return nil
	}
	return []param{countParam("skip", o.Skip), countParam("take", o.Take), boolParam("descending", o.Descending)}
}

// atMost is the rule of a list that returns no more than most records at a time.
func (o *PagedOptions) atMost(most int) checker {
	if o == nil {
		return nil
	}
	return pageRule{o.Skip, o.Take, most}
}

type pageRule struct{ skip, take, most int }

func (p pageRule) check(c *checks) {
	c.that(p.skip >= 0 && p.skip <= math.MaxInt32, "skip", CodeRange, "must be from 0 to 2147483647")
	c.that(p.take >= 0 && p.take <= p.most, "take", CodeRange, "must be from 0 to "+strconv.Itoa(p.most))
}

// Page is a part of a list, and how long the whole list is. An answer without data is
// an error unless its totalCount is 0.
type Page[T any] struct {
	Record
	Data       []T `json:"data"`
	TotalCount int `json:"totalCount"` // of the whole list, as the service counts: it may be wrong
}

// UnmarshalJSON keeps data as the [Record].
func (p *Page[T]) UnmarshalJSON(data []byte) error { return unmarshalRecord(data, p) }

// MarshalJSON writes the page as it was received.
func (p Page[T]) MarshalJSON() ([]byte, error) { return marshalRecord(p.Record, p) }

// missing says that there is no list, although the total is not said to be 0: an
// object of another kind is not an empty page.
func (p *Page[T]) missing() *shapeError {
	if p.Data != nil || p.total() == 0 {
		return nil
	}
	return &shapeError{path: "data", want: "an array", got: cmp.Or(p.member("data"), "nothing")}
}

// total is the TotalCount that the service said, -1 if it said none: without one, or
// with one that cannot be, TotalCount says nothing of where the list ends.
func (p *Page[T]) total() int {
	if p.TotalCount > 0 {
		return p.TotalCount // as was said: what is not is not looked for
	}
	if said := p.member("totalCount"); said == "" || said == "null" || p.TotalCount < 0 {
		return -1
	}
	return 0
}

// member is the JSON type of the member that is called name in any case, empty if there is none.
func (p *Page[T]) member(name string) (got string) {
	for other, value := range jsonsplit.Members(p.Raw()) {
		if strings.EqualFold(string(other), name) {
			got = jsonsplit.Kind(p.Raw()[value.From:])
		}
	}
	return got
}

// countParam is a parameter that is left out where it is 0.
func countParam(name string, n int) param {
	if n == 0 {
		return param{name: name}
	}
	return param{name, strconv.Itoa(n), false}
}

// PageError is the error of an iterator. A new iterator that begins at Skip resumes
// where it ended: every record before was yielded.
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

// rawRecord is a record that is a part of a list.
type rawRecord interface{ Raw() json.RawMessage }

// page is a part of a list as it came.
type page[T any] struct {
	records  []T
	total    int // -1 if the service does not say
	err      error
	panicked any // what fetching it ahead panicked with
}

func pageOfList[T any](records []T, err error) page[T] {
	return page[T]{records: records, total: -1, err: err}
}

func pageOfTotal[T any](p *Page[T], err error) page[T] {
	if err != nil {
		return page[T]{err: err}
	}
	return page[T]{records: p.Data, total: p.total()}
}

// fetchAhead fetches a page in another goroutine than the one that ranges, where a
// panic would end the program. wait waits for the page, and panics with it.
func fetchAhead[T any](fetch func() page[T]) (wait func() page[T]) {
	fetched := make(chan page[T], 1)
	go func() {
		p := page[T]{err: errNoAnswer} // if the goroutine is made to exit
		defer func() {
			p.panicked = recover()
			fetched <- p
		}()
		p = fetch()
	}()
	return func() page[T] {
		p := <-fetched
		if p.panicked != nil {
			panic(p.panicked)
		}
		return p
	}
}

// walk yields the records that fetch returns from Skip on. It advances by as many as
// have come, and ends when the total is reached or overstepped, or none come.
func walk[T rawRecord](ctx context.Context, opts *PagedOptions, fetch func(context.Context, *PagedOptions) page[T]) iter.Seq2[T, error] {
	var o PagedOptions
	if opts != nil {
		o = *opts
	}
	o.Take = min(cmp.Or(o.Take, maxTake), maxTake)
	return func(yield func(T, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var next func() page[T] // waits for the page that is fetched ahead; nil if none is
		defer func() {
			cancel()
			if next != nil {
				next()
			}
		}()
		seed, seen := maphash.MakeSeed(), map[uint64]bool{}
		for o := o; ; { // each range begins at the same place
			get := func() page[T] { return fetch(ctx, &o) }
			if next != nil {
				get, next = next, nil
			}
			p := get()
			sum := sumOf(seed, p.records)
			if p.err == nil && seen[sum] {
				p.err = ErrRepeatedPage
			}
			if p.err != nil {
				yield(*new(T), &PageError{Skip: o.Skip, Err: p.err})
				return
			}
			seen[sum] = true
			o.Skip += len(p.records)
			last := len(p.records) == 0 || p.total >= 0 && o.Skip >= p.total
			if o.ReadAhead && !last {
				next = fetchAhead(func() page[T] { return fetch(ctx, &o) })
			}
			for _, record := range p.records {
				if !yield(record, nil) {
					return
				}
			}
			if last {
				return
			}
		}
	}
}

// sumOf returns a number that two different pages do not share, as good as certainly.
func sumOf[T rawRecord](seed maphash.Seed, records []T) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, record := range records {
		_, _ = h.Write(record.Raw())
		_ = h.WriteByte(0)
	}
	return h.Sum64()
}
