// Package archive writes images as OCI archives, which containerd imports without a
// registry.
package archive

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
)

// Image is what an image has in it.
type Image struct {
	// Name is how a pod asks for it.
	Name string
	// Files are programs and others by their paths, without a leading slash. Links are
	// symbolic links: path to target. Folders are others than those that files lie in,
	// with their modes; all is of root.
	Files   map[string][]byte
	Links   map[string]string
	Folders map[string]int64
	// Env, Entrypoint and Command are the image's own; User is who runs it, empty: root.
	Env, Entrypoint, Command []string
	User                     string
	// Volumes are paths where a container has a folder of its own, with what the image
	// has there.
	Volumes []string
}

// Write writes the archive (image-spec: image-layout.md, config.md, manifest.md).
func (i Image) Write(out io.Writer) error {
	layer, err := i.layer()
	if err != nil {
		return err
	}
	volumes := map[string]any{}
	for _, path := range i.Volumes {
		volumes[path] = map[string]any{}
	}
	config := encode(map[string]any{
		"architecture": "amd64", "os": "linux",
		"config": map[string]any{"Env": i.Env, "Entrypoint": i.Entrypoint, "Cmd": i.Command, "User": i.User, "Volumes": volumes},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest(layer)}},
	})
	manifest := encode(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": descriptor("application/vnd.oci.image.config.v1+json", config),
		"layers": []any{descriptor("application/vnd.oci.image.layer.v1.tar", layer)},
	})
	entry := descriptor("application/vnd.oci.image.manifest.v1+json", manifest)
	entry["annotations"] = map[string]string{"io.containerd.image.name": i.Name}
	archive := tar.NewWriter(out)
	blob := func(content []byte) string { return "blobs/sha256/" + strings.TrimPrefix(digest(content), "sha256:") }
	for _, file := range []struct {
		name    string
		content []byte
	}{
		{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{"index.json", encode(map[string]any{"schemaVersion": 2, "manifests": []any{entry}})},
		{blob(config), config},
		{blob(manifest), manifest},
		{blob(layer), layer},
	} {
		if err := add(archive, tar.Header{Name: file.name, Mode: 0o644}, file.content); err != nil {
			return err
		}
	}
	return archive.Close()
}

func (i Image) layer() ([]byte, error) {
	var text strings.Builder
	layer := tar.NewWriter(&text)
	made := map[string]bool{".": true}
	var folder func(name string, mode int64) error
	folder = func(name string, mode int64) error {
		if made[name] {
			return nil
		}
		made[name] = true
		if err := folder(path.Dir(name), 0o755); err != nil {
			return err
		}
		return layer.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode})
	}
	for _, name := range slices.Sorted(maps.Keys(i.Folders)) {
		if err := folder(name, i.Folders[name]); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(i.Files)) {
		if err := folder(path.Dir(name), 0o755); err != nil {
			return nil, err
		}
		if err := add(layer, tar.Header{Name: name, Mode: 0o755}, i.Files[name]); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(i.Links)) {
		if err := folder(path.Dir(name), 0o755); err != nil {
			return nil, err
		}
		if err := layer.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: i.Links[name], Mode: 0o777}); err != nil {
			return nil, err
		}
	}
	err := layer.Close()
	return []byte(text.String()), err
}

func add(archive *tar.Writer, header tar.Header, content []byte) error {
	header.Typeflag, header.Size = tar.TypeReg, int64(len(content))
	if err := archive.WriteHeader(&header); err != nil {
		return err
	}
	_, err := archive.Write(content)
	return err
}

func descriptor(mediaType string, content []byte) map[string]any {
	return map[string]any{"mediaType": mediaType, "digest": digest(content), "size": len(content)}
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// encode encodes maps of plain values, which cannot fail.
func encode(value map[string]any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return text
}
