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
	if err != nil {
		t.Fatal(err)
	}
	if where != repository+":v1.2.3-4" {
		t.Errorf("pushed to %s", where)
	}
	reference, err := name.ParseReference(where)
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(reference)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range manifest.Manifests {
		referrers, err := remote.Referrers(reference.Context().Digest(d.Digest.String()))
		if err != nil {
			t.Fatal(err)
		}
		list, err := referrers.IndexManifest()
		if err != nil || len(list.Manifests) != 1 || list.Manifests[0].ArtifactType != sbomType {
			t.Fatalf("%s has the referrers %+v, %v", d.Platform, list, err)
		}
		bom, err := remote.Image(reference.Context().Digest(list.Manifests[0].Digest.String()))
		if err != nil {
			t.Fatal(err)
		}
		layers, err := bom.Layers()
		if err != nil || len(layers) != 1 {
			t.Fatalf("%d layers, %v", len(layers), err)
		}
		content, err := layers[0].Compressed()
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(content); err != nil || !bytes.Equal(text, made.parts[i].sbom) {
			t.Errorf("%s: another SBOM was pushed, %v", d.Platform, err)
		}
	}
}
