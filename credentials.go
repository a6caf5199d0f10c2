package lending

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"

	"github.com/lendingapi/lending-go/internal/safely"
)

// login is a user and a password. Only values that fmt cannot reach hold one.
type login struct{ username, password string }

// present returns the user and the password of the next sign-in.
func (s *session) present(ctx context.Context) (present login, err error) {
	if s.credentials.Current == nil {
		return login{s.credentials.Username, s.credentials.Password.Reveal()}, nil
	}
	err = safely.Call[PanicError](func() error {
		username, password, err := s.credentials.Current(ctx)
		present = login{username, password.Reveal()}
		return err
	})
	if err != nil {
		return login{}, &signInError{text: cmp.Or(interruption(err), textCurrent), cause: hide(err), mild: true}
	}
	return present, nil
}

// by tells a login from others in the [TokenStore]. It is a byte of a hash: enough to tell an old
// password from a new one nearly always, and too little to guess a password with.
func (s *session) by(l login) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", []string{s.account, l.username, l.password}))
	return hex.EncodeToString(sum[:1])
}

// presentBy is by for the present login, or empty if Current fails.
func (s *session) presentBy(ctx context.Context) string {
	present, err := s.present(ctx)
	if err != nil {
		return ""
	}
	return s.by(present)
}

// rejectedLogins are the logins that the service has rejected, the last 16.
type rejectedLogins struct {
	mu     sync.Mutex
	logins []login
}

func (r *rejectedLogins) has(l login) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.logins, l)
}

func (r *rejectedLogins) add(l login) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logins = append(r.logins[max(0, len(r.logins)-15):], l)
}

func (r *rejectedLogins) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logins = nil
}
