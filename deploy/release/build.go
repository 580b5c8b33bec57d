package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// release is what is packaged. The same release produces the same bytes.
type release struct {
	source          string // the top of muster's source
	version, commit string // linked into the program; the commit may be empty
	url             string // where the source is published; may be empty
	date            time.Time
}

// platform is what a program runs on, in the words of GOOS and GOARCH.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

// host is what this runs on.
func host() platform { return platform{runtime.GOOS, runtime.GOARCH} }

// names are those of the programs, and of their directories below cmd/. The image contains the first one.
var names = []string{"muster", "muster-sim"}

// program is muster for one platform: the executable files, by name.
type program struct {
	platform
	files map[string][]byte
}

func parsePlatforms(list string) ([]platform, error) {
	var all []platform
	for one := range strings.SplitSeq(list, ",") {
		goos, arch, ok := strings.Cut(one, "/")
		if !ok || goos == "" || arch == "" {
			return nil, fmt.Errorf("platform %q: write it as in linux/amd64", one)
		}
		all = append(all, platform{goos, arch})
	}
	return all, nil
}

// sourceVersion returns the version in the source.
func sourceVersion(source string) (string, error) {
	text, err := os.ReadFile(filepath.Join(source, "cmd", "invocation", "version.go"))
	if err != nil {
		return "", err
	}
	m := regexp.MustCompile(`(?m)^const Version = "(.+)"$`).FindSubmatch(text)
	if m == nil {
		return "", fmt.Errorf("cmd/invocation/version.go names no version")
	}
	return string(m[1]), nil
}

// build builds the programs for each platform.
func (r release) build(ctx context.Context, platforms []platform) ([]program, error) {
	dir, err := os.MkdirTemp("", "muster-release-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var all []program
	for _, p := range platforms {
		files := map[string][]byte{}
		for _, name := range names {
			file := filepath.Join(dir, name+"-"+p.os+"-"+p.arch)
			if err := r.compile(ctx, p, name, file); err != nil {
				return nil, err
			}
			if files[name], err = os.ReadFile(file); err != nil {
				return nil, err
			}
		}
		all = append(all, program{p, files})
	}
	return all, nil
}

// compile builds one of the programs into a file. Neither the directory that the source
// is in, nor git, nor variables that change what the compiler makes get into it.
func (r release) compile(ctx context.Context, p platform, name, file string) error {
	flags := "-s -w -X muster/cmd/invocation.linkedVersion=" + r.version + " -X muster/cmd/invocation.linkedCommit=" + r.commit
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", file, "./cmd/"+name)
	c.Dir = r.source
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch, "GOFLAGS=-mod=readonly", "GOWORK=off",
		"GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off", "GODEBUG=")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s for %s: %w\n%s", name, p, err, out)
	}
	return nil
}
