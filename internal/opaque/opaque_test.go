package opaque_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/opaque"
)

func TestHide(t *testing.T) {
	type held struct{ text string }
	shell := struct {
		state opaque.Value[held]
		live  opaque.Value[*held]
	}{opaque.Hide(held{"SHHH"}), opaque.Hide(&held{"SHHH"})}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%t"} {
		t.Run(verb, func(t *testing.T) {
			require.NotContains(t, fmt.Sprintf(verb, shell), "SHHH")
			require.NotContains(t, fmt.Sprintf(verb, &shell), "SHHH")
			require.NotContains(t, fmt.Sprintf(verb, shell), "53484848")
		})
	}
	require.Equal(t, "SHHH", shell.state().text)
	require.Equal(t, "SHHH", shell.live().text)
}
