// Package deploy embeds what muster init writes into a fleet repository in addition to overlays:
// muster's own deployment, and the syncers' manifests.
package deploy

import "embed"

// Files contains base/, components/ and overlays/: muster's own deployment, as --with-deploy
// writes it. It omits the placeholders in secrets/: in git they would invite real ones.
//
//go:embed base components overlays
var Files embed.FS

// Syncers contains a directory for each syncer, as --syncer writes it: overlay.yaml is for
// the overlay "default"; all overlays share the other files.
//
//go:embed syncers
var Syncers embed.FS
