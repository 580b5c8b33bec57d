package invocation

import (
	"runtime/debug"
	"testing"
)

// TestBuild asserts the precedence of the linker's values, the go command's and the source's.
func TestBuild(t *testing.T) {
	stamp := func(version string, settings ...string) *debug.BuildInfo {
		info := &debug.BuildInfo{Main: debug.Module{Version: version}}
		for i := 0; i < len(settings); i += 2 {
			info.Settings = append(info.Settings, debug.BuildSetting{Key: settings[i], Value: settings[i+1]})
		}
		return info
	}
	const commit = "0bfc905f2b1c3d4e5f60718293a4b5c6d7e8f901"
	for _, test := range []struct {
		linked build
		info   *debug.BuildInfo
		want   string
	}{
		{build{}, stamp(""), Version},
		{build{}, stamp("(devel)"), Version},
		{build{}, stamp("(devel)", "vcs.modified", "true"), Version},
		{build{}, stamp("v0.0.0-20261121171200-0bfc905f2b1c", "vcs.revision", commit), Version + " (0bfc905f2b1c)"},
		{build{}, stamp("v0.0.0-20261121171200-0bfc905f2b1c+dirty", "vcs.revision", commit, "vcs.modified", "true"), Version + " (0bfc905f2b1c-dirty)"},
		{build{}, stamp("v0.3.0", "vcs.modified", "true", "vcs.revision", commit), "v0.3.0 (0bfc905f2b1c-dirty)"},
		{build{"v0.4.0-2-gabc", "abc"}, stamp("v0.3.0", "vcs.revision", commit), "v0.4.0-2-gabc (abc)"},
	} {
		if got := test.linked.or(test.info).String(); got != test.want {
			t.Errorf("%+v with %+v is %q, want %q", test.linked, test.info, got, test.want)
		}
	}
}

// TestShellWord asserts that the printed words can be pasted.
func TestShellWord(t *testing.T) {
	for word, want := range map[string]string{"a/b-c.git": "a/b-c.git", "": "''", "my demo": "'my demo'", "it's": `'it'\''s'`, "$HOME": "'$HOME'"} {
		if got := ShellWord(word); got != want {
			t.Errorf("%q is quoted as %s, want %s", word, got, want)
		}
	}
}
