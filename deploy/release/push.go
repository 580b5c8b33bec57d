package main

import (
	"context"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// push pushes the image to a repository of a registry under the version's tag,
// with the credentials that docker login wrote, and an SBOM for each platform, which refers to it
// (OCI distribution specification, "Referrers"). It returns the reference.
func (m *image) push(ctx context.Context, repository, version string) (string, error) {
	where, err := name.NewRepository(repository)
	if err != nil {
		return "", err
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	for _, p := range m.parts {
		if err := remote.Write(where.Digest(mustDigest(p.image)), p.image, options...); err != nil {
			return "", err
		}
		bom, err := p.referrer()
		if err != nil {
			return "", err
		}
		if err := remote.Write(where.Digest(mustDigest(bom)), bom, options...); err != nil {
			return "", err
		}
	}
	to := where.Tag(tag(version))
	return to.String(), remote.WriteIndex(to, m.index, options...)
}

// referrer is the SBOM as a manifest that refers to its image.
func (p part) referrer() (v1.Image, error) {
	subject, err := partial.Descriptor(p.image)
	if err != nil {
		return nil, err
	}
	made := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), sbomType)
	made, err = mutate.AppendLayers(made, static.NewLayer(p.sbom, sbomType))
	if err != nil {
		return nil, err
	}
	return mutate.Subject(made, *subject).(v1.Image), nil
}

// mustDigest is the digest of an image that was made here: it is computed from
// memory and cannot fail.
func mustDigest(made v1.Image) string {
	digest, err := made.Digest()
	if err != nil {
		panic(err)
	}
	return digest.String()
}
