// Package kustomize builds directories with kustomize, in this process or in a process of its
// own.
//
// The library takes no context, and some input makes it run for hours or need more memory than
// the machine has: five thousand small ConfigMaps, or thirty patches that each double the
// output. A caller in the same process cannot stop it. A separate process can be stopped while
// the rest of muster continues. It costs some 10 ms and 30 MB per build; unchanged input is not
// rebuilt.
//
// The time of a build grows with more than the square of the number of resources: 1,000 Jobs
// take seconds, 10,000 take minutes, and Argo CD and Flux run the same code. That is why
// dispatches leave git as soon as possible.
package kustomize

import (
	"context"

	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// Object is one object of a build's output.
type Object struct {
	APIVersion, Kind, Name string
	YAML                   []byte
}

// String is its kind and name.
func (o Object) String() string { return o.Kind + " " + o.Name }

// Builder builds directories.
type Builder interface {
	// Build runs kustomize in directory dir of files. It calls only IsDir, Exists, CleanedAbs
	// and ReadFile of files, one at a time. A [Failure] contains the reason why dir does not
	// build; any other error does not concern dir.
	Build(ctx context.Context, files filesys.FileSystem, dir string) ([]Object, error)
}

// Failure is the reason why a directory does not build.
type Failure struct {
	// Text is kustomize's error, or names the limit that was reached.
	Text string
}

func (f *Failure) Error() string { return f.Text }

// maxOutput is the largest output of a build, in bytes.
const maxOutput = 4 << 20

// TooLarge is the start of the text of a [Failure] if a build's output is larger than allowed.
// Smaller is the end of the text if any limit stopped the build.
const (
	TooLarge = "it comes to more than"
	Smaller  = "build fewer and smaller objects"
)
