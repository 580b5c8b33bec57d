package admission

import (
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// Custom returns what the API server has against a custom resource: unknown
// fields and what the schema of its definition refuses. The definition is a
// CustomResourceDefinition in YAML. Its rules in CEL are not evaluated.
func Custom(definition []byte, object map[string]any) ([]string, error) {
	var v1 apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(definition, &v1); err != nil {
		return nil, fmt.Errorf("reading the definition: %w", err)
	}
	kind := schema.FromAPIVersionAndKind(fmt.Sprint(object["apiVersion"]), fmt.Sprint(object["kind"]))
	if kind.Group != v1.Spec.Group || kind.Kind != v1.Spec.Names.Kind {
		return nil, fmt.Errorf("%s is none of %s", kind, v1.Name)
	}
	for _, version := range v1.Spec.Versions {
		if version.Name != kind.Version || !version.Served {
			continue
		}
		var props apiextensions.JSONSchemaProps
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, &props, nil); err != nil {
			return nil, fmt.Errorf("converting the schema: %w", err)
		}
		return customFindings(kind.Kind, &props, object)
	}
	return []string{fmt.Sprintf("no version %s is served of %s", kind.Version, v1.Name)}, nil
}

func customFindings(name string, props *apiextensions.JSONSchemaProps, object map[string]any) ([]string, error) {
	validator, _, err := validation.NewSchemaValidator(props)
	if err != nil {
		return nil, fmt.Errorf("reading the schema: %w", err)
	}
	known, err := structural.NewStructural(props)
	if err != nil {
		return nil, fmt.Errorf("reading the schema: %w", err)
	}
	var findings []string
	for _, e := range validation.ValidateCustomResource(nil, object, validator) {
		findings = append(findings, name+": "+e.Error())
	}
	options := structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	for _, path := range pruning.PruneWithOptions(runtime.DeepCopyJSON(object), known, true, options) {
		findings = append(findings, fmt.Sprintf("%s: unknown field %q", name, path))
	}
	return findings, nil
}
