package fleet

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"muster/generator/finding"
	"muster/gitops/unraced"
)

// change is one edit of a file: the text old, which the file has once, is replaced by new. Without
// old, new is appended; with old "*", new replaces the whole file, and an empty new removes it.
type change struct{ file, old, new string }

func (f files) change(t *testing.T, changes []change) {
	t.Helper()
	for _, c := range changes {
		switch {
		case c.old == "" && c.file != "":
			f[c.file] += c.new
		case c.old == "*" && c.new == "":
			delete(f, c.file)
		case c.old == "*":
			f[c.file] = c.new
		default:
			f.edit(t, c.file, c.old, c.new)
		}
	}
}

// remedyStep applies remedies that begin with a text.
type remedyStep struct {
	remedy  string
	changes []change
}

// remedyRow breaks the fleet repository of testdata/sound.txtar, so that Check has a finding, and
// applies remedies until there is none. Remedies that name a field and its value, or remove a field,
// need no step. If a remedy has alternatives, each has a row.
type remedyRow struct {
	broken []change
	steps  []remedyStep
}

const (
	rJob         = "base/job.yaml"
	rOwn         = "overlays/default/kustomization.yaml"
	rTemplate    = "overlays/default/template/kustomization.yaml"
	rBase        = "base/kustomization.yaml"
	rPolicy      = "overlays/default/scaling.yaml"
	rSyncer      = "syncer/overlay.yaml"
	rArgo        = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nspec:\n  source: {path: overlays/default, kustomize: {}}\n"
	rSet         = "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nspec:\n  template: {spec: {source: {path: '{{.path.path}}'}}}\n"
	rFlux        = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nspec:\n  path: ./overlays/default\n"
	rEnv         = "          env:\n"
	rSpec        = "      restartPolicy: Never\n"
	rCommand     = "command: [agent,"
	rPolicyRules = "  podFailurePolicy:\n    rules:\n      - action: Ignore\n        onPodConditions:\n          - type: DisruptionTarget\n            status: \"True\"\n"
	rMap         = "configMapGenerator: [{name: hooks, namespace: buildkite, literals: [environment=true]}]\n"
	rHooks       = "      volumes: [{name: hooks, configMap: {name: hooks}}]\n      containers:\n"
)

// remedyRows has a row for each finding on a template, an overlay's own kustomization and the syncer's
// manifests.
func remedyRows(t *testing.T) []remedyRow {
	base, err := os.ReadFile("../../base/job.yaml")
	if err != nil {
		t.Fatal(err)
	}
	toTemplate := func(field string) remedyRow {
		return remedyRow{
			[]change{{rOwn, "", field}},
			[]remedyStep{{"do it in overlays/default/template", []change{{rOwn, field, ""}, {rTemplate, "", field}}}},
		}
	}
	fromSyncer := func(manifest, old, field, template string) remedyRow {
		return remedyRow{
			[]change{{rSyncer, "", strings.Replace(manifest, old, field, 1)}},
			[]remedyStep{{"do it in overlays/default/template", []change{{rSyncer, "*", manifest}, {rTemplate, "", template}}}},
		}
	}
	writeBase := []change{{rJob, "*", string(base)}}
	const copied = "replacements: [{source: {kind: ConfigMap, name: muster-default}, targets: [{select: {kind: Job}, fieldPaths: [metadata.labels.a], options: {create: true}}]}]\n"
	rows := []remedyRow{
		// Values of the Job that checkJob requires or refuses; requiredRows has those of the tables.
		{broken: []change{{rJob, "Prune=false,Delete=false", "Prune=false,Delete=false,Replace=true"}}, steps: []remedyStep{{"remove that option", []change{{rJob, ",Replace=true", ""}}}}},
		{[]change{{rJob, "  namespace: buildkite\n", ""}}, []remedyStep{{"write the namespace of the agents", []change{{rJob, "  name: agent\n  labels", "  name: agent\n  namespace: buildkite\n  labels"}}}}},
		{broken: []change{{rJob, rCommand, "command: [agent, '${A}',"}}},
		{broken: []change{{rJob, "  ttlSecondsAfterFinished: 3600\n", ""}}},
		{broken: []change{{rJob, "ttlSecondsAfterFinished: 3600", "ttlSecondsAfterFinished: 60"}}},
		{broken: []change{{rPolicy, "", "  lease: 3h\n"}}},
		{broken: []change{{rJob, "  ttlSecondsAfterFinished: 3600\n", "  ttlSecondsAfterFinished: 3600\n  activeDeadlineSeconds: 4500\n"}}},
		{broken: []change{{rPolicy, "", "  reuse: {idle: 1m, uptime: 48h}\n"}, {rJob, "*", string(base)}}},
		{broken: []change{{rJob, rSpec, rSpec + "      activeDeadlineSeconds: 600\n"}}},
		{[]change{{rJob, rSpec, rSpec + "      activeDeadlineSeconds: 600\n"}}, []remedyStep{{"remove it, or write more than 4500", []change{{rJob, "Seconds: 600", "Seconds: 4501"}}}}},
		{broken: []change{{rJob, "  backoffLimitPerIndex: 0\n", ""}}},
		{broken: []change{{rJob, "  backoffLimitPerIndex: 0\n", "  backoffLimit: 6\n"}}},
		{broken: []change{{rJob, rPolicyRules, "  podReplacementPolicy: TerminatingOrFailed\n"}}},
		{broken: []change{{rJob, rPolicyRules, ""}, {rJob, "restartPolicy: Never", "restartPolicy: OnFailure"}}},
		{broken: []change{{rJob, "type: DisruptionTarget", "type: Other"}}},
		{broken: []change{{rJob, "    rules:\n", "    rules:\n      - {action: FailJob, onExitCodes: {operator: In, values: [1]}}\n"}}},
		{broken: []change{{rJob, rEnv, rEnv + "            - {name: BUILDKITE_AGENT_QUEUE, value: default}\n"}}},
		{broken: []change{{rJob, "metadata.annotations['muster.dev/agent-tags']", "metadata.name"}}},
		{broken: []change{{rJob, "metadata.annotations['muster.dev/not-after']", "metadata.name"}}},
		{broken: []change{{rJob, "metadata.annotations['muster.dev/idle-timeout']", "metadata.name"}}},
		{[]change{{rPolicy, "", "  reuse: {idle: 1m, uptime: 30m}\n"}}, []remedyStep{{"copy the command and the variables of the base", writeBase}}},
		{[]change{{rJob, ",index=$(JOB_COMPLETION_INDEX)", ""}}, []remedyStep{{"add the tag index=$JOB_COMPLETION_INDEX", []change{{rJob, "$(TAGS)", "$(TAGS),index=$JOB_COMPLETION_INDEX"}}}}},
		{[]change{{rJob, rCommand, "command: [agent, $BUILDKITE_AGENT_TOKEN,"}, {rJob, rEnv, rEnv + "            - {name: TOKEN, value: x}\n"}}, []remedyStep{{"name the variable with the token BUILDKITE_AGENT_TOKEN", []change{{rJob, "name: TOKEN", "name: BUILDKITE_AGENT_TOKEN"}}}}},
		{[]change{{rJob, rSpec, rSpec + "      terminationGracePeriodSeconds: -1\n"}}, []remedyStep{{"write how many seconds a build may take to end, as in 3600", []change{{rJob, "Seconds: -1", "Seconds: 3600"}}}}},
		{[]change{{rJob, rCommand, "ports: [{containerPort: 18080, hostPort: 18080}]\n          " + rCommand}, {rJob, rSpec, rSpec + "      hostNetwork: true\n"}}, []remedyStep{{"remove hostNetwork and hostPort, or the port", []change{{rJob, ", hostPort: 18080", ""}, {rJob, "      hostNetwork: true\n", ""}}}}},
		{[]change{{rJob, rCommand, "ports: [{containerPort: 18080, hostPort: 18080}]\n          " + rCommand}}, []remedyStep{{"remove hostNetwork and hostPort, or the port", []change{{rJob, "ports: [{containerPort: 18080, hostPort: 18080}]\n          ", ""}}}}},
		{[]change{{rJob, rCommand, "command: [buildkite-agent start,"}}, []remedyStep{{"copy the command of the base", writeBase}}},
		{[]change{{rJob, rCommand, "command: ['buildkite-agent start',"}}, []remedyStep{{"copy the command of the base that muster init writes; where the image has the hook, say agent-startup", []change{{rJob, "buildkite-agent start'", "buildkite-agent start # agent-startup'"}}}}},
		{[]change{{rJob, "namespace: buildkite", "namespace: muster"}}, []remedyStep{{"use a namespace for agents, such as buildkite", []change{{rJob, "namespace: muster", "namespace: buildkite"}}}}},
		{[]change{{rJob, "completionMode: Indexed", "completionMode: Index"}}, nil}, // a rule of Kubernetes

		// Templates that build to no Job.
		{[]change{{rTemplate, "*", ""}}, []remedyStep{{"write overlays/default/template/kustomization.yaml, which lists the agent Job, as in ../../../base", []change{{rTemplate, "*", "resources: [../../../base]\n"}}}}},
		{[]change{{rJob, rEnv, rEnv + "            - {name: BIG, value: " + strings.Repeat("x", largestManifest) + "}\n"}}, []remedyStep{{"keep large files in a ConfigMap or in the image", []change{{rJob, "            - {name: BIG, value: " + strings.Repeat("x", largestManifest) + "}\n", ""}}}}},
		{[]change{{rJob, "managed-by: muster\n", "managed-by: muster\n    team:\n"}}, []remedyStep{{"Kubernetes takes strings there, and nothing else: quote it, or remove it", []change{{rJob, "    team:\n", ""}}}}},
		{[]change{{rJob, "managed-by: muster\n", "managed-by: muster\n    team: 5\n"}}, []remedyStep{{"Kubernetes takes strings there, and nothing else: quote it, or remove it", []change{{rJob, "team: 5", "team: '5'"}}}}},
		{[]change{{rTemplate, "[../../../base]", "[]"}}, []remedyStep{{"list the agent Job in its resources, as in ../../../base", []change{{rTemplate, "[]", "[../../../base]"}}}}},
		{[]change{{rTemplate, "*", ""}, {"overlays/default/template/kustomization.yml", "", "resources: []\n"}}, []remedyStep{{"list the agent Job in its resources, as in ../../../base", []change{{"overlays/default/template/kustomization.yml", "[]", "[../../../base]"}}}}},
		{[]change{{rJob, "kind: Job", "kind: CronJob"}}, []remedyStep{{"muster orders agents as Jobs of batch/v1: rewrite it as one", []change{{rJob, "kind: CronJob", "kind: Job"}}}}},
		{[]change{{rJob, "apiVersion: batch/v1", "apiVersion: batch/v1beta1"}}, []remedyStep{{"muster orders agents as Jobs of batch/v1: rewrite it as one", []change{{rJob, "batch/v1beta1", "batch/v1"}}}}},
		{[]change{{rJob, "*", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: agent}\n"}}, []remedyStep{{"write the agent's pod there, as in the base", writeBase}}},
		{ // two objects, of which one becomes the overlay's own
			[]change{{rJob, "      containers:\n", rHooks}, {rTemplate, "", rMap}},
			[]remedyStep{{"move all but the agent Job next to the overlay's own kustomization.yaml", []change{{rTemplate, rMap, ""}, {rOwn, "", rMap}}}},
		},
		{ // the same in a directory that the overlay lists
			[]change{{rJob, "      containers:\n", rHooks}, {rOwn, "dispatches]", "dispatches, hooks]"}, {"overlays/default/hooks/kustomization.yaml", "", rMap}},
			nil,
		},
		{ // the same beside a field that changes nothing
			[]change{{rJob, "      containers:\n", rHooks}, {rOwn, "", rMap + "namespace: buildkite\n"}},
			nil,
		},
		{ // an object that the pods need
			[]change{{rJob, "      containers:\n", rHooks}, {"overlays/default/configmap.yaml", "name: muster-default", "name: hooks"}},
			nil,
		},
		{ // a generator whose own options have a hash
			[]change{{rJob, "      containers:\n", rHooks}, {rOwn, "", "secretGenerator: [{name: other, options: {disableNameSuffixHash: true}}]\nconfigMapGenerator: [{name: hooks, namespace: buildkite, literals: [a=b], options: {labels: {a: b}}}]\n"}},
			nil,
		},
		{ // an annotation with which kustomize leaves the Job out
			[]change{{rJob, "ssa: IfNotPresent", "ssa: IfNotPresent\n    config.kubernetes.io/local-config: \"true\""}},
			nil,
		},
		{
			[]change{{rTemplate, "", "commonAnnotations: {config.kubernetes.io/local-config: x}\n"}},
			[]remedyStep{{"remove it", []change{{rTemplate, "commonAnnotations: {config.kubernetes.io/local-config: x}\n", ""}}}},
		},

		// An overlay's own files.
		{[]change{{rPolicy, "*", ""}}, []remedyStep{{"muster init writes one", []change{{rPolicy, "*", sound(t)[rPolicy]}}}}},
		{[]change{{rOwn, "configmap.yaml, ", ""}}, []remedyStep{{"add one permanent object, as the ConfigMap that muster init writes", []change{{rOwn, "[dispatches", "[configmap.yaml, dispatches"}}}}},
		{[]change{{rOwn, ", dispatches", ""}}, []remedyStep{{"add dispatches to the list", []change{{rOwn, "configmap.yaml", "configmap.yaml, dispatches"}}}}},
		{[]change{{"overlays/default/dispatches/kustomization.yaml", "[]", "[x.yaml]"}}, []remedyStep{{"muster restores its files with its next commit", []change{{"overlays/default/dispatches/kustomization.yaml", "[x.yaml]", "[]"}}}}},
		{[]change{{"overlays/default/dispatches/kustomization.yaml", "[]", "[default-7f3k9c2b.yaml]"}, {stateOf, "", soundWithDispatch(t)[stateOf]}, {stampedFile, "", stamped(t)}, {stampedFile, "completions: 12", "completions: 11"}}, []remedyStep{{"restore the file from git", []change{{stampedFile, "completions: 11", "completions: 12"}}}}},
		{twoOverlays(t, false), []remedyStep{{"give each overlay its own", []change{{"overlays/other/configmap.yaml", "name: muster-default", "name: muster-other"}}}}},
		{twoOverlays(t, false), []remedyStep{{"give each overlay its own, as muster init --overlay does, or keep it in one directory that both list", []change{
			{"overlays/default/configmap.yaml", "*", ""}, {"overlays/other/configmap.yaml", "*", ""}, {"shared/configmap.yaml", "*", sound(t)["overlays/default/configmap.yaml"]}, {"shared/kustomization.yaml", "", "resources: [configmap.yaml]\n"},
			{rOwn, "configmap.yaml", "../../shared"}, {"overlays/other/kustomization.yaml", "configmap.yaml", "../../shared"},
		}}}},
		{twoOverlays(t, true), []remedyStep{{"give each overlay its own, as muster init --overlay does, or keep it in one directory that both list", []change{
			{rOwn, plainMap, ""}, {"overlays/other/kustomization.yaml", plainMap, ""}, {"shared/kustomization.yaml", "", plainMap},
			{rOwn, "configmap.yaml", "configmap.yaml, ../../shared"}, {"overlays/other/kustomization.yaml", "configmap.yaml", "configmap.yaml, ../../shared"},
		}}}},
		toTemplate("namePrefix: a-\n"), toTemplate("nameSuffix: -a\n"), toTemplate("namespace: other\n"),
		toTemplate("labels: [{pairs: {team: ci}, includeTemplates: true}]\n"), toTemplate("commonLabels: {team: ci}\n"), toTemplate("commonAnnotations: {a/b: c}\n"),
		toTemplate("images: [{name: buildkite/agent, newTag: '4'}]\n"), toTemplate("buildMetadata: [originAnnotations]\n"),
		toTemplate("patches: [{target: {kind: Job}, patch: '- {op: replace, path: /spec/ttlSecondsAfterFinished, value: 7200}'}]\n"),
		{ // a value that only the overlay has
			[]change{{rOwn, "", copied}},
			[]remedyStep{
				{"do it in overlays/default/template", []change{{rOwn, copied, ""}, {rTemplate, "", copied}}},
				{"fix what kustomize reports", []change{{rTemplate, copied, "labels: [{pairs: {a: muster-default}}]\n"}}},
			},
		},
		{
			[]change{{rOwn, "", "components: [c]\n"}, {"overlays/default/c/kustomization.yaml", "", "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\ncommonAnnotations: {a/b: c}\n"}},
			[]remedyStep{{"do it in overlays/default/template", []change{{rOwn, "components: [c]\n", ""}, {rTemplate, "", "components: [../c]\n"}}}},
		},
		{ // a target that is no Job of the template
			[]change{{rOwn, "", "patches: [{target: {kind: Job, name: default-.*}, patch: '- {op: replace, path: /spec/ttlSecondsAfterFinished, value: 7200}'}]\n"}},
			[]remedyStep{
				{"do it in overlays/default/template", []change{{rOwn, "*", sound(t)[rOwn]}, {rTemplate, "", "patches: [{target: {kind: Job, name: default-.*}, patch: '- {op: replace, path: /spec/ttlSecondsAfterFinished, value: 7200}'}]\n"}}},
				{"the Job is named agent", []change{{rTemplate, "default-.*", "agent"}}},
			},
		},
		{
			[]change{{rTemplate, "", "patches: [{target: {kind: Deployment}, patch: '- {op: add, path: /metadata/labels/a, value: b}'}]\n"}},
			[]remedyStep{{"the Job is named agent", []change{{rTemplate, "{kind: Deployment}", "{kind: Job, name: agent}"}}}},
		},
		{
			[]change{{rTemplate, "", "namePrefix: x-\npatches: [{target: {kind: Job, name: agnet}, patch: '- {op: add, path: /metadata/labels/a, value: b}'}]\n"}},
			[]remedyStep{{"the Job is named x-agent", []change{{rTemplate, "agnet", "x-agent"}}}},
		},

		// The syncer's manifests.
		{broken: []change{{rSyncer, "", rFlux + "  force: true\n"}}},
		{[]change{{rSyncer, "", rArgo + "  syncPolicy: {syncOptions: [Replace=true]}\n"}}, []remedyStep{{"remove that option", []change{{rSyncer, "[Replace=true]", "[]"}}}}},
		fromSyncer(rSet, "spec:\n", "spec:\n  templatePatch: 'spec: {source: {kustomize: {nameSuffix: -a}}}'\n", "nameSuffix: -a\n"),
		fromSyncer(rFlux, "spec:\n", "spec:\n  targetNamespace: other\n", "namespace: other\n"),
		fromSyncer(rFlux, "spec:\n", "spec:\n  commonMetadata: {labels: {a: b}}\n", "labels: [{pairs: {a: b}}]\n"),
		fromSyncer(rArgo, "kustomize: {}", "kustomize: {nameSuffix: -a}", "nameSuffix: -a\n"),
		fromSyncer(rArgo, "kustomize: {}", "kustomize: {commonLabels: {a: b}}", "commonLabels: {a: b}\n"),

		// Kustomizations that are refused before they are built, and those that do not build.
		{[]change{{rTemplate, "", "#" + strings.Repeat("x", maxParsed) + "\n"}}, []remedyStep{{"move patches to files of their own, or list directories", []change{{rTemplate, "#" + strings.Repeat("x", maxParsed) + "\n", ""}}}}},
		{[]change{{rTemplate, "", "labels: [{pairs: &a {a: b}}]\n"}}, []remedyStep{{"write the value out", []change{{rTemplate, "&a ", ""}}}}},
		{[]change{{rTemplate, "resources", "resorces"}}, []remedyStep{{"correct or remove the unknown part", []change{{rTemplate, "resorces", "resources"}}}}},
		{[]change{{rTemplate, "", "helmCharts: [{name: a}]\n"}}, []remedyStep{{"muster and the syncer build plain kustomizations only", []change{{rTemplate, "helmCharts: [{name: a}]\n", ""}}}}},
		{[]change{{rTemplate, "../../../base", "https://example.com/base"}}, []remedyStep{{"copy it there: muster fetches nothing", []change{{rTemplate, "https://example.com/base", "../../../base"}}}}},
		{[]change{{rTemplate, "../../../base", "../../../../base"}}, []remedyStep{{"copy it into the repository", []change{{rTemplate, "../../../../base", "../../../base"}}}}},
		{[]change{{rTemplate, "../../../base", "../../base"}}, []remedyStep{{"correct the path", []change{{rTemplate, "../../base", "../../../base"}}}}},
		{[]change{{rTemplate, "../../../base", "job.yaml"}}, []remedyStep{{"correct the path, or add what it names", []change{{"overlays/default/template/job.yaml", "*", string(base)}}}}},
		{[]change{{rTemplate, "../../../base", "../../../base/job.yaml"}}, []remedyStep{{"list that directory, with a kustomization.yaml in it", []change{{rTemplate, "/job.yaml", ""}}}}},
		{[]change{{rBase, "job.yaml", "linked.yaml"}, {"base/linked.yaml", "", linkTo + "job.yaml"}}, []remedyStep{{"put a file in its place", []change{{"base/linked.yaml", "*", string(base)}}}}},
		{
			[]change{{rOwn, "", "configMapGenerator: [{name: big, files: [big], options: {disableNameSuffixHash: true}}]\n"}, {"overlays/default/big", "", strings.Repeat("x", maxRead)}},
			[]remedyStep{{"keep large files in the image", []change{{rOwn, "files: [big], ", ""}}}},
		},
		{[]change{{rJob, "kind: Job", " kind: Job"}}, []remedyStep{{"indent the line like its neighbours", []change{{rJob, " kind: Job", "kind: Job"}}}}},
		{[]change{{rJob, "    spec:\n", "    spec:\n      hostNetwork: false\n      hostNetwork: true\n"}}, []remedyStep{{"fix what kustomize reports", []change{{rJob, "      hostNetwork: true\n", ""}}}}},
	}
	return append(rows, requiredRows()...)
}

const (
	// linkTo is the content of a symbolic link, before its target.
	linkTo   = "link to "
	plainMap = "configMapGenerator: [{name: same, namespace: buildkite, options: {disableNameSuffixHash: true}}]\n"
)

// requiredRows has rows for the tables of values that checkJob requires, and of fields that it refuses.
func requiredRows() []remedyRow {
	line := func(s spelled, value string) change {
		key := s.at[len(s.at)-1]
		switch {
		case strings.Contains(strings.Join(s.at, "."), "template.metadata"):
			return change{rJob, "        karpenter", "        " + key + ": " + value + "\n        karpenter"}
		case s.at[0] == "metadata" && len(s.at) == 2:
			return change{rJob, "  labels:\n", "  " + key + ": " + value + "\n  labels:\n"}
		case s.at[1] == "labels":
			return change{rJob, "  labels:\n", "  labels:\n    " + key + ": " + value + "\n"}
		case s.at[0] == "metadata":
			return change{rJob, "ssa: IfNotPresent\n", "ssa: IfNotPresent\n    " + key + ": " + value + "\n"}
		}
		return change{rJob, "  backoffLimitPerIndex: 0\n", "  backoffLimitPerIndex: 0\n  " + key + ": " + value + "\n"}
	}
	bad := map[string]string{
		"generateName": "agent-", "suspend": "true", "managedBy": "x/y", "successPolicy": "{rules: [{succeededCount: 1}]}",
		"maxFailedIndexes": "1", "backoffLimit": "6",
		"kustomize.toolkit.fluxcd.io/reconcile": "Disabled", "kustomize.toolkit.fluxcd.io/force": "Enabled",
	}
	var rows []remedyRow
	for _, s := range forbidden {
		value := bad[s.at[len(s.at)-1]]
		if value == "" {
			value = "x"
		}
		rows = append(rows, remedyRow{broken: []change{line(s, value)}})
	}
	for _, s := range required {
		// [brokenFields] makes two rows of each.
		rows = append(rows, remedyRow{broken: []change{{"", strings.Join(s.at, " "), ""}}}, remedyRow{broken: []change{{"", strings.Join(s.at, " "), "Never-of-this"}}})
	}
	return rows
}

// twoOverlays has a second overlay with an object of the first: from a file of its own, or generated.
func twoOverlays(t *testing.T, generated bool) []change {
	f := sound(t)
	var all []change
	for _, name := range f.copy("overlays/default", "overlays/other").names() {
		if strings.HasPrefix(name, "overlays/other/") {
			all = append(all, change{name, "", f[name]})
		}
	}
	if generated {
		all = append(all, change{"overlays/other/configmap.yaml", "muster-default", "muster-other"}, change{rOwn, "", plainMap}, change{"overlays/other/kustomization.yaml", "", plainMap})
	}
	return append(all, change{"overlays/other/scaling.yaml", "queue: default", "queue: other"})
}

// fieldEdit sets the field of a YAML file, or removes it if value is nil.
func (f files) fieldEdit(t *testing.T, file string, path []string, value *yaml.Node) {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(f[file]), &doc); err != nil {
		t.Fatal(err)
	}
	n := doc.Content[0]
	for i, key := range path {
		last := i == len(path)-1
		index, isIndex := strings.CutPrefix(key, "[")
		number, err := strconv.Atoi(strings.TrimSuffix(index, "]"))
		if isIndex && err == nil {
			if last && value == nil {
				n.Content = slices.Delete(n.Content, number, number+1)
				break
			}
			n = n.Content[number]
			continue
		}
		key = strings.TrimSuffix(strings.TrimPrefix(key, "["), "]")
		at := 0
		for at < len(n.Content) && n.Content[at].Value != key {
			at += 2
		}
		switch {
		case last && value == nil:
			if at >= len(n.Content) {
				t.Fatalf("%s: no field %q", file, path)
			}
			n.Content = slices.Delete(n.Content, at, at+2)
		case last && at < len(n.Content):
			n.Content[at+1] = value
		case last:
			n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, value)
		case at < len(n.Content):
			n = n.Content[at+1]
		default:
			below := &yaml.Node{Kind: yaml.MappingNode}
			n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, below)
			n = below
		}
	}
	text, err := encode(&doc)
	if err != nil {
		t.Fatal(err)
	}
	f[file] = string(text)
}

var (
	fieldPart  = regexp.MustCompile(`\[[^\]]*\]|[^.\[\]]+`)
	writeField = regexp.MustCompile(`^write ([\w./-]+): (.+)$`)
	writeMore  = regexp.MustCompile(`^write (more than )?(\d+)\b`)
	writeWord  = regexp.MustCompile(`^write (\w+)(,| or |$)`)
	addRule    = regexp.MustCompile(`^add a rule (\{.*\})$`)
	variableOf = regexp.MustCompile(`^give the agent an environment variable with valueFrom\.fieldRef\.fieldPath: (.*)$`)
)

// follow applies a remedy that is an edit of the finding's field, and reports whether it is one.
func (f files) follow(t *testing.T, x finding.Finding) bool {
	path := fieldPart.FindAllString(x.Field, -1)
	parse := func(text string) *yaml.Node {
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatal(err)
		}
		return doc.Content[0]
	}
	scalar := func(value string) *yaml.Node {
		n := parse(value)
		if n.Kind == yaml.ScalarNode && strings.Contains(x.Field, "annotations") {
			n.Style, n.Tag = yaml.DoubleQuotedStyle, "!!str"
		}
		return n
	}
	if text, ok := strings.CutPrefix(x.Remedy, "write "); ok && strings.HasSuffix(x.Field, "nnotations") {
		for pair := range strings.SplitSeq(text, " and ") {
			key, value, _ := strings.Cut(pair, ": ")
			f.fieldEdit(t, x.File, append(slices.Clone(path), "["+key+"]"), scalar(value))
		}
		return true
	}
	if m := writeField.FindStringSubmatch(x.Remedy); m != nil {
		at := path[:max(0, len(path)-1)]
		if last := path[len(path)-1]; last == "["+m[1]+"]" {
			m[1] = last
		}
		f.fieldEdit(t, x.File, append(slices.Clone(at), m[1]), scalar(m[2]))
		return true
	}
	if m := writeMore.FindStringSubmatch(x.Remedy); m != nil {
		n, _ := strconv.Atoi(m[2])
		if m[1] != "" {
			n++
		}
		f.fieldEdit(t, x.File, path, parse(strconv.Itoa(n)))
		return true
	}
	if m := writeWord.FindStringSubmatch(x.Remedy); m != nil {
		f.fieldEdit(t, x.File, path, parse(m[1]))
		return true
	}
	if m := addRule.FindStringSubmatch(x.Remedy); m != nil {
		f.fieldEdit(t, x.File, path, parse("["+m[1]+"]"))
		return true
	}
	if m := variableOf.FindStringSubmatch(x.Remedy); m != nil {
		f.edit(t, rJob, rEnv, rEnv+"            - {name: ADDED, valueFrom: {fieldRef: {fieldPath: \""+m[1]+"\"}}}\n")
		return true
	}
	if strings.HasPrefix(x.Remedy, "remove it") || strings.HasPrefix(x.Remedy, "remove the variable") {
		f.fieldEdit(t, x.File, path, nil)
		return true
	}
	return false
}

// linked is the tree of files, some of which are symbolic links.
func (f files) linked() fs.FS {
	m := f.tree().(fstest.MapFS)
	for name, content := range f {
		if target, ok := strings.CutPrefix(content, linkTo); ok {
			m[name] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink}
		}
	}
	return m
}

// TestRemediesEnd follows the remedy of each finding on a template, on an overlay's kustomization and
// on the syncer's manifests. The finding must be gone, and no sequence of remedies may lead back to
// an earlier state of the files. Each finding in the source code needs a row.
func TestRemediesEnd(t *testing.T) {
	unraced.Only(t)
	sites := findingSites(t)
	for i, row := range remedyRows(t) {
		f := sound(t)
		if row.broken[0].file == "" { // a field of the Job
			path := strings.Fields(row.broken[0].old)
			var value *yaml.Node
			if row.broken[0].new != "" {
				value = &yaml.Node{Kind: yaml.ScalarNode, Value: row.broken[0].new}
			}
			f.fieldEdit(t, rJob, path, value)
		} else {
			f.change(t, row.broken)
		}
		name := fmt.Sprintf("row %d, %.200q", i, row.broken)
		steps, seen := row.steps, map[string]bool{}
		found := checkReserved(f)
		if len(found) == 0 {
			t.Errorf("%s: no finding", name)
		}
		for step := 0; len(found) > 0; step++ {
			state := fmt.Sprint(map[string]string(f))
			if seen[state] || step > 6 {
				t.Errorf("%s: remedies lead back, or do not end: %s", name, found[0])
				break
			}
			seen[state] = true
			x := found[0]
			for _, x := range found {
				for _, s := range sites {
					s.covered = s.covered || s.matches(x)
				}
			}
			if len(steps) > 0 && strings.HasPrefix(x.Remedy, steps[0].remedy) {
				f.change(t, steps[0].changes)
				steps = steps[1:]
			} else if !f.follow(t, x) {
				t.Errorf("%s: no step for the remedy of %s", name, x)
				break
			}
			if found = checkReserved(f); slices.ContainsFunc(found, func(y finding.Finding) bool {
				return y.File == x.File && y.Field == x.Field && y.Problem == x.Problem
			}) {
				t.Errorf("%s: the remedy does not remove the finding %s\n%s", name, x, f[x.File])
				break
			}
		}
		if len(steps) > 0 {
			t.Errorf("%s: nothing has the remedy %q", name, steps[0].remedy)
		}
	}
	for _, s := range sites {
		if !s.covered {
			t.Errorf("%s: no row has this finding: %s", s.at, s.pattern)
		}
	}
}

// checkReserved is check with a reserved namespace.
func checkReserved(f files) []finding.Finding {
	findings, _ := NewLoader("overlays").Reserve("muster").Check(context.Background(), f.linked())
	return findings
}

// site is a finding in the source code of this package.
type site struct {
	at      string
	pattern *regexp.Regexp
	covered bool
}

func (s *site) matches(f finding.Finding) bool {
	return s.pattern.MatchString(f.Problem + "; " + f.Remedy)
}

// otherFindings are the files whose findings are not about templates: about manifests and state, which
// muster writes, about where overlays are, and about a change of them.
var otherFindings = []string{"build.go", "discovery.go", "identity.go", "join.go", "loader.go", "orders.go", "overlay.go", "removed.go", "repair.go", "statefile.go"}

// findingSites returns the findings that the source code of this package contains: the arguments of
// bad, harm and add, the fields and assignments of Problem and Remedy, and the rows of the tables. Values
// that are not in the source, such as those of a caller, match anything.
func findingSites(t *testing.T) []*site {
	t.Helper()
	var sites []*site
	add := func(at, problem, remedy string) {
		if strings.Trim(problem, ".*:; ") != "" {
			sites = append(sites, &site{at: at, pattern: regexp.MustCompile("^" + problem + "; " + remedy + "$")})
		}
	}
	for _, s := range required {
		add("required", "is .*: "+regexp.QuoteMeta(s.reason), ".*")
	}
	for _, s := range forbidden {
		add("forbidden", regexp.QuoteMeta(s.reason), ".*")
	}
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || slices.Contains(otherFindings, name) {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			at := ""
			if n != nil {
				at = set.Position(n.Pos()).String()
			}
			switch n := n.(type) {
			case *ast.CallExpr:
				if method, ok := n.Fun.(*ast.SelectorExpr); ok {
					first := map[string]int{"bad": 0, "harm": 0, "add": 1}
					i, known := first[method.Sel.Name]
					if known && name == "checksyncer.go" {
						i = 2
					}
					if known && len(n.Args) > i+1 {
						add(at, patternOf(n.Args[i]), patternOf(n.Args[i+1]))
					}
				}
			case *ast.CompositeLit:
				problem, remedy := "", ".*"
				for _, e := range n.Elts {
					if pair, ok := e.(*ast.KeyValueExpr); ok {
						switch key, _ := pair.Key.(*ast.Ident); {
						case key == nil:
						case key.Name == "Problem":
							problem = patternOf(pair.Value)
						case key.Name == "Remedy":
							remedy = patternOf(pair.Value)
						}
					}
				}
				add(at, problem, remedy)
			case *ast.AssignStmt:
				for i, l := range n.Lhs {
					if field, ok := l.(*ast.SelectorExpr); ok && n.Tok == token.ASSIGN && field.Sel.Name == "Problem" && i < len(n.Rhs) {
						add(at, patternOf(n.Rhs[i]), ".*")
					}
				}
			}
			return true
		})
	}
	return sites
}

var verb = regexp.MustCompile(`%[a-z]`)

// patternOf returns a regular expression for the value of a string expression.
func patternOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value)
		return regexp.QuoteMeta(text)
	case *ast.BinaryExpr:
		return patternOf(e.X) + patternOf(e.Y)
	case *ast.CallExpr:
		if f, ok := e.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Sprintf" {
			return verb.ReplaceAllString(patternOf(e.Args[0]), ".*")
		}
	}
	return ".*"
}
