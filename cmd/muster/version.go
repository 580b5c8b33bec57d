package main

import (
	"cmp"
	"runtime/debug"
	"strings"
)

// Version is the version of this source: that of the next release, until it is released.
const Version = "v0.3.0-dev"

// linkedVersion and linkedCommit are set by the linker: see the Makefile.
var linkedVersion, linkedCommit string

// build says which muster this is; the zero value is that of the source, and of
// no commit in particular.
type build struct {
	version string
	// commit ends in "-dirty" where the source was not what is committed.
	commit string
}

// thisBuild is the running program's: what the linker was told, otherwise what
// the go command has stamped (go help buildvcs), otherwise the source's.
func thisBuild() build {
	b := build{linkedVersion, linkedCommit}
	if info, ok := debug.ReadBuildInfo(); ok {
		b = b.or(info)
	}
	return b
}

// or fills in what is not known from what the go command has stamped. A version
// that it made up for want of a tag, v0.0.0 and a date, is none.
func (b build) or(info *debug.BuildInfo) build {
	if v := info.Main.Version; strings.HasPrefix(v, "v") && !strings.HasPrefix(v, "v0.0.0-") {
		b.version = cmp.Or(b.version, v)
	}
	var stamped build
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			stamped.commit = s.Value[:min(12, len(s.Value))] + stamped.commit
		case s.Key == "vcs.modified" && s.Value == "true":
			stamped.commit += "-dirty"
		}
	}
	if stamped.commit != "-dirty" {
		b.commit = cmp.Or(b.commit, stamped.commit)
	}
	return b
}

// name is the version alone.
func (b build) name() string { return cmp.Or(b.version, Version) }

// String is the version with the commit, as far as one is known:
// "v0.3.0 (0bfc905f2b1c)".
func (b build) String() string {
	if b.commit == "" {
		return b.name()
	}
	return b.name() + " (" + b.commit + ")"
}
