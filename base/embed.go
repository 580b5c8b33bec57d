// Package base carries the kustomize base of the agent Job, as muster writes
// it into a new fleet repository.
package base

import "embed"

// Files holds the base: kustomization.yaml and job.yaml, at the top.
//
//go:embed kustomization.yaml job.yaml
var Files embed.FS
