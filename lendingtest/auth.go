package lendingtest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"slices"
	"time"
)

// session is the meaning of a token.
type session struct {
	Token    string    `json:"token"`
	Username string    `json:"username"`
	Expires  time.Time `json:"expires"`
	Revoked  bool      `json:"revoked"`
}

// authenticate finds the caller's account. It needs s.mu.
func (c *call) authenticate() error {
	token := tokenOf(c.r)
	session := c.tokens[token]
	if session != nil {
		defer c.onTimeOf(session.Username)()
	}
	switch {
	case token == "":
		return unauthorized("TokenMissing", "Bearer", "A bearer token is required.")
	case session == nil, session.Revoked:
		return unauthorized("TokenInvalid", `Bearer error="invalid_token"`, "The bearer token is not valid.")
	case !c.now().Before(session.Expires):
		return unauthorized("TokenExpired", `Bearer error="invalid_token", error_description="The token expired"`, "The bearer token has expired.")
	}
	c.account = c.accounts[session.Username]
	c.entry.Username = session.Username
	return nil
}

func unauthorized(code, challenge, detail string) *problem {
	p := problemOf(http.StatusUnauthorized, code, detail)
	p.authenticate = challenge
	return p
}

// user is the service's FullApplicationUser.
type user struct {
	ID                string    `json:"id"`
	Username          string    `json:"username"`
	RequiresTwoFactor bool      `json:"requiresTwoFactor"`
	Token             string    `json:"token"`
	ExpiresUTC        Timestamp `json:"expiresUTC"`
}

// login answers with a token, or sends a code and says so.
func (c *call) login() (any, error) {
	var req struct {
		Username, Password string
		TrustedDeviceToken string
	}
	if err := c.decodeRequired(&req); err != nil {
		return nil, err
	}
	if err := requireTexts("username", req.Username, "password", req.Password); err != nil {
		return nil, err
	}
	a := c.accounts[req.Username]
	c.concern(req.Username)
	if a == nil || a.Password != req.Password {
		return nil, refuse("InvalidCredentials", "The user name or password is wrong.")
	}
	trusted := req.TrustedDeviceToken != "" && req.TrustedDeviceToken == a.TrustedDeviceToken
	if a.TwoFactor && !trusted {
		code := c.newCode("two-factor")
		c.twoFactor[a.Username] = code
		c.message(Sent{Kind: "two-factor", To: a.Username, Code: code.Value})
		c.emit(target{partnerID: a.PartnerID}, "WB_Send_Two_Factor_Code", a.userID(), map[string]any{"username": a.Username})
		return user{ID: a.userID(), Username: a.Username, RequiresTwoFactor: true}, nil
	}
	return c.signedIn(a), nil
}

// validateTwoFactor completes a sign-in. A code works once only.
func (c *call) validateTwoFactor() (any, error) {
	var req struct{ Username, Code string }
	if err := c.decodeRequired(&req); err != nil {
		return nil, err
	}
	if err := requireTexts("username", req.Username, "code", req.Code); err != nil {
		return nil, err
	}
	if !c.twoFactor[req.Username].accepts(req.Code, c.now()) {
		return nil, refuse("InvalidTwoFactorCode", "The code is wrong, expired, used, or was tried too often.")
	}
	c.concern(req.Username)
	delete(c.twoFactor, req.Username)
	return c.signedIn(c.accounts[req.Username]), nil
}

// refreshToken answers with a JSON string. The old token stays valid until it expires.
func (c *call) refreshToken() (any, error) {
	c.concern(c.account.Username)
	token, _ := c.issue(c.account.Username)
	return token, nil
}

func (c *call) signedIn(a *Account) user {
	token, expires := c.issue(a.Username)
	return user{ID: a.userID(), Username: a.Username, Token: token, ExpiresUTC: Timestamp{expires}}
}

// issue makes a token. It needs s.mu.
func (s *Service) issue(username string) (token string, expires time.Time) {
	d := s.digest("token")
	token = base64.RawURLEncoding.EncodeToString(d[:])
	expires = s.now().Add(s.cfg.tokenLifetime)
	s.sweepTokens()
	s.tokens[token] = &session{Token: token, Username: username, Expires: expires}
	return token, expires
}

// userID returns the user id of sign-in responses. The id is not a token.
func (a *Account) userID() string {
	d := sha256.Sum256([]byte(a.Username))
	return formatID(1, kindAccount, int(binary.BigEndian.Uint32(d[:])))
}

// Token returns a new token for an account without a sign-in. Token panics if the user name is
// unknown.
func (s *Service) Token(username string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mustAccount(username)
	defer s.onTimeOf(username)()
	token, _ := s.issue(username)
	return token
}

// SetTokenLifetime sets the lifetime of tokens issued from now on.
func (s *Service) SetTokenLifetime(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.tokenLifetime = d
}

// ExpireTokens makes the tokens of these users expire now, or all tokens if no user is given.
func (s *Service) ExpireTokens(usernames ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tokens {
		if len(usernames) == 0 || slices.Contains(usernames, t.Username) {
			t.Expires = time.Time{}
		}
	}
}

// RevokeTokens invalidates all tokens issued so far.
func (s *Service) RevokeTokens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tokens {
		t.Revoked = true
	}
}
