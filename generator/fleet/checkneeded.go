package fleet

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"muster/generator/finding"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// podReferences are the fields of a pod that name an object without which it does not start, with the
// object's kind. Indexes are left out of the paths.
var podReferences = map[string]string{
	"configMap.name": "ConfigMap", "configMapRef.name": "ConfigMap", "configMapKeyRef.name": "ConfigMap",
	"secret.secretName": "Secret", "secret.name": "Secret", "secretRef.name": "Secret", "secretKeyRef.name": "Secret",
	"imagePullSecrets.name": "Secret", "nodePublishSecretRef.name": "Secret",
	"spec.serviceAccountName": "ServiceAccount", "persistentVolumeClaim.claimName": "PersistentVolumeClaim",
	"spec.priorityClassName": "PriorityClass", "spec.runtimeClassName": "RuntimeClass",
	"resourceClaims.resourceClaimName": "ResourceClaim", "resourceClaims.resourceClaimTemplateName": "ResourceClaimTemplate",
}

// unpruned are the annotations with which a syncer keeps an object whose file has left git.
var unpruned = []spelled{
	{at: annotation("argocd.argoproj.io/sync-options"), want: []string{"Prune=false"}},
	{at: annotation("kustomize.toolkit.fluxcd.io/prune"), want: []string{"disabled"}},
}

// neededBy returns the objects that the pods of a Job name, as "KIND NAME".
func neededBy(job *yaml.Node) map[string]bool {
	needed := map[string]bool{}
	pod := []string{"spec", "template", "spec"}
	walk(finding.Lookup(job, pod...), pod, func(n *yaml.Node, at []string) {
		keys := slices.DeleteFunc(slices.Clone(at), func(key string) bool { return strings.HasPrefix(key, "[") })
		if kind := podReferences[strings.Join(keys[max(0, len(keys)-2):], ".")]; kind != "" {
			needed[kind+" "+n.Value] = true
		}
	})
	return needed
}

// prunedBy returns the annotations without which a syncer deletes the object with its file.
func prunedBy(object *yaml.Node) (lacks []string) {
	for _, want := range unpruned {
		if missing(listOf(finding.Scalar(object, want.at...)), want.want) {
			lacks = append(lacks, want.at[len(want.at)-1]+": "+want.want[0])
		}
	}
	return lacks
}

// checkNeeded finds objects of the overlay that its agents' pods need, and that a syncer deletes with their
// file: pods that were ordered before and start later would then wait forever.
func checkNeeded(tree fs.FS, o *Overlay) (findings []finding.Finding) {
	built := o.loader.used["empty "+o.Path]
	if built == nil {
		return nil
	}
	job := o.template.job()
	needed := neededBy(job)
	namespace := finding.Scalar(job, "metadata", "namespace")
	v := &view{tree: tree, hide: path.Join(o.Path, dispatchDir), notes: built.notes}
	for _, x := range o.objects {
		object, wrong := finding.ParseOne("", x.YAML)
		if wrong != nil || !needed[x.Kind+" "+x.Name] {
			continue
		}
		if of := finding.Scalar(object, "metadata", "namespace"); of != "" && of != namespace {
			continue
		}
		add := func(problem, remedy string) {
			f := finding.Finding{Field: "metadata.annotations", Problem: fmt.Sprintf("agents need the %s %s, and %s", x.Kind, x.Name, problem), Remedy: "write " + remedy}
			if f.File = v.definedIn(x.Kind, x.Name); f.File == "" {
				f.File = v.generatedIn(o.Path, x)
				f.Field = "generatorOptions.annotations"
			}
			findings = append(findings, f)
		}
		if lacks := prunedBy(object); len(lacks) > 0 {
			add("the syncer deletes it with its file: pods that start later would wait forever", strings.Join(lacks, " and "))
		}
		if replaced := substituted(object); replaced != "" { // such as an agent hook
			add("Flux would replace "+finding.Quote(replaced)+" in it if its Kustomization has postBuild", substituteKey+": "+substituteOff)
		}
	}
	return findings
}
