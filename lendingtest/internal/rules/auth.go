package rules

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/lendingapi/lending-go/internal/assumption"
	"github.com/lendingapi/lending-go/lendingtest/internal/book"
	"github.com/lendingapi/lending-go/lendingtest/record"
)

// user returns the service's FullApplicationUser.
func user(a *record.Account, t book.Token, requiresTwoFactor bool) any {
	return fields{
		"id": userID(a), "username": a.Username, "requiresTwoFactor": requiresTwoFactor, "token": t.Token,
		"expiresUTC": record.Timestamp{Time: t.Expires},
	}
}

// login answers with a token, or sends a code and says so.
func (c *Call) login() any {
	var req struct{ Username, Password, TrustedDeviceToken string }
	c.decodeRequired(&req)
	c.failed.require("username", req.Username != "")
	c.failed.require("password", req.Password != "")
	c.valid()
	a := c.Accounts[req.Username]
	c.concern(req.Username)
	if a == nil || a.Password != req.Password {
		refuse("InvalidCredentials", "The user name or password is wrong.")
	}
	trusted := req.TrustedDeviceToken != "" && req.TrustedDeviceToken == a.TrustedDeviceToken
	if !a.TwoFactor || trusted {
		return c.signedIn(a)
	}
	code := c.NewCode("two-factor")
	c.TwoFactor[a.Username] = &code
	c.Send(record.Sent{Kind: "two-factor", To: a.Username, Code: code.Value})
	c.Emit(book.Target{PartnerID: a.PartnerID}, "WB_Send_Two_Factor_Code", userID(a), map[string]any{"username": a.Username})
	return user(a, book.Token{}, true)
}

// validateTwoFactor completes a sign-in. A code works once only.
func (c *Call) validateTwoFactor() any {
	var req struct{ Username, Code string }
	c.decodeRequired(&req)
	c.failed.require("username", req.Username != "")
	c.failed.require("code", req.Code != "")
	c.valid()
	if !c.Accepts(c.TwoFactor[req.Username], req.Code) {
		refuse("InvalidTwoFactorCode", "The code is wrong, expired, used, or was tried too often.")
	}
	c.concern(req.Username)
	delete(c.TwoFactor, req.Username)
	return c.signedIn(c.Accounts[req.Username])
}

// refreshToken answers with a JSON string. The old token stays valid until it expires.
func (c *Call) refreshToken() any {
	c.concern(c.account.Username)
	if c.learned(assumption.Refresh, assumption.TokenGone) {
		delete(c.Tokens, TokenOf(c.Request))
	}
	return c.Issue(c.account.Username).Token
}

func (c *Call) signedIn(a *record.Account) any { return user(a, *c.Issue(a.Username), false) }

// userID returns the user id of sign-in responses. The id is not a token.
func userID(a *record.Account) string {
	d := sha256.Sum256([]byte(a.Username))
	return book.FormatID(1, book.Account, int(binary.BigEndian.Uint32(d[:])))
}
