// Command apiserver says what a Kubernetes API server would have against
// creating the objects of the named manifests, or of standard input: one
// finding a line, exit code 1 if there are any, 2 if they cannot be read.
//
// It is a module of its own: muster itself contains none of the API server. It reads
// muster from the directories above, to compare what the two refuse.
package main

import (
	"fmt"
	"io"
	"os"

	"muster/testdata/apiserver/admission"
)

func main() {
	findings, err := judge(os.Args[1:], os.Stdin)
	for _, f := range findings {
		fmt.Println(f)
	}
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "apiserver:", err)
		os.Exit(2)
	case len(findings) > 0:
		os.Exit(1)
	}
}

// judge returns the findings on all files, or on stdin if there are none.
func judge(paths []string, stdin io.Reader) ([]string, error) {
	if len(paths) == 0 {
		return create("standard input", stdin)
	}
	var all []string
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return all, fmt.Errorf("opening a manifest: %w", err)
		}
		findings, err := create(path, file)
		file.Close()
		if err != nil {
			return all, err
		}
		all = append(all, findings...)
	}
	return all, nil
}

func create(name string, stream io.Reader) ([]string, error) {
	objects, err := admission.Objects(stream)
	if err != nil {
		// The API server refuses what it cannot decode: that is a finding too.
		return []string{name + ": " + err.Error()}, nil
	}
	var all []string
	for _, object := range objects {
		findings, err := admission.Create(object)
		if err != nil {
			return all, fmt.Errorf("%s: %w", name, err)
		}
		for _, f := range findings {
			all = append(all, name+": "+f)
		}
	}
	return all, nil
}
