package webhooks

import (
	"bytes"
	"os"
	"strings"
	"testing"

	kustomize "github.com/fluxcd/kustomize-controller/api/v1"
	notification "github.com/fluxcd/notification-controller/api/v1"
	source "github.com/fluxcd/source-controller/api/v1"
	"sigs.k8s.io/yaml"

	"muster/deploy"
)

// TestFluxTakesIt: what muster init --syncer flux writes is of Flux's own types, with no field
// that they do not know. What runs muster itself is tested in testdata/apiserver.
func TestFluxTakesIt(t *testing.T) {
	for name, kinds := range map[string]string{
		"syncers/flux/fleet.yaml":   "GitRepository Receiver ServiceAccount Role RoleBinding",
		"syncers/flux/overlay.yaml": "Kustomization",
	} {
		content, err := deploy.Syncers.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for document := range bytes.SplitSeq(content, []byte("\n---\n")) {
			kind, err := strict(document)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			got = append(got, kind)
		}
		if strings.Join(got, " ") != kinds {
			t.Errorf("%s has %s, want %s", name, got, kinds)
		}
	}
}

// strict reads an object of Flux's and returns its kind; an unknown field is an error.
func strict(document []byte) (string, error) {
	var head struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal(document, &head); err != nil {
		return "", err
	}
	known := map[string]any{
		source.GroupVersion.String() + " GitRepository":    &source.GitRepository{},
		kustomize.GroupVersion.String() + " Kustomization": &kustomize.Kustomization{},
		notification.GroupVersion.String() + " Receiver":   &notification.Receiver{},
	}
	if head.APIVersion == "v1" || strings.HasPrefix(head.APIVersion, "rbac.authorization.k8s.io/") {
		return head.Kind, nil // Kubernetes' own kinds, which make e2e applies
	}
	object := known[head.APIVersion+" "+head.Kind]
	if object == nil {
		return head.Kind, os.ErrNotExist
	}
	return head.Kind, yaml.UnmarshalStrict(document, object)
}
