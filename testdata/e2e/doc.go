// Package e2e has no code: its tests run muster against real Kubernetes, Flux and
// Argo CD on this machine. See README.md.
package e2e
