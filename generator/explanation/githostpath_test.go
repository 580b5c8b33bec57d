package explanation

import "testing"

// TestCommitBelowBuilds: the address of a commit may have a path that looks like a page of Buildkite.
func TestCommitBelowBuilds(t *testing.T) {
	const id = "3f2c1ab4d5e6f708192a3b4c5d6e7f8091a2b3c4"
	for _, address := range []string{
		"https://gitlab.example.com/ci/builds/7/fleet/-/commit/" + id,
		"https://dev.azure.com/o/p/_git/r/commit/" + id + "?path=/builds/12/a.yaml",
		"https://github.com/acme/fleet/blob/" + id + "/builds/1/x.yaml",
	} {
		if got := refersTo(address); got != (reference{commitName, id}) {
			t.Errorf("%s: %+v", address, got)
		}
	}
	if got := refersTo("https://proxy.example.com/acme/p/builds/12"); got.kind != buildkitePage {
		t.Errorf("%+v", got)
	}
}
