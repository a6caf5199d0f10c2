//go:build unix

package signin_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
)

// A process that stood still past the expiry of its token, as under SIGSTOP or on a
// paused machine, gives out none that has expired: not in the instant in which it goes on.
func TestFrozenProcess(t *testing.T) {
	const address = "LENDING_TEST_FROZEN"
	if url := os.Getenv(address); url != "" {
		takeTokensUntilFrozen(url)
		return
	}
	t.Parallel()
	const life = 2 * time.Second
	service := lendingtest.NewServer(lendingtest.WithTokenLifetime(life))
	defer service.Close()
	child := exec.Command(os.Args[0], "-test.run=^TestFrozenProcess$")
	child.Env = append(os.Environ(), address+"="+service.URL)
	child.Stderr = os.Stderr
	output, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	defer func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	}()
	lines := bufio.NewScanner(output)
	require.True(t, lines.Scan())
	require.Equal(t, "ready", lines.Text())
	require.NoError(t, child.Process.Signal(syscall.SIGSTOP))
	_, err = syscall.Wait4(child.Process.Pid, nil, syscall.WUNTRACED, nil) // returns when the child stands
	require.NoError(t, err)
	<-time.After(life + 10*time.Millisecond)
	require.NoError(t, child.Process.Signal(syscall.SIGCONT))
	require.True(t, lines.Scan())
	assert.Equal(t, "valid", lines.Text())
	for lines.Scan() && lines.Text() != "PASS" {
		assert.Equal(t, "valid", lines.Text())
	}
}

// takeTokensUntilFrozen asks for tokens without a pause, in several threads of which one
// goes on before any timer does, and says whether what each got after the stop was valid.
func takeTokensUntilFrozen(url string) {
	const threads = 8
	runtime.GOMAXPROCS(threads)
	client, err := lending.New(url, lending.WithCredentials(lending.Credentials{
		Username: lendingtest.AdministratorUsername, Password: lending.NewSecret(lendingtest.AdministratorPassword),
	}))
	if err != nil {
		panic(err)
	}
	defer client.Close()
	if err := client.Session().SignIn(context.Background()); err != nil {
		panic(err)
	}
	var over atomic.Bool
	said := make(chan string, threads)
	var begun sync.WaitGroup
	begun.Add(threads)
	for range threads {
		go func() {
			begun.Done()
			said <- takeTokenAfterStop(client.Session(), &over)
		}()
	}
	begun.Wait()
	fmt.Fprintln(os.Stdout, "ready")
	for range threads {
		if one := <-said; one != "" {
			fmt.Fprintln(os.Stdout, one)
		}
	}
}

// takeTokenAfterStop says nothing if another thread went on before this one had begun.
func takeTokenAfterStop(session *lending.Session, over *atomic.Bool) string {
	for before := time.Now(); !over.Load(); {
		now := time.Now()
		token, err := session.Token(context.Background())
		switch gap := now.Sub(before); {
		case err != nil:
			over.Store(true)
			return err.Error()
		case now.After(token.Expires):
			over.Store(true)
			return "expired"
		case gap > 2*time.Second:
			over.Store(true)
			return "valid"
		}
		before = now
	}
	return ""
}
