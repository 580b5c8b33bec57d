// Package overlays carries the overlay that muster writes into a new fleet
// repository, and from which it makes every further one.
package overlays

import "embed"

// Files holds the overlay below "default".
//
//go:embed all:default
var Files embed.FS
