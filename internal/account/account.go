// Package account identifies the account of a client as a hash, which names nobody.
package account

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
)

// Of returns the account of an owner at the service with the base URL. Without an owner only the
// service is known.
func Of(base *url.URL, owner ...string) string {
	port := cmp.Or(base.Port(), map[string]string{"https": "443", "http": "80"}[base.Scheme])
	path := strings.TrimRight(base.Path, "/")
	return hashed(append([]string{base.Scheme, strings.ToLower(base.Hostname()), port, path}, owner...))
}

// Named returns the account with a name that its owner chose.
func Named(name string) string { return hashed([]string{name}) }

func hashed(parts []string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", parts))
	return hex.EncodeToString(sum[:])
}
