package admission

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/namespace"
	"k8s.io/kubernetes/pkg/registry/core/secret"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/core/serviceaccount"
	"k8s.io/kubernetes/pkg/registry/networking/ingress"
	"k8s.io/kubernetes/pkg/registry/networking/networkpolicy"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// strategy is what the API server knows about a kind of object.
type strategy interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
}

// strategies are those of the kinds that are known here.
func strategies() map[string]strategy {
	return map[string]strategy{
		"ConfigMap":           configmap.Strategy,
		"Deployment":          deployment.Strategy,
		"Ingress":             ingress.Strategy,
		"Job":                 job.Strategy,
		"Namespace":           namespace.Strategy,
		"NetworkPolicy":       networkpolicy.Strategy,
		"PodDisruptionBudget": poddisruptionbudget.Strategy,
		"Secret":              secret.Strategy,
		"Service":             service.Strategy,
		"ServiceAccount":      serviceaccount.Strategy,
	}
}

func strategyOf(object runtime.Object) (schema.GroupVersionKind, strategy, metav1.Object, error) {
	kinds, _, err := legacyscheme.Scheme.ObjectKinds(object)
	if err != nil {
		return schema.GroupVersionKind{}, nil, nil, fmt.Errorf("naming the object's kind: %w", err)
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return schema.GroupVersionKind{}, nil, nil, fmt.Errorf("reading the object's metadata: %w", err)
	}
	kind := schema.GroupVersionKind{Group: kinds[0].Group, Version: "v1", Kind: kinds[0].Kind}
	known, ok := strategies()[kind.Kind]
	if !ok {
		return kind, nil, nil, fmt.Errorf("judging %s: this kind is not known here, see strategies in admission/kinds.go", kind.Kind)
	}
	return kind, known, accessor, nil
}

// podSecurity holds the pods of a Job or a Deployment against the restricted
// standard.
func podSecurity(name string, object runtime.Object) ([]string, error) {
	template, err := podTemplate(object)
	if err != nil {
		return nil, fmt.Errorf("converting %s: %w", name, err)
	}
	if template == nil {
		return nil, nil
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return nil, fmt.Errorf("preparing the Pod Security Standards: %w", err)
	}
	level := podsecurity.LevelVersion{Level: podsecurity.LevelRestricted, Version: podsecurity.LatestVersion()}
	var findings []string
	for _, result := range evaluator.EvaluatePod(level, &template.ObjectMeta, &template.Spec) {
		if !result.Allowed {
			findings = append(findings, fmt.Sprintf("%s: pod security restricted: %s: %s",
				name, result.ForbiddenReason, result.ForbiddenDetail))
		}
	}
	return findings, nil
}

// podTemplate is what an object makes pods of; nil where it makes none.
func podTemplate(object runtime.Object) (*corev1.PodTemplateSpec, error) {
	kinds, _, err := legacyscheme.Scheme.ObjectKinds(object)
	if err != nil {
		return nil, err
	}
	switch kinds[0].Kind {
	case "Job":
		var v1 batchv1.Job
		err := legacyscheme.Scheme.Convert(object, &v1, nil)
		return &v1.Spec.Template, err
	case "Deployment":
		var v1 appsv1.Deployment
		err := legacyscheme.Scheme.Convert(object, &v1, nil)
		return &v1.Spec.Template, err
	}
	return nil, nil
}
