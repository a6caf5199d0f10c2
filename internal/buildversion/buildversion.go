// Package buildversion finds the version of a module in the running program.
package buildversion

import "runtime/debug"

// Devel is the version of a checkout.
const Devel = "devel"

// Of returns the version of a module, or [Devel].
func Of(module string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return In(info, module)
	}
	return Devel
}

// In returns the version of a module in the program that info describes: the version of its
// replacement if it has one.
func In(info *debug.BuildInfo, module string) string {
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path != module {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		if m.Version != "" && m.Version != "(devel)" {
			return m.Version
		}
	}
	return Devel
}
