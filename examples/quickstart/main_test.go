package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/test/golden"
	"github.com/lendingapi/lending-go/lendingtest"
)

func nothingSet(string) string { return "" }

func TestOutput(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), nil, nothingSet, strings.NewReader(""), &out))
	golden.Check(t, "testdata/output.golden", out.String())
}

// The journey with a service that runs already. A person enters the code.
func TestRealService(t *testing.T) {
	service := lendingtest.NewServer()
	defer service.Close()
	environment := func(name string) string {
		return map[string]string{
			"LENDING_USERNAME": lendingtest.Username,
			"LENDING_PASSWORD": lendingtest.Password,
		}[name]
	}
	args := []string{"-base-url", service.URL, "-email", "grace@example.com"}

	t.Run("with the right code", func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), args, environment, typist(service), &out))
		assert.Contains(t, out.String(), "Enter the code:")
		assert.Contains(t, out.String(), "The service offers")
	})
	t.Run("without a code", func(t *testing.T) {
		err := run(t.Context(), args, environment, strings.NewReader("\n"), new(bytes.Buffer))
		assert.ErrorContains(t, err, "create-customer")
		assert.ErrorContains(t, err, "not sent")
	})
	t.Run("with the wrong code", func(t *testing.T) {
		err := run(t.Context(), args, environment, strings.NewReader("wrong-code\n"), new(bytes.Buffer))
		assert.ErrorContains(t, err, "validate-two-factor")
		assert.NotContains(t, err.Error(), "wrong-code")
	})
}

// typist types each code that the service sends.
func typist(service *lendingtest.Server) io.Reader {
	keyboard, typing := io.Pipe()
	service.Watch(func(e lendingtest.Event) {
		if e.Sent != nil {
			go func() { _, _ = io.WriteString(typing, e.Sent.Code+"\n") }()
		}
	})
	return keyboard
}

// An interrupt at the prompt ends the program at once, without waiting for a line.
func TestInterruptedAtThePrompt(t *testing.T) {
	service := lendingtest.NewServer()
	defer service.Close()
	ctx, cancel := context.WithCancel(t.Context())
	service.Watch(func(e lendingtest.Event) {
		if e.Sent != nil {
			cancel()
		}
	})
	environment := func(name string) string {
		return map[string]string{
			"LENDING_USERNAME": lendingtest.Username,
			"LENDING_PASSWORD": lendingtest.Password,
		}[name]
	}
	silence, _ := io.Pipe()
	err := run(ctx, []string{"-base-url", service.URL, "-email", "grace@example.com"}, environment, silence,
		new(bytes.Buffer))
	assert.ErrorIs(t, err, context.Canceled)
}

func TestSettings(t *testing.T) {
	for _, test := range []struct {
		name    string
		args    []string
		environ map[string]string
		want    string
	}{
		{"no e-mail", []string{"-base-url", "https://example.com"}, nil, "-email is not set"},
		{
			"no username",
			[]string{"-base-url", "https://example.com", "-email", "a@example.com"},
			nil,
			"LENDING_USERNAME is not set",
		},
		{
			"no password",
			[]string{"-base-url", "https://example.com", "-email", "a@example.com"},
			map[string]string{"LENDING_USERNAME": "u"},
			"LENDING_PASSWORD is not set",
		},
		{
			"not https",
			[]string{"-base-url", "http://example.com", "-email", "a@example.com"},
			map[string]string{"LENDING_USERNAME": "u", "LENDING_PASSWORD": "p"},
			"must use https",
		},
		{"no address", []string{"-email", "a@example.com"}, nil, "-base-url is not set"},
		{"no address, but a user", nil, map[string]string{"LENDING_USERNAME": "u"}, "-base-url is not set"},
		{"an argument", []string{"https://example.com"}, nil, "https://example.com"},
		{"unknown flag", []string{"-unknown"}, nil, "not defined: -unknown"},
	} {
		t.Run(test.name, func(t *testing.T) {
			getenv := func(name string) string { return test.environ[name] }
			err := run(t.Context(), test.args, getenv, strings.NewReader(""), new(bytes.Buffer))
			assert.ErrorContains(t, err, test.want)
		})
	}
}
