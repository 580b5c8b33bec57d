package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/x509"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

var aRelease = release{
	source: "../..", version: "v1.2.3+4", commit: "0123456789ab", url: "https://git.example.com/ci/muster",
	date: time.Date(2026, time.November, 21, 2, 15, 0, 0, time.UTC),
}

// must ends a test at an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// somePrograms are programs that Go built, though not muster: this test, for
// every platform alike.
func somePrograms(t *testing.T, platforms string) []program {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	file, err := os.ReadFile(self)
	must(t, err)
	list, err := parsePlatforms(platforms)
	must(t, err)
	var all []program
	for _, p := range list {
		all = append(all, program{p, map[string][]byte{"muster": file, "muster-sim": file}})
	}
	return all
}

// anImage is the image of someImage, which takes long to compress.
var anImage struct {
	sync.Once
	made *image
}

func someImage(t *testing.T) *image {
	t.Helper()
	anImage.Do(func() {
		made, err := aRelease.assemble(somePrograms(t, "linux/amd64,linux/arm64"))
		must(t, err)
		anImage.made = made
	})
	return anImage.made
}

// unpack reads a tar archive: its headers and contents by name.
func unpack(t *testing.T, r io.Reader) (map[string]*tar.Header, map[string][]byte) {
	t.Helper()
	headers, contents := map[string]*tar.Header{}, map[string][]byte{}
	for reader := tar.NewReader(r); ; {
		h, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return headers, contents
		}
		must(t, err)
		if headers[h.Name] != nil {
			t.Errorf("%s is in the archive twice", h.Name)
		}
		if parent := strings.TrimSuffix(h.Name, "/"); strings.Contains(parent, "/") && headers[parent[:strings.LastIndex(parent, "/")+1]] == nil {
			t.Errorf("%s comes before its directory", h.Name)
		}
		headers[h.Name] = h
		contents[h.Name], err = io.ReadAll(reader)
		must(t, err)
	}
}

// TestImage reads an image back from its file, and looks at what is in it.
func TestImage(t *testing.T) {
	index := readBack(t, someImage(t))
	must(t, validate.Index(index))
	manifest, err := index.IndexManifest()
	must(t, err)
	var platforms []string
	for _, d := range manifest.Manifests {
		platforms = append(platforms, d.Platform.String())
		one, err := index.Image(d.Digest)
		must(t, err)
		lookAt(t, one, d.Platform)
	}
	if want := []string{"linux/amd64", "linux/arm64"}; !slices.Equal(platforms, want) {
		t.Errorf("the platforms are %q, want %q", platforms, want)
	}
	if !maps.Equal(manifest.Annotations, aRelease.labels()) {
		t.Errorf("annotations: %v", manifest.Annotations)
	}
}

// readBack writes the image into a file and reads it from there.
func readBack(t *testing.T, made *image) v1.ImageIndex {
	t.Helper()
	archive := filepath.Join(t.TempDir(), "new", "image.tar")
	must(t, create(archive, func(w io.Writer) error { return made.write(w, "muster:v1.2.3-4", aRelease.date) }))
	f, err := os.Open(archive)
	must(t, err)
	defer f.Close()
	headers, contents := unpack(t, f)
	dir := t.TempDir()
	for inside, content := range contents {
		if !headers[inside].ModTime.Equal(aRelease.date) {
			t.Errorf("%s is of %s", inside, headers[inside].ModTime)
		}
		if strings.HasSuffix(inside, "/") {
			continue
		}
		path := filepath.Join(dir, filepath.FromSlash(inside))
		must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644)))
	}
	outer, err := layout.ImageIndexFromPath(dir)
	must(t, err)
	manifest, err := outer.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("index.json lists %d manifests, %v", len(manifest.Manifests), err)
	}
	if got := manifest.Manifests[0].Annotations["io.containerd.image.name"]; got != "muster:v1.2.3-4" {
		t.Errorf("the image is called %q", got)
	}
	index, err := outer.ImageIndex(manifest.Manifests[0].Digest)
	must(t, err)
	return index
}

// lookAt checks the image of one platform: configuration, files, certificates, SBOM.
func lookAt(t *testing.T, one v1.Image, p *v1.Platform) {
	t.Helper()
	config, err := one.ConfigFile()
	must(t, err)
	if config.OS != p.OS || config.Architecture != p.Architecture || !config.Created.Equal(aRelease.date) {
		t.Errorf("%s: the configuration says %s/%s, %s", p, config.OS, config.Architecture, config.Created)
	}
	if c := config.Config; c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/usr/bin/muster"}) || c.Cmd != nil || !maps.Equal(c.Labels, aRelease.labels()) {
		t.Errorf("%s: %+v", p, c)
	}
	layers, err := one.Layers()
	must(t, err)
	got, contents := map[string]string{}, map[string][]byte{}
	for _, l := range layers {
		content, err := l.Uncompressed()
		must(t, err)
		headers, files := unpack(t, content)
		maps.Copy(contents, files)
		for inside, h := range headers {
			got[inside] = fmt.Sprintf("%o %d:%d", h.Mode, h.Uid, h.Gid)
		}
	}
	want := map[string]string{
		"etc/": "755 0:0", "etc/group": "644 0:0", "etc/passwd": "644 0:0", "etc/ssl/": "755 0:0", "etc/ssl/certs/": "755 0:0",
		"etc/ssl/certs/ca-certificates.crt": "644 0:0",
		"home/":                             "755 0:0", "home/muster/": "755 65532:65532", "tmp/": "1777 0:0",
		"usr/": "755 0:0", "usr/bin/": "755 0:0", "usr/bin/muster": "755 0:0",
		"usr/share/": "755 0:0", "usr/share/doc/": "755 0:0", "usr/share/doc/muster/": "755 0:0", "usr/share/doc/muster/LICENSE": "644 0:0",
		"usr/share/doc/muster/third-party.md": "644 0:0",
		"usr/share/sbom/":                     "755 0:0", "usr/share/sbom/muster.cdx.json": "644 0:0",
	}
	if !maps.Equal(got, want) {
		t.Errorf("%s holds %v, want %v", p, got, want)
	}
	checkRoots(t, contents[rootsPath])
	checkSBOM(t, contents[sbomsPath+"/muster.cdx.json"], contents[programsPath+"/muster"], "uPlot", rootsModule)
}

// checkRoots: the certificate authorities are those of the list without its
// conditional ones, and those that sign for Buildkite and GitHub are among them.
func checkRoots(t *testing.T, text []byte) {
	t.Helper()
	want := 0
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			want++
		}
	}
	if got := bytes.Count(text, []byte("BEGIN CERTIFICATE")); got != want || want < 100 {
		t.Errorf("%d certificate authorities, want %d", got, want)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		t.Error("the certificate authorities cannot be read")
	}
	var names []string
	for _, subject := range pool.Subjects() { //nolint:staticcheck // not the system's pool
		names = append(names, string(subject))
	}
	for _, name := range []string{"Amazon Root CA 1", "ISRG Root X1", "USERTrust ECC Certification Authority"} {
		if !slices.ContainsFunc(names, func(s string) bool { return strings.Contains(s, name) }) {
			t.Errorf("%s is missing", name)
		}
	}
}

// checkSBOM: the modules of the program and of what is beside it are in the SBOM, and nothing else.
func checkSBOM(t *testing.T, text, program []byte, beside ...string) {
	t.Helper()
	var bom cdx.BOM
	must(t, cdx.NewBOMDecoder(bytes.NewReader(text), cdx.BOMFileFormatJSON).Decode(&bom))
	if bom.Metadata.Component.Version != aRelease.version {
		t.Errorf("the SBOM is of version %s", bom.Metadata.Component.Version)
	}
	got := map[string]string{}
	for _, c := range *bom.Components {
		got[c.Name] = c.Version
		if c.Hashes != nil {
			sum, err := hex.DecodeString((*c.Hashes)[0].Value)
			must(t, err)
			got[c.Name] += " h1:" + base64.StdEncoding.EncodeToString(sum)
		}
		if !strings.HasSuffix(c.PackageURL, "@"+strings.ReplaceAll(c.Version, "+", "%2B")) {
			t.Errorf("the package URL of %s %s is %s", c.Name, c.Version, c.PackageURL)
		}
	}
	info, err := buildinfo.Read(bytes.NewReader(program))
	must(t, err)
	others := append([]string{"std"}, beside...)
	for _, m := range info.Deps {
		if want := strings.TrimSpace(m.Version + " " + m.Sum); got[m.Path] != want {
			t.Errorf("%s is %q in the SBOM, want %q", m.Path, got[m.Path], want)
		}
		delete(got, m.Path)
		others = slices.DeleteFunc(others, func(name string) bool { return name == m.Path })
	}
	slices.Sort(others)
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, others) || slices.Contains(slices.Collect(maps.Values(got)), "") {
		t.Errorf("beside the program's modules, the SBOM has %q, want versions of %q", got, others)
	}
}

// TestLibrary asserts that a package URL encodes the plus sign, and that a damaged checksum is an error.
func TestLibrary(t *testing.T) {
	c := library(&debug.Module{Path: "x", Version: "v1.0.0+incompatible"})
	if want := "pkg:golang/x@v1.0.0%2Bincompatible"; c.PackageURL != want {
		t.Errorf("the package URL is %s, want %s", c.PackageURL, want)
	}
	if _, err := checksum("h1:AAAA"); err == nil {
		t.Error("a checksum of three bytes: no error")
	}
}

// TestReproducible releases muster itself twice, from copies of the source that lie
// elsewhere and are of other times, and with other settings of the go command.
func TestReproducible(t *testing.T) {
	var made []string
	for i, dir := range []string{"one", "another/place"} {
		r := aRelease
		r.commit = ""
		r.source = filepath.Join(t.TempDir(), filepath.FromSlash(dir))
		copySource(t, aRelease.source, r.source, time.Date(2001+i, time.March, 1, 0, 0, 0, 0, time.UTC))
		t.Setenv("GOFLAGS", []string{"-buildvcs=false", "-race -tags=netgo"}[i])
		t.Setenv("GOAMD64", []string{"v1", "v3"}[i])
		t.Setenv("TZ", []string{"UTC", "Asia/Tokyo"}[i])
		made = append(made, t.TempDir())
		must(t, r.files(t.Context(), made[i], "muster", []platform{{"linux", host().arch}}))
		packed, err := os.ReadFile(filepath.Join(made[i], "muster_v1.2.3+4_linux_"+host().arch+".tar.gz"))
		must(t, err)
		z, err := gzip.NewReader(bytes.NewReader(packed))
		must(t, err)
		_, contents := unpack(t, z)
		for name, content := range contents {
			if bytes.Contains(content, []byte(r.source)) {
				t.Errorf("%s holds the place where it was built", name)
			}
			if strings.HasSuffix(name, "bin/muster") && !bytes.Contains(content, []byte(aRelease.version)) {
				t.Error("the program does not hold its version")
			}
		}
	}
	sameFiles(t, made[0], made[1])
}

// copySource copies what muster is built from; every file is of the given time.
func copySource(t *testing.T, from, to string, at time.Time) {
	t.Helper()
	for _, part := range []string{"base", "cmd", "deploy", "docs", "generator", "gitops", "overlays", "go.mod", "go.sum", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md"} {
		err := filepath.WalkDir(filepath.Join(from, part), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			inside, err := filepath.Rel(from, path)
			target := filepath.Join(to, inside)
			if err != nil || d.IsDir() {
				return cmp.Or(err, os.MkdirAll(target, 0o755))
			}
			content, err := os.ReadFile(path)
			return cmp.Or(err, os.WriteFile(target, content, 0o644), os.Chtimes(target, at, at))
		})
		must(t, err)
	}
}

// TestRefusals: what cannot be released is said.
func TestRefusals(t *testing.T) {
	for args, want := range map[string]string{
		"image":                                "two arguments are needed",
		"film x":                               `"film" is neither image`,
		"-platforms linux image x":             `platform "linux"`,
		"-date noon image x":                   "-date:",
		"-source /nowhere image x":             "version.go",
		"-source ../.. -platforms a/b image x": "building muster for a/b",
	} {
		if err := run(t.Context(), append([]string{"-source", "../.."}, strings.Fields(args)...)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}
