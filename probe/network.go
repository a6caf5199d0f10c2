package probe

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/assumption"
	"github.com/lendingapi/lending-go/internal/backoff"
)

// pause is the time after which an idle connection should still be open.
const pause = 2 * time.Second

// network measures the connection and the gateway with requests that need no token.
func (p *prober) network(ctx context.Context) error {
	p.t.Logf("Reading a path that does not exist, three times.")
	client := http.Client{Transport: http.DefaultTransport, Timeout: p.o.LagLimit}
	if p.o.HTTPClient != nil {
		client.Transport = p.o.HTTPClient.Transport
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	fresh := []bool{}
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { fresh = append(fresh, !info.Reused) }}
	for try := range 3 {
		if try == 2 && (p.o.LagLimit < pause || !wait(ctx, pause)) {
			break
		}
		address := strings.TrimSuffix(p.o.BaseURL, "/") + "/api/Probe/get-nothing"
		request, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), http.MethodGet, address, http.NoBody)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			p.unseen(assumption.Gateway, "a request without a token failed")
			return nil //nolint:nilerr // the probe can go on
		}
		body, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20))
		_ = response.Body.Close()
		p.fact("protocol", response.Proto)
		p.fact(assumption.Gateway, form(lending.Response{StatusCode: response.StatusCode, Header: response.Header, Body: body}, nil))
		p.fact(assumption.Clock, "no Date")
		if at, err := http.ParseTime(response.Header.Get("Date")); err == nil {
			p.fact(assumption.Clock, ceiling(max(0, time.Since(at).Abs()-2*time.Second)))
		}
	}
	for try, subject := range map[int]string{1: assumption.InARow, 2: assumption.AfterPause} {
		if try < len(fresh) {
			p.fact(assumption.KeepAlive+": "+subject, either(fresh[try], assumption.NewConnection, assumption.SameConnection))
		}
	}
	return nil
}

func (p *prober) session(ctx context.Context, token lending.Token) {
	p.fact(assumption.TokenLife, "not told")
	if !token.Expires.IsZero() {
		p.fact(assumption.TokenLife, ceiling(time.Until(token.Expires).Round(time.Minute)))
	}
	p.t.Logf("Reading with a random token.")
	p.fact(assumption.TokenRefused, p.withToken(ctx, lending.StaticToken(uuid.NewString())))
	p.t.Logf("Refreshing the token, and reading with the old one.")
	if _, err := p.client.Auth.RefreshToken(ctx); err != nil {
		p.unseen(assumption.Refresh, reason(err))
		return
	}
	p.fact(assumption.Refresh, either(p.withToken(ctx, lending.StaticToken(token.Value.Reveal())) == "401", assumption.TokenGone, assumption.TokenValid))
}

func (p *prober) withToken(ctx context.Context, source lending.TokenSource) string {
	other, err := lending.New(p.o.BaseURL, p.options(lending.WithTokenSource(source))...)
	if err != nil {
		return "no client"
	}
	defer other.Close()
	var r lending.Response
	_, _ = other.Loans.Get(lending.CaptureResponse(ctx, &r), lending.LoanID(uuid.New()))
	return fmt.Sprint(r.StatusCode)
}

func wait(ctx context.Context, d time.Duration) bool {
	return backoff.Sleep(ctx, d) == nil
}

// until calls seen until it returns true, and returns the time until then in whole seconds: 0 if
// the first call did. It gives up after the lag limit.
func (p *prober) until(ctx context.Context, seen func() bool) (time.Duration, bool) {
	start, next := time.Now(), 100*time.Millisecond
	for told := start; ; next = min(time.Second, next*3/2) {
		at := time.Since(start)
		if seen() {
			return (at + time.Second - 50*time.Millisecond).Truncate(time.Second), true // 50 ms are the first call's
		}
		if time.Since(start) > p.o.LagLimit || !wait(ctx, next) {
			return 0, false
		}
		if time.Since(told) > 10*time.Second {
			told = time.Now()
			p.t.Logf("  still waiting, for at most %s", p.o.LagLimit)
		}
	}
}
