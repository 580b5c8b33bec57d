package fleet

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"muster/generator/finding"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// syncerDir is the directory of the syncer's manifests, next to the overlays.
const syncerDir = "syncer"

// The parameters by which a syncer changes what it applies
// (argo-cd.readthedocs.io/en/stable/user-guide/kustomize and fluxcd.io/flux/components/kustomize/kustomizations).
var (
	argoParameters = []string{"namePrefix", "nameSuffix", "namespace", "images", "commonLabels", "commonAnnotations", "patches", "components"}
	fluxParameters = []string{"namePrefix", "nameSuffix", "targetNamespace", "images", "commonMetadata", "patches", "patchesStrategicMerge", "patchesJson6902", "components"}
	pluginOnly     = []string{"plugin"} // a program that changes anything
)

// changing matches what a patch of an ApplicationSet, a template rather than YAML, changes Jobs with.
var changing = regexp.MustCompile(`kustomize|plugin|(Replace|Force)=true`)

// checkSyncer checks what the repository tells the syncer of an overlay: parameter files of
// Argo CD in its directory, and the Applications and Flux Kustomizations in [syncerDir].
func checkSyncer(tree fs.FS, o *Overlay) []finding.Finding {
	c := &syncerChecker{overlay: o, namespace: finding.Scalar(o.template.job(), "metadata", "namespace")}
	files, _ := fs.Glob(tree, path.Join(o.Path, ".argocd-source*.yaml")) // the pattern is valid
	for _, file := range files {
		c.documents(tree, file, func(doc *yaml.Node) {
			c.parameters(finding.Lookup(doc, "kustomize"), []string{"kustomize"}, argoParameters)
			c.parameters(doc, nil, pluginOnly)
		})
	}
	files, _ = fs.Glob(tree, path.Join(path.Dir(o.loader.dir), syncerDir, "*.yaml"))
	for _, file := range files {
		c.documents(tree, file, c.object)
	}
	return c.findings
}

type syncerChecker struct {
	overlay         *Overlay
	namespace, file string
	findings        []finding.Finding
}

func (c *syncerChecker) documents(tree fs.FS, file string, check func(doc *yaml.Node)) {
	data, err := fs.ReadFile(tree, file)
	if err != nil || len(data) > maxParsed {
		return
	}
	c.file = file
	for doc, err := range finding.Documents(data) {
		if err == nil && len(doc.Content) == 1 {
			check(doc.Content[0])
		}
	}
}

func (c *syncerChecker) bad(key *yaml.Node, at []string, problem, remedy string) {
	c.findings = append(c.findings, finding.Finding{File: c.file, Line: key.Line, Field: finding.Field(at), Problem: problem, Remedy: remedy})
}

// parameters finds those that change the overlay's Jobs.
func (c *syncerChecker) parameters(n *yaml.Node, at, names []string) {
	for key, value := range finding.Pairs(n) {
		same := strings.HasSuffix(strings.ToLower(key.Value), "namespace") && value.Value == c.namespace
		if slices.Contains(names, key.Value) && !same && (len(value.Content) > 0 || value.Kind == yaml.ScalarNode && value.Value != "") {
			c.bad(key, below(at, key.Value), "changes dispatches of "+c.overlay.Path+": editing it would change running Jobs, or create them again",
				"do it in "+path.Join(c.overlay.Path, templateDir)+", which changes only later Jobs")
		}
	}
}

// object checks one manifest of the syncer.
func (c *syncerChecker) object(doc *yaml.Node) {
	at := []string{"spec"}
	spec := finding.Lookup(doc, at...)
	group, _, _ := strings.Cut(finding.Scalar(doc, "apiVersion"), "/")
	if group == "kustomize.toolkit.fluxcd.io" || group == "argoproj.io" {
		if f := finding.Plain(c.file, doc); f != nil { // fields may be behind an alias or a merge
			c.findings = append(c.findings, *f)
			return
		}
	}
	switch group + " " + finding.Scalar(doc, "kind") {
	case "v1 List":
		for _, item := range finding.Items(finding.Lookup(doc, "items")) {
			c.object(item)
		}
		return
	case "kustomize.toolkit.fluxcd.io Kustomization":
		if !c.applies(spec) {
			return
		}
		c.parameters(spec, at, fluxParameters)
		if key, value := finding.Entry(spec, "force"); key != nil && slices.Contains([]string{"true", "yes", "on"}, strings.ToLower(value.Value)) {
			c.bad(key, below(at, "force"), "is true: Flux would delete a running Job to create it again", "remove it")
		}
		return
	case "argoproj.io ApplicationSet":
		at = []string{"spec", "template", "spec"}
		spec = finding.Lookup(doc, at...)
	case "argoproj.io Application":
	default:
		return
	}
	found := false
	source := func(n *yaml.Node, at []string) {
		if finding.Scalar(n, "path") != "" && c.applies(n) {
			found = true
			c.parameters(finding.Lookup(n, "kustomize"), below(at, "kustomize"), argoParameters)
			c.parameters(n, at, pluginOnly)
		}
	}
	source(finding.Lookup(spec, "source"), below(at, "source"))
	for i, n := range finding.Items(finding.Lookup(spec, "sources")) {
		source(n, below(at, "sources", nth(i)))
	}
	if key, patch := finding.Entry(finding.Lookup(doc, "spec"), "templatePatch"); found && key != nil && changing.MatchString(patch.Value) {
		c.bad(key, []string{"spec", "templatePatch"}, "may change dispatches of "+c.overlay.Path+" ("+changing.FindString(patch.Value)+"): that would change running Jobs, or create them again",
			"do it in "+path.Join(c.overlay.Path, templateDir)+", which changes only later Jobs")
	}
	for i, option := range finding.Items(finding.Lookup(spec, "syncPolicy", "syncOptions")) {
		if found && (option.Value == "Replace=true" || option.Value == "Force=true") {
			c.bad(option, below(at, "syncPolicy", "syncOptions", nth(i)), "is "+option.Value+": Argo CD would delete a running Job to create it again", "remove that option")
		}
	}
}

// applies reports whether a source or a Kustomization is of the overlay's directory, of one above it (Flux
// makes a kustomization of all below it), or of one that an ApplicationSet fills in.
func (c *syncerChecker) applies(n *yaml.Node) bool {
	if n == nil {
		return false
	}
	dir := path.Clean("/" + finding.Scalar(n, "path"))
	for above := c.overlay.Path; above != "."; above = path.Dir(above) {
		if strings.HasSuffix(dir, "/"+above) {
			return true
		}
	}
	return dir == "/" || strings.Contains(dir, "{{")
}
