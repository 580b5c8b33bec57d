// Package deploy carries what muster init writes into a fleet repository beside its
// overlays: muster's own deployment, and what tells a syncer of the overlays.
package deploy

import "embed"

// Files holds base/, components/ and overlays/: muster's own deployment, as --with-deploy
// writes it. The placeholders in secrets/ are left out: in git they would invite real ones.
//
//go:embed base components overlays
var Files embed.FS

// Syncers contains a directory for each syncer, as --syncer writes it: overlay.yaml is for
// the overlay "default"; all overlays share the other files.
//
//go:embed syncers
var Syncers embed.FS
