// Command release packages muster: as an image for containers and as archives.
//
// It needs only Go: no container engine, no tar. The same source, version and Go release produce
// the same bytes. It is a separate module, so that muster does not depend on its dependencies.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"
)

const help = `usage: release [flags] image FILE        write the image, an OCI layout in a tar archive
       release [flags] push REPOSITORY   push the image and its SBOMs, tagged with the version
       release [flags] files DIR         write archives, image, notes, provenance and checksums
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("release", flag.ContinueOnError)
	f.Usage = func() {
		fmt.Fprint(f.Output(), help)
		f.PrintDefaults()
	}
	var r release
	f.StringVar(&r.source, "source", ".", "top of muster's source")
	f.StringVar(&r.version, "version", "", "what the program calls itself (default: as its source says)")
	f.StringVar(&r.commit, "commit", "", "the commit it was built from")
	f.StringVar(&r.url, "url", "", "where the source is published")
	name := f.String("name", "muster", "name of the image in FILE, without a tag")
	list := f.String("platforms", "", "platforms, as in linux/amd64,linux/arm64 (default: all that are published)")
	epoch := f.String("date", "0", "time of every file, in seconds since 1970, as SOURCE_DATE_EPOCH")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() != 2 {
		f.Usage()
		return errors.New("two arguments are needed")
	}
	seconds, err := strconv.ParseInt(cmp.Or(*epoch, "0"), 10, 64)
	if err != nil {
		return fmt.Errorf("-date: %w", err)
	}
	r.date = time.Unix(seconds, 0).UTC()
	if r.version == "" {
		if r.version, err = sourceVersion(r.source); err != nil {
			return err
		}
	}
	switch what, where := f.Arg(0), f.Arg(1); what {
	case "image", "push":
		platforms, err := parsePlatforms(cmp.Or(*list, "linux/amd64,linux/arm64"))
		if err != nil {
			return err
		}
		return r.image(ctx, what, where, *name, platforms)
	case "files":
		platforms, err := parsePlatforms(cmp.Or(*list, "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64"))
		if err != nil {
			return err
		}
		return r.files(ctx, where, *name, platforms)
	default:
		f.Usage()
		return fmt.Errorf("%q is neither image, push nor files", what)
	}
}

// image builds the image, and writes it into a file or pushes it.
func (r release) image(ctx context.Context, what, where, name string, platforms []platform) error {
	programs, err := r.build(ctx, platforms)
	if err != nil {
		return err
	}
	made, err := r.assemble(programs)
	if err != nil {
		return err
	}
	if what == "push" {
		where, err = made.push(ctx, where, r.version)
	} else {
		err = create(where, func(w io.Writer) error { return made.write(w, name+":"+tag(r.version), r.date) })
	}
	if err != nil {
		return err
	}
	digest, err := made.index.Digest()
	fmt.Printf("%s %s\n", where, digest)
	return err
}

// files builds the programs, and writes everything that is published into a directory.
func (r release) files(ctx context.Context, dir, name string, platforms []platform) error {
	programs, err := r.build(ctx, platforms)
	if err != nil {
		return err
	}
	common, err := r.common(ctx, programs)
	if err != nil {
		return err
	}
	made, err := r.assemble(slices.DeleteFunc(slices.Clone(programs), func(p program) bool { return p.os != "linux" }))
	if err != nil {
		return err
	}
	return r.writeFiles(ctx, dir, programs, common, made, name)
}

// tag is a version as an image's tag: build metadata begins with a + in
// versions, which tags must not have.
func tag(version string) string { return strings.ReplaceAll(version, "+", "-") }
