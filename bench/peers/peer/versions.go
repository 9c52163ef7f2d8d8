package peer

import "runtime/debug"

// moduleVersion returns the path and version of a module in this program.
func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == path {
				return path + " " + m.Version
			}
		}
	}
	return path
}
