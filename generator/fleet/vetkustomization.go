package fleet

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"muster/generator/finding"
)

// maxParsed is the maximum size, in bytes, of a file of the fleet that this process parses: parsed, it
// takes a hundred times its size.
const maxParsed = 128 << 10

// vet refuses a kustomization that would fetch or run something, and reports missing files more
// clearly than kustomize. It uses kustomize's own parser, so that both read the same.
func (v *view) vet(name string, data []byte) {
	if len(data) > maxParsed {
		v.refuse(finding.Finding{File: name, Line: 1, Problem: fmt.Sprintf("has %d bytes, and a kustomization has at most %d", len(data), maxParsed), Remedy: "move patches to files of their own, or list directories"})
		return
	}
	for doc, err := range finding.Documents(data) {
		if err != nil {
			v.refuse(*finding.Syntax(name, data, err))
			return
		}
		if n := firstAnchor(doc); n != nil {
			v.refuse(finding.Finding{File: name, Line: n.Line, Problem: "uses a YAML anchor or alias", Remedy: "write the value out"})
			return
		}
	}
	var k types.Kustomization
	if err := k.Unmarshal(data); err != nil {
		f := finding.Finding{File: name, Line: 1, Problem: "is not a kustomization: " + strings.TrimPrefix(finding.OneLine(err), "invalid Kustomization: json: "), Remedy: "correct or remove the unknown part"}
		if m := unknownField.FindStringSubmatch(err.Error()); m != nil {
			f.Line = max(1, finding.LineAmong(data, m[1]))
		}
		v.refuse(f)
		return
	}
	plain := types.Kustomization{TypeMeta: k.TypeMeta, MetaData: k.MetaData, Resources: k.Resources}
	v.changes = v.changes || !reflect.DeepEqual(k, plain)
	if v.hide != "" && name == path.Join(v.hide, listFile) {
		v.lists++
	}
	k.FixKustomization()
	for _, f := range []struct {
		name string
		used bool
	}{
		{"helmCharts", len(k.HelmCharts) > 0}, {"helmGlobals", k.HelmGlobals != nil},
		{"generators", len(k.Generators) > 0}, {"transformers", len(k.Transformers) > 0}, {"validators", len(k.Validators) > 0},
	} {
		if f.used {
			v.refuseIn(data, "", finding.Finding{File: name, Field: f.name, Problem: "would run a program", Remedy: "muster and the syncer build plain kustomizations only: use resources, components and patches"})
		}
	}
	v.writesPaths = v.writesPaths || len(k.BuildMetadata) > 0
	v.selects = v.selects || len(k.Patches)+len(k.PatchesJson6902)+len(k.PatchesStrategicMerge)+len(k.Replacements)+len(k.Vars)+len(k.Replicas)+len(k.Configurations) > 0
	for _, r := range references(k) {
		v.vetReference(name, data, r)
	}
}

// firstAnchor returns the first node that has an anchor or is an alias. In a kustomization, this process
// would expand them: a few lines can expand to more than any machine has memory for. All other files
// are expanded in the process of the build, which has limits.
func firstAnchor(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return n
	}
	for _, c := range n.Content {
		if found := firstAnchor(c); found != nil {
			return found
		}
	}
	return nil
}

// unknownField matches kustomize's error for an unknown field.
var unknownField = regexp.MustCompile(`unknown field "([^"]+)"`)

// vetReference notes a path that the kustomization with a name references, and refuses one that
// cannot be read.
func (v *view) vetReference(name string, data []byte, r reference) {
	dir := path.Dir(name)
	at := path.Join(dir, r.path)
	if v.hide != "" && at == v.hide {
		v.listed++
	}
	for part := range strings.SplitSeq(r.path, "/") {
		v.parts[part] = true
	}
	switch {
	case fetched.MatchString(r.path):
		v.refuseIn(data, r.path, finding.Finding{File: name, Field: r.field, Problem: finding.Quote(r.path) + " is not in the repository", Remedy: "copy it there: muster fetches nothing"})
	case !r.must || path.IsAbs(r.path):
	case at == ".." || strings.HasPrefix(at, "../"):
		v.refuseIn(data, r.path, finding.Finding{File: name, Field: r.field, Problem: finding.Quote(r.path) + " is above the top of the repository", Remedy: "copy it into the repository: muster and the syncer read nothing else"})
	case !v.Exists(at):
		v.refuseIn(data, r.path, finding.Finding{File: name, Field: r.field, Problem: fmt.Sprintf("%s does not exist: there is no %s in the repository", finding.Quote(r.path), at), Remedy: "correct the path, or add what it names"})
	case dir != "." && !strings.HasPrefix(at, dir+"/") && !v.IsDir(at):
		v.refuseIn(data, r.path, finding.Finding{File: name, Field: r.field, Problem: finding.Quote(r.path) + " is a file of another directory, which kustomize does not read", Remedy: "list that directory, with a kustomization.yaml in it"})
	}
}

// reference is a path that a kustomization names.
type reference struct {
	field, path string
	// must reports that it can only be the name of a file or directory.
	must bool
}

// references returns every string of a kustomization that kustomize would load.
func references(k types.Kustomization) []reference {
	var refs []reference
	add := func(field string, must bool, paths ...string) {
		for _, p := range paths {
			if p != "" {
				refs = append(refs, reference{field, p, must})
			}
		}
	}
	add("resources", true, k.Resources...)
	add("components", true, k.Components...)
	add("crds", true, k.Crds...)
	add("configurations", true, k.Configurations...)
	add("openapi", true, k.OpenAPI["path"])
	for _, p := range slices.Concat(k.Patches, k.PatchesJson6902) {
		add("patches", true, p.Path)
	}
	for _, p := range k.PatchesStrategicMerge { // a path, or the patch itself
		add("patchesStrategicMerge", false, string(p))
	}
	for _, r := range k.Replacements {
		add("replacements", true, r.Path)
	}
	sources := func(field string, s types.KvPairSources) {
		add(field, true, s.EnvSources...)
		for _, f := range s.FileSources {
			_, file, named := strings.Cut(f, "=")
			if !named {
				file = f
			}
			add(field, true, file)
		}
	}
	for _, g := range k.ConfigMapGenerator {
		sources("configMapGenerator", g.KvPairSources)
	}
	for _, g := range k.SecretGenerator {
		sources("secretGenerator", g.KvPairSources)
	}
	return refs
}

// fetched matches strings that kustomize treats as a URL or a git repository (its internal/git
// and internal/loader), by their prefix, ignoring case.
var fetched = regexp.MustCompile(`(?i)^(git::|https?:|ssh://|file://|github\.com[/:]|[a-z][a-z0-9-]*@)`)

// patchesOfNothing finds patches of a template whose target selects no object: kustomize omits
// them silently.
func patchesOfNothing(tree fs.FS, o *Overlay) []finding.Finding {
	file := path.Join(o.Path, templateDir, listFile)
	data, err := fs.ReadFile(tree, file)
	var k types.Kustomization
	if err != nil || k.Unmarshal(data) != nil {
		return nil
	}
	v := &view{tree: tree, notes: o.loader.used["template "+path.Join(o.Path, templateDir)].notes}
	name := finding.Scalar(o.template.job(), "metadata", "name")
	jobs := append(v.namesOf("Job"), name) // its name before a patch renamed it
	var findings []finding.Finding
	for i, p := range slices.Concat(k.Patches, k.PatchesJson6902) { //nolint:staticcheck // people still write the deprecated one
		if p.Target == nil || selectsJob(p.Target, jobs) {
			continue
		}
		word := cmp.Or(p.Target.Name, p.Target.Kind, p.Target.Group, p.Target.Version)
		f := finding.Finding{File: file, Field: "patches", Problem: fmt.Sprintf("the target %s matches nothing, so that kustomize leaves the patch out", targetText(p.Target)), Remedy: "the Job is named " + name}
		if i >= len(k.Patches) {
			f.Field = "patchesJson6902"
		}
		for n, text := range slices.Collect(strings.Lines(string(data))) {
			if f.Line == 0 && strings.Contains(text, word) && !strings.HasPrefix(strings.TrimSpace(text), "#") {
				f.Line = n + 1
			}
		}
		findings = append(findings, f)
	}
	return findings
}

// selectsJob reports whether a patch's target selects the template's Job, which
// has had these names.
func selectsJob(target *types.Selector, names []string) bool {
	return selects(target.Group, "batch") && selects(target.Version, "v1") && selects(target.Kind, "Job") &&
		slices.ContainsFunc(names, func(n string) bool { return selects(target.Name, n) })
}

// targetText describes a patch's target, as in batch/v1 Job agent.
func targetText(target *types.Selector) string {
	version := strings.Trim(target.Group+"/"+target.Version, "/")
	return strings.Join(slices.DeleteFunc([]string{version, target.Kind, target.Name}, func(s string) bool { return s == "" }), " ")
}

// selects reports whether a field of a patch's target, a regular expression that
// must match the whole, selects a value; an empty one selects all.
func selects(pattern, value string) bool {
	whole, err := regexp.Compile("^(?:" + pattern + ")$")
	return pattern == "" || err == nil && whole.MatchString(value)
}
