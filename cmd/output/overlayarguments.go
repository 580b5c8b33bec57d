package output

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"muster/generator/fleet"
)

// ChooseOverlays returns the overlays that arguments name, with or without the directory of
// overlays; all without arguments. The error for an unknown name suggests the nearest.
func ChooseOverlays(args, known []string, dir string) ([]string, error) {
	if len(args) == 0 {
		return known, nil
	}
	var chosen []string
	for _, arg := range args {
		name := strings.TrimPrefix(path.Clean(arg), path.Clean(dir)+"/")
		if !slices.Contains(known, name) {
			return nil, Usage(fmt.Errorf("there is no overlay %q%s", name, Instead(name, known, "it has")))
		}
		if !slices.Contains(chosen, name) {
			chosen = append(chosen, name)
		}
	}
	return chosen, nil
}

// IsOverlays returns a usage error if the directory of overlays is itself the only overlay.
func IsOverlays(all []fleet.Overlay) error {
	if len(all) == 1 && all[0].Name == "." {
		return Usage(all[0].Err())
	}
	return nil
}
