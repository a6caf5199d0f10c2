package format_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/format"
)

func TestNewerVersionIsRefused(t *testing.T) {
	require.NoError(t, format.Version(0).Check(1, "the entry"), "a value without a version")
	require.NoError(t, format.Version(1).Check(1, "the entry"))
	require.NoError(t, format.Version(3).Check(1002, "the entry"))
	for version, release := range map[format.Version]string{3: "v0.3", 12: "v0.12", 1002: "v1.2"} {
		err := version.Check(2, "the entry")
		require.EqualError(t, err, "the entry was written by a newer release, at least "+release+"; update this replica")
		next := lending.NextOf(fmt.Errorf("a store: %w", err))
		assert.True(t, next.Retry && next.Person, next)
	}
}

type inner struct {
	Number int `json:"number,omitempty"`
}

type stored struct {
	Name  string `json:"name"`
	Inner inner  `json:"inner,omitzero"`
	Next  *inner `json:"next,omitempty"`
	inner
}

func TestUnknownMemberSurvivesASave(t *testing.T) {
	for _, test := range []struct{ name, was, want string }{
		{"no unknown member", `{"name":"a","number":1}`, `{"name":"b","number":1}`},
		{"at the top", `{"name":"a","later":{"number":[1.0]}}`, `{"name":"b","later":{"number":[1.0]}}`},
		{"in an object", `{"name":"a","inner":{"number":7,"later":1}}`, `{"name":"b","inner":{"number":7,"later":1}}`},
		{"in a pointer", `{"name":"a","next":{"number":7,"later":null}}`, `{"name":"b","next":{"number":7,"later":null}}`},
		{"of an omitted object", `{"name":"a","inner":{"later":1}}`, `{"name":"b"}`},
		{"a known member in other letters", `{"NAME":"a","later":1}`, `{"name":"b","later":1}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var value stored
			unknown, err := format.Decode([]byte(test.was), &value)
			require.NoError(t, err)
			require.Equal(t, "a", value.Name)
			value.Name = "b"
			text, err := unknown.Encode(&value)
			require.NoError(t, err)
			assert.JSONEq(t, test.want, string(text))
		})
	}
}

func TestBrokenValueIsAnError(t *testing.T) {
	for _, broken := range []string{"", "{", `{"name":1}`, `{} {}`, "[]"} {
		_, err := format.Decode([]byte(broken), &stored{})
		require.Error(t, err, broken)
	}
}
