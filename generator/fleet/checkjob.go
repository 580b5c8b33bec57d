package fleet

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"muster/generator/finding"
	"muster/generator/kubernetes"
	"muster/generator/plan"
	"muster/generator/policy"
)

// jobChecker collects the problems of one template.
type jobChecker struct {
	overlay  *Overlay
	job      *yaml.Node
	findings []finding.Finding
	// onlyHarm leaves out what ends no running agent and starts none that was not ordered.
	onlyHarm bool
}

func (c *jobChecker) bad(problem, remedy string, at ...string) { c.add(false, problem, remedy, at) }

// harm is bad for what could end running agents, or start more than were ordered: it suspends the
// overlay.
func (c *jobChecker) harm(problem, remedy string, at ...string) { c.add(true, problem, remedy, at) }

func (c *jobChecker) add(harms bool, problem, remedy string, at []string) {
	if c.onlyHarm && !harms {
		return
	}
	c.findings = append(c.findings, finding.Finding{File: c.overlay.templateFile(), Field: finding.Field(at), Problem: problem, Remedy: remedy})
}

// checkJob validates the template's Job by the contract with Kubernetes, Argo
// CD, Flux and the agent. job may be a dispatch of the template.
func checkJob(o *Overlay, job *yaml.Node, onlyHarm bool) []finding.Finding {
	c := &jobChecker{overlay: o, job: job, onlyHarm: onlyHarm}
	for _, want := range required {
		n := finding.Lookup(c.job, want.at...)
		switch {
		case n == nil:
			c.add(want.harms, "is missing: "+want.reason, instead(want), want.at)
		case missing(listOf(n.Value), want.want):
			c.add(want.harms, "is "+finding.Quote(n.Value)+": "+want.reason, instead(want), want.at)
		}
	}
	for _, never := range forbidden {
		n := finding.Lookup(c.job, never.at...)
		if n != nil && !allowed(never.at[len(never.at)-1], n.Value) {
			c.add(never.harms, never.reason, "remove it", never.at)
		}
	}
	sync := annotation("argocd.argoproj.io/sync-options")
	for _, option := range listOf(finding.Scalar(c.job, sync...)) {
		if option == "Replace=true" || option == "Force=true" {
			c.harm("has "+option+": Argo CD would delete a running Job to create it again", "remove that option", sync...)
		}
	}
	if finding.Scalar(c.job, "metadata", "namespace") == "" {
		c.bad("is missing: Flux and Argo CD need it in the file", "write the namespace of the agents", "metadata", "namespace")
	}
	c.substitution(o)
	c.times(o)
	c.failures()
	c.agent()
	c.token()
	c.ports()
	c.hook()
	return c.findings
}

// substitution checks that Flux leaves the Job as it is. With spec.postBuild, it replaces ${NAME}
// and its functions, and $$, in the whole text of an object, unless a label or annotation says
// otherwise (fluxcd.io/flux/components/kustomize/kustomizations "Post build variable substitution").
func (c *jobChecker) substitution(o *Overlay) {
	if keepsVariables(c.job) {
		return
	}
	replaced := substituted(c.job)
	for _, tag := range o.Policy.Tags {
		replaced = cmp.Or(replaced, variable.FindString(tag))
	}
	if replaced != "" {
		c.bad("is missing: Flux would replace "+finding.Quote(replaced)+" if its Kustomization has postBuild", "write "+substituteKey+": "+substituteOff, annotation(substituteKey)...)
	}
}

const substituteKey, substituteOff = "kustomize.toolkit.fluxcd.io/substitute", "disabled"

// keepsVariables reports whether an object tells Flux to replace nothing.
func keepsVariables(object *yaml.Node) bool {
	return finding.Scalar(object, annotation(substituteKey)...) == substituteOff || finding.Scalar(object, "metadata", "labels", substituteKey) == substituteOff
}

// substituted returns the first text of an object that Flux replaces; it may be empty.
func substituted(object *yaml.Node) (replaced string) {
	if keepsVariables(object) {
		return ""
	}
	walk(object, nil, func(n *yaml.Node, _ []string) {
		if replaced == "" {
			replaced = variable.FindString(n.Value)
		}
	})
	return replaced
}

// variable matches what Flux replaces.
var variable = regexp.MustCompile(`\$\$|\$\{[^}]*\}?`)

func (c *jobChecker) times(o *Overlay) {
	const hour = 3600
	lease := int(policy.LongestOf(o.Policy) / time.Second)
	least := max(hour, lease+600)
	ttl := []string{"spec", "ttlSecondsAfterFinished"}
	why := "a Job that is deleted while it is in git runs again"
	if n, ok := finding.Integer(c.job, ttl...); !ok {
		c.bad("is missing: finished Jobs would never be deleted", fmt.Sprintf("write %d or more: %s", least, why), ttl...)
	} else if n < least {
		c.add(n < lease, fmt.Sprintf("%d is too short: %s", n, why), fmt.Sprintf("write %d or more: an hour, and the lease with ten minutes to spare", least), ttl)
	}
	deadline := []string{"spec", "activeDeadlineSeconds"}
	waits, what := lease+int(max(o.Policy.IdleTimeout, o.Policy.WarmIdleTimeout)/time.Second), "longest idle time-out"
	if reuse := o.Policy.Reuse; reuse.On() {
		waits, what = lease+int(reuse.Uptime/time.Second), "uptime"
	}
	if n, ok := finding.Integer(c.job, deadline...); ok && n <= waits {
		c.harm(fmt.Sprintf("%d is too short: it terminates busy agents", n), fmt.Sprintf("write more than %d, which is the lease and the %s, and add the longest build", waits, what), deadline...)
	}
	pod := []string{"spec", "template", "spec", "activeDeadlineSeconds"}
	if n, ok := finding.Integer(c.job, pod...); ok && n <= waits {
		c.harm(fmt.Sprintf("%d is too short: it terminates busy agents", n), fmt.Sprintf("remove it, or write more than %d", waits), pod...)
	}
}

// failures checks that Kubernetes' response to a failed agent affects only that agent.
func (c *jobChecker) failures() {
	perIndex := []string{"spec", "backoffLimitPerIndex"}
	if _, ok := finding.Integer(c.job, perIndex...); !ok {
		c.harm("is missing: a few failed agents would terminate all busy ones", "write backoffLimitPerIndex: 0", perIndex...)
	}
	replacement := []string{"spec", "podReplacementPolicy"}
	if v := finding.Scalar(c.job, replacement...); v != "" && v != "Failed" {
		c.harm("is "+finding.Quote(v)+": an agent would be replaced while it still runs", "write podReplacementPolicy: Failed", replacement...)
	}
	at := []string{"spec", "podFailurePolicy", "rules"}
	rules := finding.Lookup(c.job, at...)
	ignores := false
	if rules != nil && rules.Kind == yaml.SequenceNode {
		for i, rule := range rules.Content {
			action := finding.Scalar(rule, "action")
			if action == "FailJob" {
				c.harm("is FailJob: one failed agent would terminate all busy ones", "write FailIndex", below(at, nth(i), "action")...)
			}
			conditions := finding.Items(finding.Lookup(rule, "onPodConditions"))
			ignores = ignores || action == "Ignore" && slices.ContainsFunc(conditions, func(n *yaml.Node) bool {
				return finding.Scalar(n, "type") == "DisruptionTarget"
			})
		}
	}
	if !ignores {
		c.bad("does not ignore DisruptionTarget: an agent whose node is drained before it starts would count as failed", "add a rule {action: Ignore, onPodConditions: [{type: DisruptionTarget}]}", at...)
	}
}

// agent checks that the pod reads muster's annotations. It does not check how the pod uses them.
func (c *jobChecker) agent() {
	at := []string{"spec", "template", "spec"}
	pod := finding.Lookup(c.job, at...)
	reads, indexed := map[string]bool{}, false
	walk(pod, at, func(n *yaml.Node, way []string) {
		if finding.Scalar(n, "name") == "BUILDKITE_AGENT_QUEUE" {
			c.bad("sets BUILDKITE_AGENT_QUEUE: the queue is among the agent's tags, and an agent that is given it twice ends at once (\"Queue must be present in only one of\")",
				"remove the variable: the queue is spec.queue of scaling.yaml", way...)
		}
		if ref := finding.Scalar(n, "fieldRef", "fieldPath"); ref != "" {
			key := strings.TrimSuffix(strings.TrimPrefix(ref, "metadata.annotations['"), "']")
			reads[key] = true
			indexed = indexed || strings.HasSuffix(key, "job-completion-index")
			// The whole map, as a file of a downwardAPI volume.
			reads["all"] = reads["all"] || ref == "metadata.annotations"
		}
		indexed = indexed || n.Kind == yaml.ScalarNode && strings.Contains(n.Value, "JOB_COMPLETION_INDEX")
	})
	for _, want := range []struct {
		key, reason string
		harms       bool
	}{
		{AnnotationAgentTags, "the agent would have no tags, and muster would never count it", true},
		{AnnotationNotAfter, "the agent would not check its lease, and would start after muster has presumed it lost", true},
		{AnnotationIdleTimeout, "the agent would have no idle time-out, and would never exit", false},
	} {
		if !reads[want.key] && !reads["all"] {
			c.add(want.harms, "nothing reads the annotation "+want.key+": "+want.reason, fmt.Sprintf("give the agent an environment variable with valueFrom.fieldRef.fieldPath: metadata.annotations['%s']", want.key), at)
		}
	}
	if c.overlay.Policy.Reuse.On() && !reads[AnnotationUptime] && !reads["all"] {
		c.bad("nothing reads the annotation "+AnnotationUptime+": each agent would exit after one job, although scaling.yaml has spec.reuse",
			"copy the command and the variables of the base that muster init writes", at...)
	}
	if !indexed {
		c.bad("nothing reads the agent's index: agents of one dispatch could not be distinguished", "add the tag index=$JOB_COMPLETION_INDEX", at...)
	}
}

// token checks that the variable with the agent token, which the command reads, is set.
func (c *jobChecker) token() {
	const name = "BUILDKITE_AGENT_TOKEN"
	at := []string{"spec", "template", "spec", "containers"}
	for i, container := range finding.Items(finding.Lookup(c.job, at...)) {
		used := commandWith(container, "$"+name, "${"+name) != ""
		set := finding.Lookup(container, "envFrom") != nil
		for _, v := range finding.Items(finding.Lookup(container, "env")) {
			set = set || finding.Scalar(v, "name") == name
		}
		if used && !set {
			c.bad("the command reads "+name+", and no variable of that name is set: no agent could register", "name the variable with the token "+name, below(at, nth(i), "env")...)
		}
	}
	grace := []string{"spec", "template", "spec", "terminationGracePeriodSeconds"}
	if n, ok := finding.Integer(c.job, grace...); ok && n < 0 {
		c.bad(fmt.Sprintf("%d is negative: Kubernetes uses 1, and a build ends with its node", n), "write how many seconds a build may take to end, as in 3600", grace...)
	}
}

// ports checks that a port does not keep a second agent from a node.
func (c *jobChecker) ports() {
	pod := []string{"spec", "template", "spec"}
	host := finding.Scalar(c.job, below(pod, "hostNetwork")...) == "true"
	at := below(pod, "containers")
	for i, container := range finding.Items(finding.Lookup(c.job, at...)) {
		for j, port := range finding.Items(finding.Lookup(container, "ports")) {
			if n, ok := finding.Integer(port, "hostPort"); host || ok && n > 0 {
				c.bad("is a port of the node: only one agent fits on each node", "remove hostNetwork and hostPort, or the port and the probe that uses it", below(at, nth(i), "ports", nth(j))...)
			}
		}
	}
}

// hook checks for the hook that ends an agent which registers after its lease; the base contains
// it since 0.3. muster cannot see a hook inside an image: a comment in the command that
// contains the hook's name counts too.
func (c *jobChecker) hook() {
	const name = "agent-startup"
	at := []string{"spec", "template", "spec", "containers"}
	for i, container := range finding.Items(finding.Lookup(c.job, at...)) {
		starts := commandWith(container, "buildkite-agent-entrypoint start", "buildkite-agent start")
		if starts != "" && commandWith(container, name) == "" {
			c.bad("the base lacks the hook "+name+": a late agent would register after its lease, when another was ordered in its place",
				"copy the command of the base that muster init writes; where the image has the hook, say "+name+" in a comment of the command", below(at, nth(i), starts)...)
		}
	}
}

// commandWith returns the field of a container, command or args, that contains one of the words; empty
// if neither does.
func commandWith(container *yaml.Node, words ...string) (found string) {
	for _, field := range []string{"command", "args"} {
		walk(finding.Lookup(container, field), nil, func(n *yaml.Node, _ []string) {
			if slices.ContainsFunc(words, func(word string) bool { return strings.Contains(n.Value, word) }) {
				found = field
			}
		})
	}
	return found
}

// walk visits n, which is at a path, and all nodes below it.
func walk(n *yaml.Node, at []string, visit func(n *yaml.Node, at []string)) {
	if n == nil {
		return
	}
	visit(n, at)
	for i, child := range n.Content {
		switch {
		case n.Kind == yaml.SequenceNode:
			walk(child, below(at, nth(i)), visit)
		case i%2 == 1:
			walk(child, below(at, n.Content[i-1].Value), visit)
		}
	}
}

// below returns the path of a child.
func below(at []string, keys ...string) []string { return slices.Concat(at, keys) }

// nth returns the path element of a list's n-th element.
func nth(i int) string { return fmt.Sprintf("[%d]", i) }

// judge sets the reasons for which the Kubernetes API server would refuse the overlay's dispatches as
// built, with a finding on a reserved namespace, and the findings of [Loader.Check] for which the
// overlay may order nothing. It computes them once for each build of the template and of the
// overlay, and for each policy. job is the built Job as nodes; nil if it was not parsed yet.
func (l *Loader) judge(o *Overlay, probe plan.Dispatch, job *yaml.Node, full *memo) {
	template := l.used["template "+path.Join(o.Path, templateDir)]
	if o.built == nil || template == nil || full == nil {
		return
	}
	if full.judged != template || full.judgedFor != o.policyKey {
		if job == nil {
			var wrong *finding.Finding
			if job, wrong = finding.ParseOne(o.Path, o.built); wrong != nil {
				o.refused = []finding.Finding{*wrong}
				return
			}
		}
		full.judged, full.judgedFor = template, o.policyKey
		full.harmful = checkJob(o, job, true)
		full.refused = l.refusals(o, probe, job)
		full.altered = nil
		if f, identity := o.transformed(); f != nil && (identity || len(full.harmful) > 0) {
			if full.harmful = []finding.Finding{*f}; !keepsJob(job) {
				full.altered = f
			}
		}
	}
	o.harmful, o.refused = full.harmful, full.refused
	if full.altered != nil {
		o.reject(*full.altered)
	}
}

// refusals returns the reasons for which the API server would refuse a dispatch.
func (l *Loader) refusals(o *Overlay, probe plan.Dispatch, job *yaml.Node) (refused []finding.Finding) {
	longestNamed(job, probe.ID, o)
	for _, p := range append(l.intoReserved(job), kubernetes.Validate(job)...) {
		f := finding.Finding{File: o.templateFile(), Field: finding.Field(p.Path), Problem: p.Problem, Remedy: p.Remedy}
		if !strings.Contains(f.Problem, "Kubernetes") {
			f.Problem += ": Kubernetes " + kubernetes.Version + " refuses that"
		}
		refused = append(refused, f)
		if len(refused) > maxFindings {
			return atMost(o, refused)
		}
	}
	return refused
}

// intoReserved is a problem of a Job whose namespace is reserved; see [Loader.Reserve].
func (l *Loader) intoReserved(job *yaml.Node) []kubernetes.Problem {
	at := []string{"metadata", "namespace"}
	if !slices.Contains(l.reserved, finding.Scalar(job, at...)) {
		return nil
	}
	return []kubernetes.Problem{{
		Path: at, Problem: "is the namespace of muster itself, where Kubernetes lets every pod mount muster's Secrets",
		Remedy: "use a namespace for agents, such as buildkite",
	}}
}

// longestNamed gives the proof's dispatch a name as long as the overlay's longest, including the
// index of its last pod.
func longestNamed(job *yaml.Node, id string, o *Overlay) {
	name := finding.Lookup(job, "metadata", "name")
	if name == nil {
		return
	}
	last := strconv.Itoa(plan.JobAgents - 1)
	longest := o.Slug() + "-warm-" + strings.Repeat("0", 8) + strings.Repeat("0", len(last)-1)
	name.Value = strings.Replace(name.Value, id, longest, 1)
}

// withoutFields returns the findings except those on fields that others concern.
func withoutFields(findings, others []finding.Finding) []finding.Finding {
	return slices.DeleteFunc(findings, func(f finding.Finding) bool {
		return f.Field != "" && slices.ContainsFunc(others, func(x finding.Finding) bool { return strings.HasPrefix(x.Field, f.Field) })
	})
}
