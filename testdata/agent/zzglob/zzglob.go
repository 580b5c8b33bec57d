// Package zzglob stands in for drjosh.dev/zzglob, which the agent uses for the
// patterns of artifacts, of if_changed and of cache keys, and which the Go
// module proxy does not have. It has the names that the agent needs and matches
// nothing: no test here comes near it.
package zzglob

import (
	"context"
	"errors"
	"io/fs"
)

var errStub = errors.New("zzglob is a stub in this build of the agent: it knows no patterns")

// Pattern is a pattern that matches nothing.
type Pattern struct{}

// ParseOption and GlobOption are options without effect.
type (
	ParseOption func()
	GlobOption  func()
)

// Parse always fails.
func Parse(string, ...ParseOption) (*Pattern, error) { return nil, errStub }

// ExpandTilde has no effect.
func ExpandTilde(bool) ParseOption { return nil }

// WalkIntermediateDirs has no effect.
func WalkIntermediateDirs(bool) GlobOption { return nil }

// TraverseSymlinks has no effect.
func TraverseSymlinks(bool) GlobOption { return nil }

// Match is always false.
func (*Pattern) Match(string) bool { return false }

// Glob always fails.
func (*Pattern) Glob(fs.WalkDirFunc, ...GlobOption) error { return errStub }

// MultiGlob always fails.
func MultiGlob(context.Context, []*Pattern, fs.WalkDirFunc, ...GlobOption) error { return errStub }
