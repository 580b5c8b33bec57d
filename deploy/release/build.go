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

// program is muster for one platform: the executable file.
type program struct {
	platform
	file []byte
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

// build builds the program for each platform.
func (r release) build(ctx context.Context, platforms []platform) ([]program, error) {
	dir, err := os.MkdirTemp("", "muster-release-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var all []program
	for _, p := range platforms {
		file := filepath.Join(dir, p.os+"-"+p.arch)
		if err := r.compile(ctx, p, file); err != nil {
			return nil, err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		all = append(all, program{p, content})
	}
	return all, nil
}

// compile builds the program into a file. Neither the directory that the source
// is in, nor git, nor variables that change what the compiler makes get into it.
func (r release) compile(ctx context.Context, p platform, file string) error {
	flags := "-s -w -X muster/cmd/invocation.linkedVersion=" + r.version + " -X muster/cmd/invocation.linkedCommit=" + r.commit
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", file, "./cmd/muster")
	c.Dir = r.source
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch, "GOFLAGS=-mod=readonly", "GOWORK=off",
		"GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off", "GODEBUG=")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("building for %s: %w\n%s", p, err, out)
	}
	return nil
}
