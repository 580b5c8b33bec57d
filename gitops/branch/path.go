package branch

import (
	"fmt"
	"path"
	"strings"
)

// CheckPath returns an error if p must not be written: if it is not a clean path relative to the top
// of the repository, or has a part that git forbids.
func CheckPath(p string) error {
	if p == "" || p == "." || path.IsAbs(p) || path.Clean(p) != p || p == ".." || strings.HasPrefix(p, "../") {
		return fmt.Errorf("path %q must be relative, clean and inside the repository", p)
	}
	for part := range strings.SplitSeq(p, "/") {
		lower := strings.ToLower(strings.TrimRight(part, ". "))
		if lower == ".git" || lower == "git~1" || strings.ContainsAny(part, "\x00\n\\") {
			return fmt.Errorf("path %q has a part that git forbids: %q", p, part)
		}
	}
	return nil
}
