package main

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is who the program runs as: a number, because Kubernetes cannot tell
// from a name that it is not root (runAsNonRoot).
const user = 65532

// Where things are in the image.
const (
	programsPath = "usr/bin"
	sbomsPath    = "usr/share/sbom"
	// licencesPath is where Debian's policy puts copyright files.
	licencesPath = "usr/share/doc/muster"
	rootsPath    = "etc/ssl/certs/ca-certificates.crt" // the first place where Go looks on Linux
)

// image is an image for several platforms, with an SBOM for each.
type image struct {
	index v1.ImageIndex
	parts []part
}

// part is the image for one platform.
type part struct {
	image v1.Image
	sbom  []byte
}

// assemble makes the image of programs for Linux.
func (r release) assemble(programs []program) (*image, error) {
	licences, err := r.texts(licencesPath, "LICENSE", thirdParty)
	if err != nil {
		return nil, err
	}
	system, err := r.systemLayer()
	if err != nil {
		return nil, err
	}
	certificates, err := ownModule(rootsModule)
	if err != nil {
		return nil, err
	}
	made := &image{index: mutate.IndexMediaType(empty.Index, types.OCIImageIndex)}
	for _, p := range programs {
		one, err := r.assembleOne(p, system, licences, certificates)
		if err != nil {
			return nil, err
		}
		made.parts = append(made.parts, one)
		made.index = mutate.AppendManifests(made.index, mutate.IndexAddendum{
			Add: one.image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}},
		})
	}
	made.index = mutate.Annotations(made.index, r.labels()).(v1.ImageIndex)
	return made, nil
}

func (r release) assembleOne(p program, system v1.Layer, licences []file, certificates *debug.Module) (part, error) {
	files, bom, err := r.installed(p, names[:1], programsPath, sbomsPath, certificates)
	if err != nil {
		return part{}, err
	}
	own, err := r.layer(append(files, licences...))
	if err != nil {
		return part{}, err
	}
	made := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	made, err = mutate.Append(made,
		mutate.Addendum{Layer: system, History: v1.History{Created: v1.Time{Time: r.date}, CreatedBy: "certificate authorities, user"}},
		mutate.Addendum{Layer: own, History: v1.History{Created: v1.Time{Time: r.date}, CreatedBy: "muster"}})
	if err != nil {
		return part{}, err
	}
	config, err := made.ConfigFile()
	if err != nil {
		return part{}, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = p.os, p.arch, v1.Time{Time: r.date}
	config.Config = v1.Config{
		User:       fmt.Sprintf("%d:%[1]d", user),
		Env:        []string{"PATH=/usr/bin"},
		Entrypoint: []string{"/" + programsPath + "/" + names[0]},
		WorkingDir: "/",
		Labels:     r.labels(),
	}
	made, err = mutate.ConfigFile(made, config)
	if err != nil {
		return part{}, err
	}
	return part{mutate.Annotations(made, r.labels()).(v1.Image), bom}, nil
}

// systemLayer returns the layer with what a program expects of Linux. It changes only with the
// certificate authorities, so nodes keep it between versions. Time zones are in the program.
func (r release) systemLayer() (v1.Layer, error) {
	authorities, err := roots()
	if err != nil {
		return nil, err
	}
	files := []file{
		{path: rootsPath, mode: 0o644, content: authorities},
		{path: "etc/passwd", mode: 0o644, content: fmt.Appendf(nil, "root:x:0:0:root:/:/nologin\nmuster:x:%d:%[1]d:muster:/home/muster:/nologin\n", user)},
		{path: "etc/group", mode: 0o644, content: fmt.Appendf(nil, "root:x:0:\nmuster:x:%d:\n", user)},
		{path: "home/muster", mode: fs.ModeDir | 0o755, owner: user},
		{path: "tmp", mode: fs.ModeDir | fs.ModeSticky | 0o777},
	}
	return release{}.layer(files) // of no time, so that a release does not change it
}

// layer makes a layer of files.
func (r release) layer(files []file) (v1.Layer, error) {
	var content bytes.Buffer
	at := r.date
	if at.IsZero() {
		at = time.Unix(0, 0).UTC()
	}
	if err := writeTar(&content, files, at); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
}

// labels are what registries and scanners read of an image: the keys of the OCI
// image specification, annotations.md.
func (r release) labels() map[string]string {
	const key = "org.opencontainers.image."
	all := map[string]string{
		key + "title":       "muster",
		key + "description": "Scales Buildkite agents on Kubernetes by committing to git",
		key + "licenses":    "Apache-2.0",
		key + "version":     r.version,
		key + "created":     r.date.Format(time.RFC3339),
	}
	if r.commit != "" {
		all[key+"revision"] = r.commit
	}
	if r.url != "" {
		all[key+"source"], all[key+"url"], all[key+"documentation"] = r.url, r.url, r.url
	}
	return all
}

// write writes the image as a tar archive of an OCI layout, which containerd, podman, skopeo and docker read.
func (m *image) write(w io.Writer, reference string, at time.Time) error {
	dir, err := os.MkdirTemp("", "muster-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, err := layout.Write(dir, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	if err != nil {
		return err
	}
	err = path.AppendIndex(m.index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": reference, "io.containerd.image.name": reference,
	}))
	if err != nil {
		return err
	}
	files, err := filesIn(dir, "")
	if err != nil {
		return err
	}
	return writeTar(w, files, at)
}

// create writes a file whole or not at all, with its directory.
func create(name string, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	draft, err := os.CreateTemp(filepath.Dir(name), ".draft-")
	if err != nil {
		return err
	}
	defer os.Remove(draft.Name())
	err = write(draft)
	if closing := draft.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return err
	}
	if err := os.Chmod(draft.Name(), 0o644); err != nil {
		return err
	}
	return os.Rename(draft.Name(), name)
}
