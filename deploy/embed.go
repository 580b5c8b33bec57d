// Package deploy carries what muster init writes into a fleet repository beside its
// overlays: muster's own deployment, and what tells a syncer of the overlays.
package deploy

import "embed"

// Files holds base/, components/ and overlays/: muster's own deployment, as --with-deploy
// writes it. The placeholders in secrets/ are left out: in git they would invite real ones.
//
//go:embed base components overlays
var Files embed.FS

// Syncers has a directory for each syncer, as --syncer writes it: fleet.yaml is what
// all overlays share, overlay.yaml is for the overlay "default".
//
//go:embed syncers
var Syncers embed.FS
