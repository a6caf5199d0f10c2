package lendingtest

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// idKind is the second group of an identifier, so that a reader of a log sees when identifiers
// are mixed up.
type idKind int

const (
	kindCustomer idKind = iota + 1
	kindApplication
	kindOffer
	kindLoan
	kindApplicant
	kindContract
	kindRequirement
	kindDocument
	kindTransaction
	kindWithdrawal
	kindMessage
	kindSubscription
	kindAccount
	kindSent
	kindCorrelation
)

// newID returns the next identifier of a kind, a valid UUID. Runs with the same calls get the
// same identifiers. It needs s.mu.
func (s *Service) newID(k idKind) string {
	s.sequences[k]++
	return formatID(s.cfg.seed, k, s.sequences[k])
}

func formatID(seed uint32, k idKind, n int) string {
	return fmt.Sprintf("%08x-%04x-4000-8000-%012x", seed, int(k), n)
}

// digest derives values that look random but are repeatable: tokens, codes and secrets. It needs
// s.mu.
func (s *Service) digest(purpose string) [sha256.Size]byte {
	s.codes++
	return sha256.Sum256(fmt.Appendf(nil, "%s %d %d", purpose, s.cfg.seed, s.codes))
}

// newCode returns six digits that expire after five minutes or five tries.
func (s *Service) newCode(purpose string) *oneTimeCode {
	d := s.digest(purpose)
	n := binary.BigEndian.Uint32(d[:]) % 1_000_000
	return &oneTimeCode{Value: fmt.Sprintf("%06d", n), Expires: s.now().Add(5 * time.Minute), Tries: 5}
}

type oneTimeCode struct {
	Value   string    `json:"value"`
	Expires time.Time `json:"expires"`
	Tries   int       `json:"tries"` // remaining tries
}

// accepts counts a try. After the last try even the right code is rejected.
func (c *oneTimeCode) accepts(code string, now time.Time) bool {
	if c == nil || c.Tries == 0 || !now.Before(c.Expires) {
		return false
	}
	c.Tries--
	return code == c.Value
}

const zeroID = "00000000-0000-0000-0000-000000000000"

var uuidForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// parseID returns a UUID in lower case, and false for any other text and for the all-zero UUID.
func parseID(s string) (string, bool) {
	s = strings.ToLower(s)
	return s, uuidForm.MatchString(s) && s != zeroID
}
