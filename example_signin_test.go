package lending_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
)

// A device that the service trusts is asked for no code.
func ExampleWithCredentials() {
	service := lendingtest.NewServer()
	defer service.Close()
	client, err := lending.New(service.URL, lending.WithCredentials(lending.Credentials{
		Username:           lendingtest.Username,
		Password:           lending.NewSecret(lendingtest.Password),
		TrustedDeviceToken: lending.NewSecret(lendingtest.TrustedDeviceToken),
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	err = client.Session().SignIn(context.Background()) // or whatever is called first
	fmt.Println("error:", err, "codes sent:", len(service.Sent()))
	// Output: error: <nil> codes sent: 0
}

// A token outlives the program that signed in.
func ExampleWithTokenStore() {
	service := lendingtest.NewServer()
	defer service.Close()
	directory, err := os.MkdirTemp("", "lending")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(directory)

	credentials := lending.Credentials{
		Username: lendingtest.Username,
		Password: lending.NewSecret(lendingtest.Password),
		TwoFactor: func(context.Context, lending.Challenge) (string, error) {
			return service.TwoFactorCode(lendingtest.Username), nil // a person reads it from a phone
		},
	}
	for range 3 { // runs of the program
		store, err := lending.NewFileTokenStore(filepath.Join(directory, "token"))
		if err != nil {
			fmt.Println(err)
			return
		}
		client, err := lending.New(service.URL, lending.WithCredentials(credentials), lending.WithTokenStore(store))
		if err != nil {
			fmt.Println(err)
			return
		}
		if err := client.Session().SignIn(context.Background()); err != nil {
			fmt.Println(err)
		}
		_ = client.Close()
	}
	fmt.Println("codes sent:", len(service.Sent()))
	// Output: codes sent: 1
}

// What lies in the file is of no use without the key.
func ExampleNewEncryptedTokenStore() {
	service := lendingtest.NewServer()
	defer service.Close()
	directory, err := os.MkdirTemp("", "lending")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(directory)

	path, key := filepath.Join(directory, "token"), make([]byte, 32)
	_, _ = rand.Read(key) // in its place: the key from where your secrets are kept
	file, err := lending.NewFileTokenStore(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	store, err := lending.NewEncryptedTokenStore(file, key)
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := lending.New(service.URL, lending.WithTokenStore(store), lending.WithCredentials(lending.Credentials{
		Username: lendingtest.AdministratorUsername, // has no second factor
		Password: lending.NewSecret(lendingtest.AdministratorPassword),
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	token, err := client.Session().Token(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	kept, err := os.ReadFile(path)
	fmt.Println("kept:", len(kept) > 0, "in the clear:", bytes.Contains(kept, []byte(token.Value.Reveal())), err)
	// Output: kept: true in the clear: false <nil>
}

// Where nobody can be asked while a call is under way, the code comes later: in another
// request, which can be served by another process if both share a [lending.TokenStore].
func ExampleSession_CompleteTwoFactor() {
	service := lendingtest.NewServer()
	defer service.Close()
	client, err := lending.New(service.URL, lending.WithCredentials(lending.Credentials{
		Username: lendingtest.Username,
		Password: lending.NewSecret(lendingtest.Password),
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	var required *lending.TwoFactorRequiredError
	if err := client.Session().SignIn(context.Background()); !errors.As(err, &required) {
		fmt.Println(err)
		return
	}
	fmt.Println(required)
	kept, err := json.Marshal(required.Challenge) // it holds no secret
	if err != nil {
		fmt.Println(err)
		return
	}

	var challenge lending.Challenge
	if err := json.Unmarshal(kept, &challenge); err != nil {
		fmt.Println(err)
		return
	}
	code := service.TwoFactorCode(lendingtest.Username) // that a person has entered
	err = client.Session().CompleteTwoFactor(context.Background(), challenge, code)
	fmt.Println("signed in:", err == nil)
	// Output:
	// lending: sign-in required: the service has sent a two-factor code
	// signed in: true
}

// An oauth2.TokenSource of golang.org/x/oauth2 becomes a [lending.TokenSource] in a few
// lines; the types here have the shape of the ones there.
func ExampleTokenSource_oauth2() {
	service := lendingtest.NewServer()
	defer service.Close()
	source := oauthFunc(func() (*oauthToken, error) {
		return &oauthToken{AccessToken: service.Token(lendingtest.Username), Expiry: time.Now().Add(time.Hour)}, nil
	})
	client, err := lending.New(service.URL, lending.WithTokenSource(fromOAuth2{source}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	_, err = client.Applications.ListByCustomer(context.Background(), lending.CustomerID(uuid.New()))
	fmt.Println("not found:", errors.Is(err, lending.ErrNotFound))
	// Output: not found: true
}

type (
	oauthToken struct {
		AccessToken string
		Expiry      time.Time
	}
	oauthSource interface{ Token() (*oauthToken, error) }
	oauthFunc   func() (*oauthToken, error)
)

func (f oauthFunc) Token() (*oauthToken, error) { return f() }

// fromOAuth2 is the adapter. Give it an oauth2.ReuseTokenSource, which keeps a token.
type fromOAuth2 struct{ source oauthSource }

func (f fromOAuth2) Token(context.Context) (lending.Token, error) {
	token, err := f.source.Token()
	if err != nil {
		return lending.Token{}, err
	}
	return lending.Token{Value: lending.NewSecret(token.AccessToken), Expires: token.Expiry}, nil
}
