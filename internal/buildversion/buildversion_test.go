package buildversion_test

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lendingapi/lending-go/internal/buildversion"
)

// The version is that of the module in the running program, of what replaces it if
// anything does, and none for a folder.
func TestVersion(t *testing.T) {
	const path = "github.com/lendingapi/lending-go"
	for _, test := range []struct {
		want string
		own  *debug.Module
	}{
		{"v1.2.3", &debug.Module{Path: path, Version: "v1.2.3"}},
		{"v1.2.4", &debug.Module{Path: path, Version: "v1.2.3", Replace: &debug.Module{
			Path:    "example.com/fork",
			Version: "v1.2.4",
		}}},
		{"devel", &debug.Module{
			Path: path, Version: "v0.0.0-00010101000000-000000000000",
			Replace: &debug.Module{Path: "../lending-go"},
		}},
	} {
		t.Run(test.want, func(t *testing.T) {
			info := &debug.BuildInfo{
				Main: debug.Module{Path: "example.com/shop", Version: "v9.9.9"},
				Deps: []*debug.Module{{Path: "example.com/x", Version: "v3.0.0"}, test.own},
			}
			assert.Equal(t, test.want, buildversion.In(info, path))
		})
	}
	assert.Equal(t, "devel", buildversion.In(&debug.BuildInfo{Main: debug.Module{Path: path, Version: "(devel)"}},
		path))
}
