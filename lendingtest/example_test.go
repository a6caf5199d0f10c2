package lendingtest_test

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/lendingapi/lending-go/lendingtest"
)

// login signs in without a client library, and tells how that went.
func login(client *http.Client, base string) string {
	resp, err := client.Post(base+"/api/Authenication/login", "application/json",
		strings.NewReader(`{"username":"`+lendingtest.Username+`","password":"`+lendingtest.Password+`"}`))
	if err != nil {
		return "lost"
	}
	defer resp.Body.Close()
	return resp.Status
}

func Example() {
	s := lendingtest.NewServer()
	defer s.Close()
	// call s.URL as lendingtest.Username, with lendingtest.Password
	fmt.Println(login(s.Client(), s.URL))
	fmt.Println("code sent:", s.TwoFactorCode(lendingtest.Username))
	// Output:
	// 200 OK
	// code sent: 602799
}

// The answer is lost, but the login was executed: once, and nobody knows.
func ExampleService_Fail() {
	s := lendingtest.NewServer()
	defer s.Close()

	const route = "POST /api/Authenication/login"
	s.Fail(route, lendingtest.Fault{ResetAfter: true})
	fmt.Println(login(s.Client(), s.URL))
	fmt.Println("executed:", s.Executed(route))
	// Output:
	// lost
	// executed: 1
}

// Seed a loan, and look at what a caller did to it.
func ExampleService_AddLoan() {
	s := lendingtest.New()
	defer s.Close()

	loan := s.AddLoan(lendingtest.Loan{})
	s.AddTransactions(loan.ID, lendingtest.Transaction{Type: "Advance", Amount: 250_00})
	fmt.Println(loan.AvailableBalance, len(s.Snapshot().Loans[0].Transactions))
	// Output: 10000.00 1
}

// A watcher sees requests as they are answered.
func ExampleWithWatcher() {
	s := lendingtest.New(lendingtest.WithWatcher(func(r lendingtest.Request, _ bool) {
		fmt.Println(r.Status, r.Route)
	}))
	defer s.Close()

	fmt.Println(login(&http.Client{Transport: s.Transport()}, "https://lending.test"))
	// Output:
	// 200 POST /api/Authenication/login
	// 200 OK
}
