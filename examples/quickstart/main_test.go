package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/test/golden"
	"github.com/lendingapi/lending-go/lendingtest"
)

func TestOutput(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), "", "", environment(nil), strings.NewReader(""), &out))
	golden.Check(t, "testdata/output.golden", out.String())
}

func environment(variables map[string]string) func(string) string {
	return func(name string) string { return variables[name] }
}

// The journey with a running service. A person enters the code.
func TestRealService(t *testing.T) {
	service := lendingtest.NewServer()
	defer service.Close()
	account := environment(map[string]string{
		"LENDING_USERNAME": lendingtest.Username, "LENDING_PASSWORD": lendingtest.Password,
	})
	const email = "grace@example.com"

	t.Run("with the right code", func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), service.URL, email, account, typist(service), &out))
		assert.Contains(t, out.String(), "Enter the code:")
		assert.Contains(t, out.String(), "The service offers")
	})
	t.Run("without a code", func(t *testing.T) {
		err := run(t.Context(), service.URL, email, account, strings.NewReader("\n"), new(bytes.Buffer))
		assert.ErrorContains(t, err, "create-customer")
		assert.ErrorContains(t, err, "not sent")
	})
	t.Run("with the wrong code", func(t *testing.T) {
		err := run(t.Context(), service.URL, email, account, strings.NewReader("wrong-code\n"), new(bytes.Buffer))
		assert.ErrorContains(t, err, "validate-two-factor")
		assert.NotContains(t, err.Error(), "wrong-code")
	})
}

// typist types each code of the service.
func typist(service *lendingtest.Server) io.Reader {
	keyboard, typing := io.Pipe()
	service.Watch(func(e lendingtest.Event) {
		if e.Sent != nil {
			go func() { _, _ = io.WriteString(typing, e.Sent.Code+"\n") }()
		}
	})
	return keyboard
}

func TestSettings(t *testing.T) {
	account := environment(map[string]string{"LENDING_USERNAME": "u", "LENDING_PASSWORD": "p"})
	for _, test := range []struct {
		name, address, email string
		account              func(string) string
		want                 string
	}{
		{"no e-mail", "https://example.com", "", account, "a real service needs"},
		{"no address", "", "a@example.com", account, "a real service needs"},
		{"no account", "https://example.com", "a@example.com", environment(nil), "a real service needs"},
		{"not https", "http://example.com", "a@example.com", account, "must use https"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := run(t.Context(), test.address, test.email, test.account, strings.NewReader(""), new(bytes.Buffer))
			assert.ErrorContains(t, err, test.want)
		})
	}
}
