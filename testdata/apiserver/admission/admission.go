// Package admission does to manifests what a Kubernetes API server does to
// them when they are created or updated, with the API server's own code: strict
// decoding, defaulting, conversion, the resource's strategy with its validation
// and warnings, and the restricted Pod Security Standard.
package admission

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/batch"
)

// strict decodes as the API server does where it is told to refuse unknown and
// duplicate fields. It is made once: that takes longer than what it does.
var strict = sync.OnceValue(func() runtime.Decoder {
	return serializer.NewCodecFactory(legacyscheme.Scheme, serializer.EnableStrict).UniversalDecoder()
})

// Objects reads a stream of YAML documents and returns the objects as the API
// server holds them: decoded strictly, defaulted and converted. Unknown and
// duplicate fields are errors. Documents that hold nothing are left out.
func Objects(stream io.Reader) ([]runtime.Object, error) {
	reader := yaml.NewYAMLReader(bufio.NewReader(stream))
	var objects []runtime.Object
	for n := 1; ; n++ {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading document %d: %w", n, err)
		}
		if empty(text) {
			continue
		}
		object, _, err := strict().Decode(text, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("decoding document %d: %w", n, err)
		}
		objects = append(objects, object)
	}
}

// Create returns what the API server has against creating the object: one
// finding per field, and its warnings. The object is changed as on creation.
func Create(object runtime.Object) ([]string, error) {
	kind, strategy, accessor, err := strategyOf(object)
	if err != nil {
		return nil, err
	}
	ctx := request(kind, accessor.GetNamespace())
	name := kind.Kind + " " + accessor.GetName()
	if accessor.GetNamespace() == "" && strategy.NamespaceScoped() {
		return []string{name + ": metadata.namespace: Required value"}, nil
	}
	rest.FillObjectMetaSystemFields(accessor)
	var findings []string
	if err := rest.BeforeCreate(strategy, ctx, object); err != nil {
		findings = append(findings, causes(name, err)...)
	}
	for _, warning := range strategy.WarningsOnCreate(ctx, object) {
		findings = append(findings, name+": warning: "+warning)
	}
	restricted, err := podSecurity(name, object)
	return append(findings, restricted...), err
}

// Update returns what the API server has against replacing the old object,
// which must have gone through [Create], by the new one.
func Update(object, old runtime.Object) ([]string, error) {
	kind, strategy, accessor, err := strategyOf(object)
	if err != nil {
		return nil, err
	}
	before, err := meta.Accessor(old)
	if err != nil {
		return nil, fmt.Errorf("reading the old object's metadata: %w", err)
	}
	keepGenerated(object, old)
	accessor.SetUID(before.GetUID())
	accessor.SetResourceVersion("1")
	before.SetResourceVersion("1")
	if err := rest.BeforeUpdate(strategy, request(kind, accessor.GetNamespace()), object, old); err != nil {
		return causes(kind.Kind+" "+accessor.GetName(), err), nil
	}
	return nil, nil
}

// keepGenerated gives the new object what the API server added to the old one
// on creation, as an apply does: the selector and the labels it selects by.
func keepGenerated(object, old runtime.Object) {
	after, ok := object.(*batch.Job)
	before, ok2 := old.(*batch.Job)
	if !ok || !ok2 {
		return
	}
	after.Spec.Selector = before.Spec.Selector.DeepCopy()
	for _, label := range []string{
		batchv1.ControllerUidLabel, batchv1.JobNameLabel, "controller-uid", "job-name",
	} {
		metav1.SetMetaDataLabel(&after.Spec.Template.ObjectMeta, label, before.Spec.Template.Labels[label])
	}
}

// request is the context of a request for the kind in the namespace.
func request(kind schema.GroupVersionKind, namespace string) context.Context {
	ctx := genericapirequest.WithNamespace(context.Background(), namespace)
	return genericapirequest.WithRequestInfo(ctx, &genericapirequest.RequestInfo{
		APIGroup: kind.Group, APIVersion: kind.Version, Namespace: namespace, IsResourceRequest: true,
	})
}

// causes spreads an error of the API server over one finding per field.
func causes(name string, err error) []string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return []string{name + ": " + err.Error()}
	}
	var findings []string
	for _, c := range status.Status().Details.Causes {
		findings = append(findings, fmt.Sprintf("%s: %s: %s", name, c.Field, short(c.Message)))
	}
	return findings
}

// short leaves out the middle of a message that quotes a whole object.
func short(message string) string {
	const longest, head, tail = 400, 250, 120
	if len(message) <= longest {
		return message
	}
	return message[:head] + " [...] " + message[len(message)-tail:]
}

// empty reports whether a YAML document holds nothing but comments.
func empty(text []byte) bool {
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && !bytes.Equal(line, []byte("---")) {
			return false
		}
	}
	return true
}
