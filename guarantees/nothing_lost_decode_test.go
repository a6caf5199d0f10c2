package guarantees_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
)

// recordOf is a record that holds text.
func recordOf(t *testing.T, text string) lending.Record {
	t.Helper()
	var record lending.Record
	require.NoError(t, record.UnmarshalJSON([]byte(text)))
	return record
}

type (
	strictly struct{ N int }
	inner    struct {
		Zip  int       `json:"zip"`
		When time.Time `json:"when"`
	}
	base   struct{ Promoted int8 }
	wanted struct {
		base
		Inner    inner                  `json:"inner"`
		List     []*inner               `json:"list"`
		Lists    [][]int8               `json:"lists"`
		Map      map[string]*inner      `json:"map"`
		Numbered map[int]string         `json:"numbered"`
		ByLoan   map[lending.LoanID]int `json:"byLoan"`
		Array    [2]bool                `json:"array"`
		Loan     lending.LoanID         `json:"loan"`
		UUID     uuid.UUID              `json:"uuid"`
		Address  netip.Addr             `json:"address"`
		Strict   strictly               `json:"strict"`
		Quoted   int64                  `json:"quoted,string"`
		Exact    json.Number            `json:"exact"`
		Bytes    []byte                 `json:"bytes"`
		Any      any                    `json:"any"`
		Secret   lending.Secret         `json:"secret"`
		User     lending.UserResponse   `json:"user"`
		Untagged uint8
		Nested   struct{ Deep struct{ Ptr **int } }
	}
)

func (s *strictly) UnmarshalJSON(data []byte) error {
	if string(data) == `"panic"` {
		panic("hush")
	}
	return fmt.Errorf("hush: %s", data)
}

// TestDecodeErrorsNameTheField reads alike with every version of Go.
func TestDecodeErrorsNameTheField(t *testing.T) {
	for text, want := range map[string]string{
		`{"inner":{"zip":"hush"}}`:                        `field "inner.zip": a string does not fit int`,
		`{"inner":{"when":"2024-01-02T03:04:05"}}`:        `field "inner.when": a string does not fit time.Time`,
		`{"INNER":{"Zip":true}}`:                          `field "INNER.Zip": a boolean does not fit int`,
		`{"inner":["hush"]}`:                              `field "inner": an array does not fit guarantees_test.inner`,
		`{"list":[null,{},{"zip":1},{"when":"hush"}]}`:    `field "list[3].when": a string does not fit time.Time`,
		`{"lists":[[1],[2,3,4444]]}`:                      `field "lists[1][2]": a number does not fit int8`,
		`{"map":{"a@example.com":{},"hush":{"zip":1.5}}}`: `field "map.*.zip": a number does not fit int`,
		`{"map":{"hush@example.com":"hush"}}`:             `field "map.*": a string does not fit guarantees_test.inner`,
		`{"numbered":{"1":"a","hush@example.com":"b"}}`:   `field "numbered.*": a key does not fit int`,
		`{"byLoan":{"hush@example.com":1}}`:               `field "byLoan.*": a key does not fit lending.ID[github.com/lendingapi/lending-go.loan]`,
		`{"array":[true,"hush"]}`:                         `field "array[1]": a string does not fit bool`,
		`{"loan":"hush"}`:                                 `field "loan": a string does not fit lending.ID[github.com/lendingapi/lending-go.loan]`,
		`{"loan":12345}`:                                  `field "loan": a number does not fit lending.ID[github.com/lendingapi/lending-go.loan]`,
		`{"uuid":"hush"}`:                                 `field "uuid": a string does not fit uuid.UUID`,
		`{"address":"hush"}`:                              `field "address": a string does not fit netip.Addr`,
		`{"strict":{"hush":"hush"}}`:                      `field "strict": an object does not fit guarantees_test.strictly`,
		`{"quoted":"12","exact":"hush"}`:                  `field "exact": a string does not fit json.Number`,
		`{"quoted":"hush"}`:                               `field "quoted": a string does not fit int64`,
		`{"quoted":1234567}`:                              `field "quoted": a number does not fit int64`,
		`{"bytes":"hush!"}`:                               `field "bytes": a string does not fit []uint8`,
		`{"any":{"hush@example.com":[1,1e999]}}`:          `field "any.*[1]": a number does not fit interface {}`,
		`{"any":1e999}`:                                   `field "any": a number does not fit interface {}`,
		`{"secret":7}`:                                    `field "secret": a number does not fit lending.Secret`,
		`{"user":{"id":"hush"}}`:                          `field "user": an object does not fit lending.UserResponse`,
		`{"promoted":1000}`:                               `field "promoted": a number does not fit int8`,
		`{"untagged":-1}`:                                 `field "untagged": a number does not fit uint8`,
		`{"untagged":99999999999999999999}`:               `field "untagged": a number does not fit uint8`,
		`{"nested":{"deep":{"ptr":"hush"}}}`:              `field "nested.deep.ptr": a string does not fit int`,
		`{"hush":"hush","inner":{"hush":1,"zip":{}}}`:     `field "inner.zip": an object does not fit int`,
		`{"a\u0062":1,"\u0069nner":{"zip":"\ud800hush"}}`: `field "inner.zip": a string does not fit int`,
		`["hush"]`: `an array does not fit guarantees_test.wanted`,
		`"hush"`:   `a string does not fit guarantees_test.wanted`,
	} {
		t.Run(text, func(t *testing.T) {
			record := recordOf(t, text)
			err := record.Decode(&wanted{})
			require.EqualError(t, err, "lending: record: "+want)
			for _, shown := range []string{fmt.Sprintf("%v %+v %#v %d %s", err, err, err, err, err), err.Error()} {
				for _, hidden := range []string{"hush", "example.com", "12345", "4444", "2024"} {
					assert.NotContains(t, shown, hidden)
				}
			}
		})
	}
	var whole []int
	require.EqualError(t, recordOf(t, `[1,2,"hush"]`).Decode(&whole), `lending: record: field "[2]": a string does not fit int`)
	var one int8
	require.EqualError(t, recordOf(t, `4444`).Decode(&one), `lending: record: a number does not fit int8`)
	require.EqualError(t, recordOf(t, `{}`).Decode(one), `lending: record: cannot decode into int8: want a pointer that is not nil`)
	require.EqualError(t, recordOf(t, `{}`).Decode(nil), `lending: record: cannot decode into <nil>: want a pointer that is not nil`)
	require.EqualError(t, recordOf(t, `{}`).Decode((*wanted)(nil)), `lending: record: cannot decode into *guarantees_test.wanted: want a pointer that is not nil`)
	require.EqualError(t, lending.Record{}.Decode(&one), `lending: record: not JSON`)
	var byHand lending.Record
	require.NoError(t, byHand.UnmarshalJSON([]byte(`{"hush`)))
	require.EqualError(t, byHand.Decode(&wanted{}), `lending: record: not JSON`)
}

// TestDecodePanics: a panic in a method of the caller's type is his own, in his goroutine.
func TestDecodePanics(t *testing.T) {
	record := recordOf(t, `{"strict":"panic"}`)
	assert.PanicsWithValue(t, "hush", func() { _ = record.Decode(&wanted{}) })
	var again struct{ Strict string }
	require.NoError(t, record.Decode(&again))
	assert.Equal(t, "panic", again.Strict)
}

type (
	embeds struct {
		lending.Record
		Amount json.Number
	}
	embedsPointer struct {
		*lending.LoanResponse
		Amount json.Number
	}
	embedsDeeper struct {
		embeds
		Rate json.Number
	}
	redefined      lending.LoanResponse
	generic[T any] struct {
		lending.Page[lending.Transaction]
		More T
	}
	listing struct {
		Loans map[string][]*embeds `json:"loans"`
	}
	cyclic struct {
		Next *cyclic
		Bad  []embeds
	}
	embedsItself struct {
		lending.Record
		Amount json.Number
	}
	named struct {
		Whole  lending.Record       `json:"whole"`
		Loan   lending.LoanResponse `json:"loan"`
		Listed []lending.LoanResponse
		Itself *embedsItself `json:"itself"`
		Next   *named
	}
)

func (e *embedsItself) UnmarshalJSON(data []byte) error {
	if err := e.Record.UnmarshalJSON(data); err != nil {
		return err
	}
	var fields struct{ Amount json.Number }
	err := json.Unmarshal(data, &fields)
	e.Amount = fields.Amount
	return err
}

// TestDecodeRefusesWhatEmbedsARecord: all but the Record would silently stay zero.
func TestDecodeRefusesWhatEmbedsARecord(t *testing.T) {
	record := recordOf(t, `{"amount":1.50,"loans":{"a":[{"amount":2.50}]},"itself":{"amount":3.50},"whole":[4.50],"loan":{"id":"`+loanID().String()+`"}}`)
	type anonymous = struct {
		lending.Record
		A int
	}
	for into, want := range map[any]string{
		&embeds{}:            "guarantees_test.embeds",
		new([]embedsPointer): "guarantees_test.embedsPointer",
		&embedsDeeper{}:      "guarantees_test.embedsDeeper",
		&redefined{}:         "guarantees_test.redefined",
		&generic[int]{}:      "guarantees_test.generic[int]",
		&listing{}:           "guarantees_test.embeds",
		&cyclic{}:            "guarantees_test.embeds",
		&anonymous{}:         "struct { lending.Record; A int }",
	} {
		for range 2 { // the second time from memory
			err := record.Decode(into)
			require.ErrorContains(t, err, "lending: record: "+want+" embeds a record, whose UnmarshalJSON takes everything: give the field a name")
			assert.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(err), "what was done before is not undone")
		}
	}
	var good named
	require.NoError(t, record.Decode(&good))
	assert.Equal(t, "3.50", good.Itself.Amount.String())
	assert.Equal(t, "[4.50]", string(good.Whole.Raw()))
	assert.Equal(t, loanID(), good.Loan.ID)
	var page lending.Page[lending.Transaction]
	require.NoError(t, recordOf(t, `{"data":[],"totalCount":3}`).Decode(&page))
	assert.Equal(t, 3, page.TotalCount)
}
