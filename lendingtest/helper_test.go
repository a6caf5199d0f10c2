package lendingtest_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/test/leak"
	"github.com/lendingapi/lending-go/lendingtest"
)

func TestMain(m *testing.M) { leak.Main(m) }

// must is for what cannot fail: the service writes its ids as UUIDs.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// rig calls a service without sockets, signed in as the partner.
type rig struct {
	*lendingtest.Service
	t      *testing.T
	client *http.Client
	base   string
	token  string
	header http.Header // of every request, over the usual ones
	before func()      // each request, if set
	watch  func(r lendingtest.Request, late bool)
	ctx    context.Context
}

func newRig(t *testing.T, opts ...lendingtest.Option) *rig {
	t.Helper()
	r := &rig{t: t, base: "https://lending.test", header: http.Header{}, watch: func(lendingtest.Request, bool) {}}
	r.Service = lendingtest.New(r.watched(opts)...)
	t.Cleanup(r.Close)
	r.client, r.token = &http.Client{Transport: r.Transport()}, r.Token(lendingtest.Username)
	return r
}

func (r *rig) watched(opts []lendingtest.Option) []lendingtest.Option {
	return append(opts, lendingtest.WithWatcher(func(row lendingtest.Request, late bool) { r.watch(row, late) }))
}

// serverRig calls a service on a socket.
func serverRig(t *testing.T, opts ...lendingtest.Option) *rig {
	t.Helper()
	r := &rig{t: t, header: http.Header{}, watch: func(lendingtest.Request, bool) {}}
	s := lendingtest.NewServer(r.watched(opts)...)
	t.Cleanup(s.Close)
	r.Service, r.base, r.client, r.token = s.Service, s.URL, s.Client(), s.Token(lendingtest.Username)
	return r
}

// flood asks for 200 applications of a customer, 20 at once.
func (r *rig) flood(customer string) {
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for range 10 {
				assert.NoError(r.t, r.post("/api/Application/create-application", `{"customerId":"`+customer+`"}`).err)
			}
		})
	}
	all.Wait()
}

type reply struct {
	t      *testing.T
	status int
	header http.Header
	body   string
	err    error // of the call, or of reading the body
}

// expireOffer makes the offer of an application expire now.
func (r *rig) expireOffer(id string) {
	r.UpdateApplication(id, func(a *lendingtest.Application) { a.Offer.ExpiresUTC.Time = r.Now() })
}

func (r *rig) send(method, path string, body io.Reader) reply {
	r.t.Helper()
	if r.before != nil {
		r.before()
	}
	ctx := r.ctx
	if ctx == nil {
		ctx = r.t.Context()
	}
	req, err := http.NewRequestWithContext(ctx, method, r.base+path, body)
	require.NoError(r.t, err)
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	maps.Copy(req.Header, r.header)
	resp, err := r.client.Do(req)
	if err != nil {
		return reply{t: r.t, err: err}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return reply{t: r.t, status: resp.StatusCode, header: resp.Header, body: string(b), err: err}
}

func (r *rig) get(path string) reply { r.t.Helper(); return r.send(http.MethodGet, path, nil) }

// raw sends text over a connection. It returns the status, whether the response announces the end of the connection,
// and the rest of the connection.
func (r *rig) raw(text string) (status int, closes bool, rest io.Reader) {
	r.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(r.t.Context(), "tcp", strings.TrimPrefix(r.base, "http://"))
	require.NoError(r.t, err)
	r.t.Cleanup(func() { conn.Close() })
	require.NoError(r.t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = io.WriteString(conn, text)
	require.NoError(r.t, err)
	in := bufio.NewReader(conn)
	response, err := http.ReadResponse(in, nil)
	require.NoError(r.t, err)
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(r.t, err)
	return response.StatusCode, response.Close, in
}

// post sends body, JSON text, or no body for "".
func (r *rig) post(path, body string) reply {
	r.t.Helper()
	if body == "" {
		return r.send(http.MethodPost, path, nil)
	}
	return r.send(http.MethodPost, path, strings.NewReader(body))
}

// as returns the same service seen by another account.
func (r *rig) as(username string) *rig {
	other := *r
	other.token = ""
	if username != "" {
		other.token = r.Token(username)
	}
	return &other
}

// within returns the same service seen by a caller with this context.
func (r *rig) within(ctx context.Context) *rig {
	other := *r
	other.ctx = ctx
	return &other
}

// ok wants 200 and returns the body.
func (r reply) ok() string {
	r.t.Helper()
	require.NoError(r.t, r.err)
	require.Equal(r.t, http.StatusOK, r.status, r.body)
	return r.body
}

// text wants 200 and one JSON string.
func (r reply) text() (s string) {
	r.t.Helper()
	require.NoError(r.t, json.Unmarshal([]byte(r.ok()), &s), r.body)
	return s
}

// object wants 200 and a JSON object.
func (r reply) object() (m map[string]any) {
	r.t.Helper()
	require.NoError(r.t, json.Unmarshal([]byte(r.ok()), &m), r.body)
	return m
}

// list wants 200 and an array of objects.
func (r reply) list() (l []map[string]any) {
	r.t.Helper()
	require.NoError(r.t, json.Unmarshal([]byte(r.ok()), &l), r.body)
	return l
}

// shown returns status, content type and body.
func (r reply) shown() string {
	r.t.Helper()
	require.NoError(r.t, r.err)
	return fmt.Sprint(r.status, " ", r.header.Get("Content-Type"), " ", r.body)
}

type problem struct {
	Status                                                            int
	Title, Detail, Instance, TraceID, CorrelationID, ErrorCode, Extra string
	Errors                                                            []fieldError
}

type fieldError struct{ Field, Message, Code string }

// refused wants a complete problem record of a status and errorCode, and the
// fields it names: "field code".
func (r reply) refused(status int, code string, fields ...string) problem {
	r.t.Helper()
	require.NoError(r.t, r.err)
	require.Equal(r.t, status, r.status, r.body)
	require.Equal(r.t, "application/json; charset=utf-8", r.header.Get("Content-Type"))
	d := json.NewDecoder(strings.NewReader(r.body))
	d.DisallowUnknownFields()
	var p problem
	require.NoError(r.t, d.Decode(&p), r.body)
	require.Equal(r.t, status, p.Status)
	require.Equal(r.t, code, p.ErrorCode, r.body)
	for _, text := range []string{p.Title, p.Detail, p.Instance, p.TraceID, p.CorrelationID} {
		require.NotEmpty(r.t, text, r.body)
	}
	require.Equal(r.t, status == http.StatusUnauthorized, strings.HasPrefix(r.header.Get("WWW-Authenticate"), "Bearer"))
	require.Contains(r.t, r.body, `"errors":[`)
	var named []string
	for _, e := range p.Errors {
		require.NotEmpty(r.t, e.Message)
		named = append(named, e.Field+" "+e.Code)
	}
	require.Equal(r.t, fields, named)
	return p
}

const (
	ann = `{"firstName":"Ann","lastName":"Lee","email":"ann@example.com","password":"Secret-12",` +
		`"mobileNumber":"(555) 010-0199"}`
	// Some bank data that an offer can be made of.
	bankData = `{"accounts":[{"accountNumber":"000123","accountName":"Operating","balance":"1200.50",
		"transactions":[{"date":"2024-01-02","description":"Card sales","amount":"23450.75"},
		{"date":"2024-01-03","description":"Rent","amount":"-2000.00"}]}]}`
	signatures = `{"ipAddress":"192.0.2.1","mimeType":"image/png","signature":"iVBORw==","signature2":"iVBORw=="}`
	unknownID  = "99999999-9999-4999-8999-999999999999"
)

func (r *rig) customer() string {
	r.t.Helper()
	return r.post("/api/Application/create-customer", ann).object()["id"].(string)
}

// application creates one, for the customer or a new one.
func (r *rig) application() string {
	r.t.Helper()
	id := r.AddCustomer(lendingtest.Customer{}).ID
	return r.post("/api/Application/create-application", `{"customerId":"`+id+
		`","businessName":"Lee & Co","businessZip":"10001"}`).text()
}

// offered takes an application to its offer.
func (r *rig) offered() string {
	r.t.Helper()
	id := r.application()
	r.post("/api/Application/add-or-update-banking-data/"+id, bankData).ok()
	r.get("/api/Application/process-application/" + id).text()
	return id
}

const approval = "/api/ApplicationApproval/"

// approved takes an application to where it can be signed.
func (r *rig) approved() (id, applicantID string) {
	r.t.Helper()
	id = r.offered()
	r.post(approval+"add-company-details/"+id, `{"taxId":"12-3456789"}`).ok()
	r.post(approval+"add-primary-applicant-details/"+id, `{"firstName":"Ann","lastName":"Lee"}`).ok()
	account := r.get(approval + "get-all-bank-accounts/" + id).list()[0]["id"].(string)
	r.post(approval+"set-primary-bank-account/"+id+"/"+account, "").ok()
	return id, r.get(approval + "get-all-applicants/" + id).list()[0]["id"].(string)
}

// borrowed takes an application to a loan.
func (r *rig) borrowed() lendingtest.Loan {
	r.t.Helper()
	id, applicant := r.approved()
	r.post(approval+"sign-contract/"+id+"/"+applicant, signatures).ok()
	loans := r.Snapshot().Loans
	require.Equal(r.t, id, loans[len(loans)-1].ApplicationID)
	return loans[len(loans)-1]
}

func closeLoan(l *lendingtest.Loan) { l.IsClosed = true }

const invoice = `{"amount":2500.00,"percentOfIncome":10,"terms":6,"fixedRepaymentCalculation":true}`

// withdrawing starts an invoice withdrawal of 2500.00.
func (r *rig) withdrawing() lendingtest.Loan {
	r.t.Helper()
	loan := r.borrowed()
	r.post("/api/Calculation/application-invoice-calculation?applicationId="+loan.ApplicationID, invoice).ok()
	r.post("/api/Loan/make-withdrawal-invoice/"+loan.ID, `{"calculation":`+invoice+`}`).ok()
	return loan
}

func confirmation(amount, rate, otp string) string {
	return `{"amount":` + amount + `,"advanceRate":` + rate + `,"dateUTC":"2024-02-03T00:00:00Z","otp":"` + otp + `"}`
}

// file is an upload body of n bytes.
func file(n int) string {
	return `"` + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("x"), n)) + `"`
}

// oversized is an upload of one byte too many.
var oversized = sync.OnceValue(func() string { return file(15<<20 + 1) })
