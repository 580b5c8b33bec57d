package fleet

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"muster/generator/finding"

	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"
)

// Check validates the overlays of a tree. It finds problems that suspend an overlay, problems
// with which agents would be terminated, run twice or never start under Argo CD or Flux, and
// edited dispatches. The findings are sorted by overlay. Check builds every template and every
// overlay, without a cache. The only error is that of ctx; the findings are then incomplete.
func (l *Loader) Check(ctx context.Context, tree fs.FS) ([]finding.Finding, error) {
	dir := l.dir
	overlays, err := l.LoadContext(ctx, tree)
	if over := ctx.Err(); over != nil {
		return nil, over
	}
	if err != nil {
		return []finding.Finding{{File: dir, Problem: finding.OneLine(err), Remedy: "muster init writes a first overlay, --overlays gives another directory"}}, nil
	}
	if len(overlays) == 0 {
		return []finding.Finding{{File: dir, Problem: "has no overlay: there is no " + policyFile + " below it", Remedy: "muster init writes one"}}, nil
	}
	var findings []finding.Finding
	for i := range overlays {
		o := &overlays[i]
		findings = append(findings, slices.Concat(o.findings, o.others, o.unexplainedFindings())...)
		if o.template != nil {
			findings = append(findings, o.refused...)
			findings = append(findings, withoutFields(checkJob(o, o.template.job(), false), o.refused)...)
			findings = append(findings, patchesOfNothing(tree, o)...)
			findings = append(findings, checkOverlay(tree, o)...)
			findings = append(findings, checkNeeded(tree, o)...)
			findings = append(findings, checkSyncer(tree, o)...)
		}
		findings = append(findings, checkEdits(o)...)
		if changes := o.Repair(); len(changes) > 0 {
			findings = append(findings, finding.Finding{File: o.file(o.Faults()[0].File), Problem: o.Faults()[0].Problem, Remedy: "muster restores its files with its next commit; until then the syncer may apply nothing of " + o.Path})
		}
	}
	return append(findings, sharedObjects(tree, overlays)...), nil
}

// checkEdits returns a finding for each manifest that was edited.
func checkEdits(o *Overlay) []finding.Finding {
	var findings []finding.Finding
	for _, d := range o.Dispatches {
		if d.Edited && !o.Copied(d) {
			findings = append(findings, finding.Finding{
				File: o.FileOf(d), Problem: "was edited since muster wrote it, which suspends the overlay while its agents may still register",
				Remedy: "restore the file from git, as it was in the commit that added it",
			})
		}
	}
	return atMost(o, findings)
}

// sharedObjects finds objects that two overlays write from different files, as after cp -r: in
// one cluster, the syncers would overwrite each other's object, and pruning one overlay would
// delete it. A file that both list is shared on purpose, as by overlays of several clusters.
func sharedObjects(tree fs.FS, overlays []Overlay) []finding.Finding {
	first := map[string]string{} // the file of the first overlay that has the object
	var findings []finding.Finding
	for i := range overlays {
		o := &overlays[i]
		built := o.loader.used["empty "+o.Path]
		if built == nil {
			continue
		}
		v := &view{tree: tree, hide: path.Join(o.Path, dispatchDir), notes: built.notes}
		for _, x := range o.objects {
			object, wrong := finding.ParseOne("", x.YAML)
			if wrong != nil {
				continue
			}
			group, _, _ := strings.Cut(x.APIVersion, "/")
			namespace := finding.Scalar(object, "metadata", "namespace")
			key := strings.Join([]string{group, x.Kind, namespace, x.Name}, "\n")
			file := cmp.Or(v.definedIn(x.Kind, x.Name), v.generatedIn(o.Path, x))
			other, taken := first[key]
			switch {
			case !taken:
				first[key] = file
			case other != file:
				findings = append(findings, finding.Finding{
					File: file, Field: "metadata.name",
					Problem: fmt.Sprintf("the %s %s is also in %s: two overlays write one object", x.Kind, strings.TrimPrefix(namespace+"/"+x.Name, "/"), other),
					Remedy:  "give each overlay its own, as muster init --overlay does, or keep it in one directory that both list",
				})
			}
		}
	}
	return findings
}

// checkOverlay checks what the syncer applies: the overlay as a whole.
func checkOverlay(tree fs.FS, o *Overlay) []finding.Finding {
	if o.built == nil {
		return nil // it does not build, or not its dispatches: found already
	}
	file := path.Join(o.Path, listFile)
	var findings []finding.Finding
	if len(o.objects) == 0 {
		findings = append(findings, finding.Finding{File: file, Line: finding.LineOf(tree, file, "resources"), Field: "resources", Problem: "without dispatches the overlay builds to nothing, and Argo CD refuses to prune an application down to nothing", Remedy: "add one permanent object, as the ConfigMap that muster init writes"})
	}
	if f, _ := o.transformed(); f != nil && !slices.Contains(o.findings, *f) {
		findings = append(findings, *f)
	}
	return findings
}

// transformed returns a finding if the overlay changes its dispatches; nil if it does not. It also
// reports whether it changes which Jobs they are, the number of their agents, or a value that muster sets.
func (o *Overlay) transformed() (f *finding.Finding, identity bool) {
	var before, after map[string]any
	if o.proof == nil || yaml.Unmarshal(o.proof, &before) != nil || yaml.Unmarshal(o.built, &after) != nil || reflect.DeepEqual(before, after) {
		return nil, false
	}
	identity = !reflect.DeepEqual(identityOf(before), identityOf(after))
	if renamed(before, after) {
		for _, file := range o.kustomizations() {
			if hashing := hashes(o.tree, file); len(hashing) > 0 {
				return &finding.Finding{
					File: file, Line: finding.LineOf(o.tree, file, hashing...), Field: strings.Join(hashing, ", "),
					Problem: "changes dispatches (" + different(before, after) + "): a generated name has a hash of the content, so that an edit would change running Jobs and delete what pods need that have not started",
					Remedy:  "write generatorOptions: {disableNameSuffixHash: true}",
				}, identity
			}
		}
	}
	file := path.Join(o.Path, listFile)
	fields := transforming(o.tree, file)
	return &finding.Finding{
		File: file, Line: finding.LineOf(o.tree, file, fields...), Field: strings.Join(fields, ", "),
		Problem: "changes dispatches (" + different(before, after) + "): editing it would change running Jobs, which Kubernetes refuses, and stop the sync",
		Remedy:  "do it in " + path.Join(o.Path, templateDir) + ", which changes only later Jobs",
	}, identity
}

// kustomizations returns the kustomizations that the overlay's build has read, without the template's.
func (o *Overlay) kustomizations() []string {
	built := o.loader.used["empty "+o.Path]
	if built == nil {
		return nil
	}
	v := &view{tree: o.tree, notes: built.notes}
	return slices.DeleteFunc(v.filesRead(), func(name string) bool { return !isKustomization(name) })
}

// renamed reports whether a value of a dispatch got the suffix that kustomize gives the names of
// generated objects: a hash of ten letters and digits.
func renamed(before, after any) bool {
	switch x := before.(type) {
	case map[string]any:
		y, _ := after.(map[string]any)
		for key, value := range x {
			if renamed(value, y[key]) {
				return true
			}
		}
	case []any:
		y, _ := after.([]any)
		for i := range min(len(x), len(y)) {
			if renamed(x[i], y[i]) {
				return true
			}
		}
	case string:
		y, _ := after.(string)
		hash, found := strings.CutPrefix(y, x+"-")
		return found && hashSuffix.MatchString(hash)
	}
	return false
}

var hashSuffix = regexp.MustCompile(`^[a-z0-9]{10}$`)

// identityOf returns what makes a Job the dispatch that was ordered.
func identityOf(job map[string]any) []any {
	at := func(keys ...string) any {
		value := any(job)
		for _, key := range keys {
			fields, _ := value.(map[string]any)
			value = fields[key]
		}
		return value
	}
	all := []any{at("metadata", "name"), at("metadata", "namespace"), at("spec", "completions"), at("spec", "parallelism")}
	for _, above := range [][]string{{"metadata"}, {"spec", "template", "metadata"}} {
		for _, key := range []string{"labels", "annotations"} {
			values, _ := at(below(above, key)...).(map[string]any)
			own := map[string]any{}
			for name, value := range values {
				if strings.HasPrefix(name, "muster.dev/") {
					own[name] = value
				}
			}
			all = append(all, own)
		}
	}
	return all
}

// transforming lists the fields of a kustomization that can change what it
// lists.
func transforming(tree fs.FS, file string) []string {
	data, err := fs.ReadFile(tree, file)
	var k types.Kustomization
	if err != nil || k.Unmarshal(data) != nil {
		return nil
	}
	k.FixKustomization()
	var fields []string
	for _, f := range []struct {
		name string
		used bool
	}{
		{"namePrefix", k.NamePrefix != ""}, {"nameSuffix", k.NameSuffix != ""}, {"namespace", k.Namespace != ""},
		{"labels", len(k.Labels) > 0}, {"commonLabels", len(k.CommonLabels) > 0}, {"commonAnnotations", len(k.CommonAnnotations) > 0},
		{"images", len(k.Images) > 0}, {"replicas", len(k.Replicas) > 0}, {"replacements", len(k.Replacements) > 0},
		{"patches", len(k.Patches)+len(k.PatchesJson6902)+len(k.PatchesStrategicMerge) > 0},
		{"components", len(k.Components) > 0}, {"vars", len(k.Vars) > 0}, {"buildMetadata", len(k.BuildMetadata) > 0},
	} {
		if f.used {
			fields = append(fields, f.name)
		}
	}
	return fields
}

// hashes lists the generators of a kustomization whose objects have a hash in their name.
func hashes(tree fs.FS, file string) []string {
	data, err := fs.ReadFile(tree, file)
	var k types.Kustomization
	if err != nil || k.Unmarshal(data) != nil {
		return nil
	}
	hashed := func(o *types.GeneratorOptions) bool {
		return (o == nil || !o.DisableNameSuffixHash) && (k.GeneratorOptions == nil || !k.GeneratorOptions.DisableNameSuffixHash)
	}
	var fields []string
	if slices.ContainsFunc(k.ConfigMapGenerator, func(g types.ConfigMapArgs) bool { return hashed(g.Options) }) {
		fields = append(fields, "configMapGenerator")
	}
	if slices.ContainsFunc(k.SecretGenerator, func(g types.SecretArgs) bool { return hashed(g.Options) }) {
		fields = append(fields, "secretGenerator")
	}
	return fields
}

// different returns the first field in which two objects differ.
func different(a, b any, at ...string) string {
	x, isMap := a.(map[string]any)
	y, alsoMap := b.(map[string]any)
	if !isMap || !alsoMap {
		return finding.Field(at)
	}
	both := map[string]any{}
	maps.Copy(both, x)
	maps.Copy(both, y)
	for _, k := range slices.Sorted(maps.Keys(both)) {
		if !reflect.DeepEqual(x[k], y[k]) {
			return different(x[k], y[k], append(slices.Clone(at), k)...)
		}
	}
	return finding.Field(at)
}

// spelled is a required value with its reason.
type spelled struct {
	at     []string
	want   []string // all of these, separated by commas in the value
	reason string
	// harms: agents that run could be ended, or more could start than were ordered.
	harms bool
}

func annotation(key string) []string { return []string{"metadata", "annotations", key} }

func podAnnotation(key string) []string {
	return []string{"spec", "template", "metadata", "annotations", key}
}

// required are the values that the syncers and the cluster autoscalers require. Each was
// observed with Argo CD 3.5 or Flux 1.9, or found in their sources.
var required = []spelled{
	{annotation("argocd.argoproj.io/sync-options"), []string{"Prune=false", "Delete=false"}, "Argo CD would terminate the agents when their dispatch is retired", true},
	{annotation("argocd.argoproj.io/compare-options"), []string{"IgnoreExtraneous"}, "Argo CD would show the application out of sync while agents of retired dispatches run", false},
	{annotation("argocd.argoproj.io/ignore-healthcheck"), []string{"true"}, "Argo CD would show the application degraded by every agent that fails", false},
	{annotation("kustomize.toolkit.fluxcd.io/prune"), []string{"disabled"}, "Flux would terminate the agents when their dispatch is retired", true},
	{annotation("kustomize.toolkit.fluxcd.io/ssa"), []string{"IfNotPresent"}, "Flux would try to change a running Job", false},
	{[]string{"metadata", "labels", "app.kubernetes.io/managed-by"}, []string{"muster"}, "muster could not identify the Job", false},
	{podAnnotation("argocd.argoproj.io/ignore-resource-updates"), []string{"true"}, "Argo CD would compare the application at every change of a pod", false},
	{podAnnotation("cluster-autoscaler.kubernetes.io/safe-to-evict"), []string{"false"}, "the cluster autoscaler would move a build to save a node", false},
	{podAnnotation("karpenter.sh/do-not-disrupt"), []string{"true"}, "Karpenter would move a build to save a node", false},
	{[]string{"spec", "completionMode"}, []string{"Indexed"}, "agents would have no index to distinguish them", false},
	{[]string{"spec", "template", "spec", "restartPolicy"}, []string{"Never"}, "an agent that fails would start again after its lease was checked", false},
}

// forbidden are keys that the Job must not have, whatever their value.
var forbidden = []spelled{
	{at: annotation("argocd.argoproj.io/hook"), reason: "a hook is run again at every sync, and deleted by it", harms: true},
	{at: annotation("argocd.argoproj.io/hook-delete-policy"), reason: "Argo CD would delete busy agents", harms: true},
	{at: annotation("helm.sh/hook"), reason: "a hook is run again at every sync, and deleted by it", harms: true},
	{at: annotation("argocd.argoproj.io/sync-wave"), reason: "Argo CD would hold back the agents until others have finished"},
	{at: []string{"metadata", "generateName"}, reason: "every sync would create the agents again", harms: true},
	{at: []string{"metadata", "labels", "app.kubernetes.io/instance"}, reason: "Argo CD may track by this label and manage the Job"},
	{at: annotation("kustomize.toolkit.fluxcd.io/reconcile"), reason: "Flux would never create the Job where it says disabled"},
	{at: annotation("kustomize.toolkit.fluxcd.io/force"), reason: "Flux would delete a running Job to create it again where it says enabled", harms: true},
	{at: []string{"spec", "suspend"}, reason: "a suspended Job starts no agent"},
	{at: []string{"spec", "managedBy"}, reason: "another controller would run the Job by rules muster does not know"},
	{at: []string{"spec", "successPolicy"}, reason: "it terminates busy agents when others have finished", harms: true},
	{at: []string{"spec", "maxFailedIndexes"}, reason: "it terminates busy agents when others have failed", harms: true},
	{at: []string{"spec", "backoffLimit"}, reason: "it terminates busy agents when others have failed; backoffLimitPerIndex does not", harms: true},
}

// allowed returns the harmless values of a forbidden key.
func allowed(key, value string) bool {
	switch key {
	case "kustomize.toolkit.fluxcd.io/reconcile":
		return !strings.EqualFold(value, "disabled")
	case "kustomize.toolkit.fluxcd.io/force":
		return !strings.EqualFold(value, "enabled")
	case "suspend":
		return value == "false"
	case "managedBy":
		return value == "kubernetes.io/job-controller"
	case "backoffLimit":
		return value == "2147483647"
	}
	return false
}

func listOf(value string) []string {
	var parts []string
	for p := range strings.SplitSeq(value, ",") {
		parts = append(parts, strings.TrimSpace(p))
	}
	return parts
}

func missing(have, want []string) bool {
	return slices.ContainsFunc(want, func(w string) bool { return !slices.Contains(have, w) })
}

func instead(s spelled) string {
	return fmt.Sprintf("write %s: %s", s.at[len(s.at)-1], strings.Join(s.want, ","))
}
