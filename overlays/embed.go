// Package overlays embeds the overlay that muster writes into a new fleet repository, and from
// which it creates every further one.
package overlays

import "embed"

// Files contains the overlay below "default".
//
//go:embed all:default
var Files embed.FS
