// Package deploy carries muster's own deployment, as muster init --with-deploy
// writes it into a fleet repository.
package deploy

import "embed"

// Files holds base/, components/ and overlays/. The placeholders in secrets/ are left out:
// in git they would invite real ones.
//
//go:embed base components overlays
var Files embed.FS
