//go:build unix

package transport_test

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http/httptrace"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/transport"
)

const (
	patience = 3500 * time.Millisecond // of the request that is late
	inFlight = 20
	frozen   = 140 // of which 70 have a place on the connection
)

const stoppedVariable = "LENDING_TEST_STOPPED" // the address of the service, and in the next variable its certificate

// TestStoppedProcessSendsNothing stops a process with SIGSTOP until the deadline of 140 requests is over: 70 have
// a shared connection and are about to be written, and the others wait for a place. The process goes on and
// writes none of them, on this connection or on another. It reads the responses to the requests that were written
// before.
func TestStoppedProcessSendsNothing(t *testing.T) {
	if address := os.Getenv(stoppedVariable); address != "" {
		sendStopped(t.Context(), address, os.Getenv(stoppedVariable+"_CA"))
		return
	}
	t.Parallel()
	s := serve(t, true)
	child := exec.Command(os.Args[0], "-test.run=^TestStoppedProcessSendsNothing$")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}
	child.Env = append(os.Environ(), stoppedVariable+"="+s.URL, stoppedVariable+"_CA="+string(pem.EncodeToMemory(block)))
	child.Stderr = os.Stderr
	input, err := child.StdinPipe()
	require.NoError(t, err)
	output, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	defer func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	}()
	lines := bufio.NewScanner(output)
	require.True(t, lines.Scan())
	require.Equal(t, "HTTP/2.0 1", lines.Text(), "the first request")
	for range inFlight {
		<-s.waiting
	}
	_, err = fmt.Fprintln(input, "all wait")
	require.NoError(t, err)
	require.True(t, lines.Scan())
	require.Equal(t, "connected", lines.Text())
	require.NoError(t, child.Process.Signal(syscall.SIGSTOP))
	_, err = syscall.Wait4(child.Process.Pid, nil, syscall.WUNTRACED, nil) // returns when the child stands
	require.NoError(t, err)
	<-time.After(patience)
	_, err = fmt.Fprintln(input, "go on")
	require.NoError(t, err)
	require.NoError(t, child.Process.Signal(syscall.SIGCONT))
	require.True(t, lines.Scan())
	assert.Equal(t, fmt.Sprint(frozen, " not sent"), lines.Text())
	close(s.goOn)
	require.True(t, lines.Scan())
	assert.Equal(t, fmt.Sprint(inFlight, " answered"), lines.Text())
	assert.EqualValues(t, 1, s.arrived.Load())
}

// sendStopped makes a request, then those in flight, and the frozen ones, which wait for a line when they have
// their connection.
func sendStopped(ctx context.Context, address, certificate string) {
	like := transport.New(nil)
	like.TLSClientConfig.RootCAs = x509.NewCertPool()
	like.TLSClientConfig.RootCAs.AppendCertsFromPEM([]byte(certificate))
	fresh := transport.NewFresh(like, true)
	text, _, err := post(ctx, fresh, address, false)
	if err != nil {
		text = err.Error()
	}
	_, _ = fmt.Fprintln(os.Stdout, text)
	var all, late sync.WaitGroup
	var answered, connected, notSent atomic.Int32
	for range inFlight {
		all.Go(func() {
			send := new(transport.Send).Start(ctx)
			defer send.End()
			if _, _, err := post(send, fresh, address+"/wait", false); err == nil {
				answered.Add(1)
			}
		})
	}
	input := bufio.NewReader(os.Stdin)
	_, _ = input.ReadString('\n')
	at := time.Now().Add(patience)
	goOn := make(chan struct{})
	for range frozen {
		late.Go(func() {
			send := new(transport.Send).Start(httptrace.WithClientTrace(lateTimer{ctx, at}, &httptrace.ClientTrace{
				GotConn: func(httptrace.GotConnInfo) { // net/http may open another connection after the stop
					if connected.Add(1) == 70 {
						_, _ = fmt.Fprintln(os.Stdout, "connected")
					}
					<-goOn
				},
			}))
			defer send.End()
			if _, _, err := post(send, fresh, address, false); err != nil && !send.Left() {
				notSent.Add(1)
			}
		})
	}
	_, _ = input.ReadString('\n')
	close(goOn)
	late.Wait()
	_, _ = fmt.Fprintln(os.Stdout, notSent.Load(), "not sent")
	all.Wait()
	_, _ = fmt.Fprintln(os.Stdout, answered.Load(), "answered")
}
