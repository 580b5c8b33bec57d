package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

// completions are the shells that muster completes for, and where each looks for the file below /usr/local or ~/.local.
var completions = map[string]string{
	"bash": "share/bash-completion/completions/muster", "zsh": "share/zsh/site-functions/_muster",
	"fish": "share/fish/vendor_completions.d/muster.fish", "powershell": "share/powershell/muster.ps1",
}

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

// common returns the files of every archive: licences, documentation, completions and man pages. The programs for this
// machine write the latter two; common builds them if they are not among the given ones.
func (r release) common(ctx context.Context, programs []program) ([]file, error) {
	all, err := r.texts("", "LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md")
	if err != nil {
		return nil, err
	}
	docs, err := filesIn(filepath.Join(r.source, "docs"), "docs")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "muster-release-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	here := slices.IndexFunc(programs, func(p program) bool { return p.platform == host() })
	if here < 0 {
		if programs, err = r.build(ctx, []platform{host()}); err != nil {
			return nil, err
		}
		here = 0
	}
	manual := filepath.Join(dir, "man1")
	for _, program := range names {
		executable := filepath.Join(dir, program)
		if err := os.WriteFile(executable, programs[here].files[program], 0o700); err != nil {
			return nil, err
		}
		output := func(args ...string) ([]byte, error) {
			c := exec.CommandContext(ctx, executable, args...)
			c.Env = []string{fmt.Sprint("SOURCE_DATE_EPOCH=", r.date.Unix())}
			text, err := c.Output()
			if err != nil {
				return nil, fmt.Errorf("%s %q: %w", program, args, err)
			}
			return text, nil
		}
		for shell, name := range completions {
			script, err := output("completion", shell)
			if err != nil {
				return nil, err
			}
			own := path.Join(path.Dir(name), strings.Replace(path.Base(name), "muster", program, 1))
			all = append(all, file{path: own, mode: 0o644, content: script})
		}
		if _, err := output("man", manual); err != nil {
			return nil, err
		}
	}
	pages, err := filesIn(manual, "share/man/man1")
	return slices.Concat(all, docs, pages), err
}

// filesIn returns the files of a directory, to be packed into another.
func filesIn(dir, to string) (all []file, err error) {
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		inside, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(name)
		all = append(all, file{path: path.Join(to, filepath.ToSlash(inside)), mode: 0o644, content: content})
		return err
	})
	return all, err
}

// writeFiles writes everything that is published into a directory: an archive for each platform, the image, the release
// notes, where all that comes from, and a file of checksums that sha256sum --check reads.
func (r release) writeFiles(ctx context.Context, dir string, programs []program, common []file, made *image, imageName string) error {
	prefix := "muster_" + r.version + "_"
	notes, err := r.notes()
	if err != nil {
		return err
	}
	written := []digest{}
	put := func(name string, write func(io.Writer) error) error {
		hash := sha256.New()
		err := create(filepath.Join(dir, name), func(w io.Writer) error { return write(io.MultiWriter(w, hash)) })
		written = append(written, digest{name, hex.EncodeToString(hash.Sum(nil))})
		return err
	}
	for _, p := range programs {
		name := prefix + p.os + "_" + p.arch
		packed, err := r.archive(name, p, common)
		if err != nil {
			return err
		}
		if err := put(name+".tar.gz", writes(packed)); err != nil {
			return err
		}
	}
	if err := put(prefix+"image.tar", func(w io.Writer) error { return made.write(w, imageName+":"+tag(r.version), r.date) }); err != nil {
		return err
	}
	statement, err := r.statement(ctx, programs[0], written)
	if err != nil {
		return err
	}
	if err := cmp.Or(put(prefix+"provenance.json", writes(statement)), put(prefix+"notes.md", writes(notes))); err != nil {
		return err
	}
	var sums strings.Builder
	for _, d := range written {
		fmt.Fprintf(&sums, "%s  %s\n", d.sha256, d.name)
	}
	fmt.Print(sums.String())
	return create(filepath.Join(dir, "SHA256SUMS"), writes([]byte(sums.String())))
}

// installed returns the named programs of a platform and their SBOMs, in two directories; own is the SBOM of the first
// program. Modules next to the programs are part of the SBOMs.
func (r release) installed(p program, names []string, dir, sboms string, beside ...*debug.Module) (files []file, own []byte, err error) {
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
	files, _, err := r.installed(p, names, name+"/bin", name+"/share/sbom")
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
