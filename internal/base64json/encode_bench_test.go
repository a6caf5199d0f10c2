package base64json

import (
	"encoding/base64"
	"testing"
)

func BenchmarkEncode(b *testing.B) {
	src := make([]byte, 24<<10)
	for i := range src {
		src[i] = byte(i*7 + i>>8)
	}
	dst := make([]byte, 32<<10)
	for _, test := range []struct {
		name   string
		encode func(dst, src []byte)
	}{
		{"floor", base64.StdEncoding.Encode}, {"pairs", encode},
	} {
		b.Run(test.name, func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				test.encode(dst, src)
			}
		})
	}
}
