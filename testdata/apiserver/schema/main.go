// Command schema prints the types that a Job of batch/v1 is made of, as the
// OpenAPI document of this module's Kubernetes release has them, in the form
// that package muster/generator/kubernetes reads.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	text, err := render()
	if err == nil {
		_, err = os.Stdout.WriteString(text)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "schema:", err)
		os.Exit(1)
	}
}

// property is what the document says of one field.
type property struct {
	Type, Format         string
	Ref                  string `json:"$ref"`
	AllOf                []property
	Items                *property
	AdditionalProperties *property
	Properties           map[string]property
}

func render() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}} {{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		return "", fmt.Errorf("finding k8s.io/kubernetes: %w", err)
	}
	version, dir, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	data, err := os.ReadFile(filepath.Join(dir, "api", "openapi-spec", "v3", "apis__batch__v1_openapi.json"))
	if err != nil {
		return "", err
	}
	var document struct {
		Components struct{ Schemas map[string]property }
	}
	if err := json.Unmarshal(data, &document); err != nil {
		return "", err
	}
	types := map[string]map[string]string{}
	var collect func(name string)
	collect = func(name string) {
		short := name[strings.LastIndexByte(name, '.')+1:]
		if types[short] != nil {
			return
		}
		types[short] = map[string]string{}
		for field, p := range document.Components.Schemas[name].Properties {
			types[short][field] = typeOf(p, collect)
		}
	}
	collect("io.k8s.api.batch.v1.Job")
	text, err := json.MarshalIndent(struct {
		Release string                       `json:"release"`
		License string                       `json:"license"`
		Types   map[string]map[string]string `json:"types"`
	}{strings.TrimPrefix(version, "v"), "Apache License 2.0", types}, "", " ")
	return string(text) + "\n", err
}

// typeOf names a field's type, and collects the types it is made of.
func typeOf(p property, collect func(string)) string {
	for _, part := range p.AllOf {
		if part.Ref != "" {
			p.Ref = part.Ref
		}
	}
	switch name := p.Ref[strings.LastIndexByte(p.Ref, '/')+1:]; {
	case strings.HasSuffix(name, ".Quantity"):
		return "quantity"
	case strings.HasSuffix(name, ".IntOrString"):
		return "int-or-string"
	case strings.HasSuffix(name, ".Time"):
		return "time"
	case strings.HasSuffix(name, ".FieldsV1"):
		return "any"
	case name != "":
		collect(name)
		return name[strings.LastIndexByte(name, '.')+1:]
	}
	switch {
	case p.Type == "array":
		return "[]" + typeOf(*p.Items, collect)
	case p.AdditionalProperties != nil:
		return "map:" + typeOf(*p.AdditionalProperties, collect)
	case p.Type == "integer":
		return p.Format
	case p.Type == "object":
		return "any"
	}
	return p.Type
}
