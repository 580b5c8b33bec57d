package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime/debug"
	"strings"
)

// completions are the shells that muster completes for, and what they call the file.
var completions = map[string]string{"bash": "muster.bash", "zsh": "_muster", "fish": "muster.fish", "powershell": "muster.ps1"}

// thirdParty are the licences of linked modules, which must be distributed with the program.
const thirdParty = "docs/third-party.md"

// texts returns files of the source, to be packed into a directory.
func (r release) texts(dir string, names ...string) ([]file, error) {
	var all []file
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(r.source, name))
		if err != nil {
			return nil, err
		}
		all = append(all, file{path: path.Join(dir, path.Base(name)), mode: 0o644, content: content})
	}
	return all, nil
}

// common returns the files of every archive: licences, README and completions. The programs that
// print the completions are built for this machine.
func (r release) common(ctx context.Context) ([]file, error) {
	all, err := r.texts("", "LICENSE", "README.md", "CHANGELOG.md", thirdParty)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "muster-release-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	for _, program := range names {
		here := filepath.Join(dir, program)
		if err := r.compile(ctx, host(), program, here); err != nil {
			return nil, err
		}
		for shell, name := range completions {
			c := exec.CommandContext(ctx, here, "completion", shell)
			c.Env = []string{}
			script, err := c.Output()
			if err != nil {
				return nil, fmt.Errorf("completions of %s for %s: %w", program, shell, err)
			}
			all = append(all, file{path: "completions/" + strings.Replace(name, "muster", program, 1), mode: 0o644, content: script})
		}
	}
	return all, nil
}

// writeArchives writes an archive for each program, and a file of checksums that
// sha256sum --check reads.
func (r release) writeArchives(dir string, programs []program, common []file) error {
	var sums strings.Builder
	for _, p := range programs {
		name := fmt.Sprintf("muster_%s_%s_%s", r.version, p.os, p.arch)
		packed, err := r.archive(name, p, common)
		if err != nil {
			return err
		}
		if err := create(filepath.Join(dir, name+".tar.gz"), writes(packed)); err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s.tar.gz\n", sha256.Sum256(packed), name)
	}
	fmt.Print(sums.String())
	return create(filepath.Join(dir, "SHA256SUMS"), writes([]byte(sums.String())))
}

// installed returns the programs of a platform and their SBOMs, in two directories; own is the SBOM of the first
// program. Modules next to the programs are part of the SBOMs.
func (r release) installed(p program, dir, sboms string, beside ...*debug.Module) (files []file, own []byte, err error) {
	for i, name := range names {
		bom, err := r.sbom(p, name, beside...)
		if err != nil {
			return nil, nil, err
		}
		if i == 0 {
			own = bom
		}
		files = append(files,
			file{path: path.Join(dir, name), mode: 0o755, content: p.files[name]},
			file{path: path.Join(sboms, name+".cdx.json"), mode: 0o644, content: bom})
	}
	return files, own, nil
}

// archive packs the programs of a platform, their SBOMs and the common files below one directory.
func (r release) archive(name string, p program, common []file) ([]byte, error) {
	files, _, err := r.installed(p, name, name)
	if err != nil {
		return nil, err
	}
	for _, f := range common {
		f.path = name + "/" + f.path
		files = append(files, f)
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if err := writeTar(z, files, r.date); err != nil {
		return nil, err
	}
	err = z.Close()
	return packed.Bytes(), err
}

func writes(content []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	}
}
