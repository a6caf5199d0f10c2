package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lendingapi/lending-go/internal/test/leak"
	"github.com/lendingapi/lending-go/lendingtest"
)

// processRole is the variable that tells the test's own program which process to be, so that no
// test builds the sandbox.
const processRole = "SANDBOX_PROCESS"

func TestMain(m *testing.M) {
	role := os.Getenv(processRole)
	if role == "" {
		leak.Main(m)
	}
	if err := play(role, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func play(role string, args []string) error {
	if role == "caller" {
		return callSteadily(args[0], args[1], args[2], os.Stdout)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return run(ctx, args, os.Stdout)
}

// traffic is what a caller has seen.
type traffic struct {
	Answered, Failed int
	Slowest          time.Duration
}

// callSteadily makes 167 requests a second, of which few create something and a fifth have
// a body of 40 KB, and prints what it has seen.
func callSteadily(url, application, lasting string, out io.Writer) error {
	d, err := time.ParseDuration(lasting)
	if err != nil {
		return err
	}
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 50}}
	var user struct{ Token string }
	if err := send(client, "", http.MethodPost, url+"/api/Authenication/login",
		`{"username":"`+lendingtest.Username+`","password":"`+lendingtest.Password+`"`+device+`}`, &user); err != nil {
		return err
	}
	file, text := `"`+strings.Repeat("QUJD", 10_000)+`"`, `{"text":"`+strings.Repeat("x", 40_000)+`"}`
	var mu sync.Mutex
	var seen traffic
	var requests sync.WaitGroup
	begin := time.Now()
	for i := 0; ; i++ {
		method, path, body := http.MethodGet, "/api/Application/application-status/"+application, ""
		switch {
		case i%50 == 7:
			method, path, body = http.MethodPost, "/api/Application/create-customer",
				fmt.Sprintf(`{"firstName":"A","lastName":"B","email":"%d.%d@example.com",`+
					`"password":"Analytical-Engine-1","mobileNumber":"4155550100"}`, os.Getpid(), i)
		case i%10 == 3:
			method, path, body = http.MethodPost, "/api/Application/submit-bankstatement-document/"+application+
				"?fileName=a.pdf", file
		case i%10 == 5:
			method, path, body = http.MethodPost, "/api/Webhook/handler", text
		case i%10 == 9:
			method, path, body = http.MethodPost, "/api/Authenication/login",
				`{"username":"`+lendingtest.Username+`","password":"`+lendingtest.Password+`"`+device+`}`
		}
		requests.Go(func() {
			start := time.Now()
			err := send(client, user.Token, method, url+path, body, nil)
			mu.Lock()
			defer mu.Unlock()
			if seen.Answered++; err != nil {
				seen.Failed++
				fmt.Fprintln(os.Stderr, err)
			}
			seen.Slowest = max(seen.Slowest, time.Since(start))
		})
		due := begin.Add(time.Duration(i+1) * time.Second * 3 / 500)
		if due.Sub(begin) >= d {
			requests.Wait()
			return json.NewEncoder(out).Encode(seen)
		}
		<-time.After(time.Until(due)) // what is late is made up for
	}
}

func send(client *http.Client, token, method, url, body string, result any) error {
	req, err := http.NewRequestWithContext(context.Background(), method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status + ": " + string(bytes.TrimSpace(answer)))
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(answer, result)
}
