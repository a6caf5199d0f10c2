package lending

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/lendingapi/lending-go/internal/redact"
	"github.com/lendingapi/lending-go/internal/safely"
)

// withHeaders returns the headers of an attempt of r: own, and those that functions of [WithHeader] add.
func withHeaders(ctx context.Context, own http.Header, functions []func(context.Context, http.Header), r *request) (http.Header, error) {
	if len(functions) == 0 {
		return own, nil
	}
	added := http.Header{}
	err := safely.Call[PanicError](func() error {
		for _, add := range functions {
			add(ctx, added)
		}
		return nil
	})
	if err != nil {
		return nil, hidden("the function of WithHeader failed: "+interruption(err), err)
	}
	rules := checks{prefix: "WithHeader: "}
	all := maps.Clone(own) // attempts share own
	for _, given := range slices.Sorted(maps.Keys(added)) {
		name, values := http.CanonicalHeaderKey(given), added[given]
		shown := redact.Name(name)
		rules.that(isHeaderName(name), shown, CodeFormat, "is not the name of a header")
		rules.that(!isOwnHeader(name), shown, CodeConflict, "belongs to the client")
		for _, value := range values {
			rules.that(!strings.ContainsFunc(value, isLineBreak), shown, CodeUnsafe, "must not hold line breaks or control characters")
			all[name] = append(all[name], strings.Trim(value, " \t")) // HTTP/2 allows no space around it
		}
	}
	return all, rules.err(r.method, r.path)
}

// isHeaderName reports whether name is a token of RFC 9110.
func isHeaderName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

func isLineBreak(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// isOwnHeader reports whether the client or net/http sets the header, or would act differently with
// it: net/http resends a request with an Idempotency-Key.
func isOwnHeader(name string) bool {
	switch name {
	case "Accept", "Accept-Encoding", "Authorization", "Connection", "Expect", "Host", "Http2-Settings", "Idempotency-Key",
		"Keep-Alive", "Range", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent", "X-Idempotency-Key":
		return true
	}
	return strings.HasPrefix(name, "Content-") || strings.HasPrefix(name, "Proxy-")
}
