package main

import (
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// TestPush pushes to a registry, and finds the SBOMs there by their images.
func TestPush(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	made := someImage(t)
	repository := strings.TrimPrefix(server.URL, "http://") + "/ci/muster"
	where, err := made.push(t.Context(), repository, aRelease.version)
	must(t, err)
	if where != repository+":v1.2.3-4" {
		t.Errorf("pushed to %s", where)
	}
	reference, err := name.ParseReference(where)
	must(t, err)
	index, err := remote.Index(reference)
	must(t, err)
	must(t, validate.Index(index))
	manifest, err := index.IndexManifest()
	must(t, err)
	for i, d := range manifest.Manifests {
		referrers, err := remote.Referrers(reference.Context().Digest(d.Digest.String()))
		must(t, err)
		list, err := referrers.IndexManifest()
		if err != nil || len(list.Manifests) != 1 || list.Manifests[0].ArtifactType != sbomType {
			t.Fatalf("%s has the referrers %+v, %v", d.Platform, list, err)
		}
		bom, err := remote.Image(reference.Context().Digest(list.Manifests[0].Digest.String()))
		must(t, err)
		layers, err := bom.Layers()
		if err != nil || len(layers) != 1 {
			t.Fatalf("%d layers, %v", len(layers), err)
		}
		content, err := layers[0].Compressed()
		must(t, err)
		if text, err := io.ReadAll(content); err != nil || !bytes.Equal(text, made.parts[i].sbom) {
			t.Errorf("%s: another SBOM was pushed, %v", d.Platform, err)
		}
	}
}
