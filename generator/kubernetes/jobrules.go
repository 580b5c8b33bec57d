package kubernetes

import "fmt"

// job checks the Job as a whole.
func (c *checker) job(s spot) {
	meta, spec := s.at("metadata"), s.at("spec")
	if ns := meta.at("namespace"); ns.text() != "" && !isLabel(ns.text()) {
		c.badValue(ns, "is not a valid name of a namespace", nameFormats["label"].remedy)
	}
	last, _ := spec.at("completions").number()
	if name := meta.at("name"); name.text() != "" && !isLabel(name.text()+"-"+decimal(max(0, last-1))) {
		c.badValue(name, "is not a valid name: the host name of a pod is this and its index", nameFormats["label"].remedy)
	}
	if !spec.set() {
		c.missing(spec)
		return
	}
	c.selector(spec)
	c.counts(spec)
	c.failurePolicy(spec)
	pod := spec.at("template", "spec")
	restart := pod.at("restartPolicy")
	switch v := restart.text(); {
	case v == "":
		c.bad(restart, "is missing, and Kubernetes takes Always, which a Job must not have", "write restartPolicy: Never")
	case v != "Never" && v != "OnFailure":
		c.badf(restart, "write restartPolicy: Never", "is %s, which a Job must not have", restart.quoted())
	case v != "Never" && spec.at("podFailurePolicy").set():
		c.badf(restart, "write restartPolicy: Never", "is %s with a podFailurePolicy", restart.quoted())
	}
	c.pod(pod)
}

// selector refuses a selector and the labels that it would select by: Kubernetes sets both, unless the
// selector is manual.
func (c *checker) selector(spec spot) {
	if spec.at("manualSelector").isTrue() {
		return
	}
	labels := spec.at("template", "metadata", "labels")
	for _, f := range []string{"matchLabels", "matchExpressions"} {
		if at := spec.at("selector", f); len(at.keys())+len(at.items()) > 0 {
			c.bad(at, "is made by Kubernetes", "remove the selector")
		}
	}
	for _, key := range []string{"controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"} {
		if at := labels.at(key); at.set() {
			c.bad(at, "is made by Kubernetes", "remove it")
		}
	}
}

// counts checks the fields that need completionMode: Indexed.
func (c *checker) counts(spec spot) {
	indexed := spec.at("completionMode").text() == "Indexed"
	completions, counted := spec.at("completions").number()
	for _, f := range []string{"backoffLimitPerIndex", "maxFailedIndexes"} {
		if at := spec.at(f); at.set() && !indexed {
			c.bad(at, "needs completionMode: Indexed", "write completionMode: Indexed")
		}
	}
	if indexed && !counted {
		c.missing(spec.at("completions"))
	}
	failed := spec.at("maxFailedIndexes")
	if n, ok := failed.number(); ok {
		if !spec.at("backoffLimitPerIndex").set() {
			c.bad(failed, "needs backoffLimitPerIndex", "write backoffLimitPerIndex: 0")
		}
		if counted && n > completions {
			c.badf(failed, "remove it", "is %d, and a dispatch of one agent has one index", n)
		}
	}
	if at := spec.at("podReplacementPolicy"); at.set() && spec.at("podFailurePolicy").set() && at.text() != "Failed" {
		c.badf(at, "write podReplacementPolicy: Failed", "is %s with a podFailurePolicy", at.quoted())
	}
}

// failurePolicy checks the rules of the podFailurePolicy.
func (c *checker) failurePolicy(spec spot) {
	names := map[string]bool{}
	for _, list := range []string{"containers", "initContainers"} {
		for _, x := range spec.at("template", "spec", list).items() {
			names[x.at("name").text()] = true
		}
	}
	rules := spec.at("podFailurePolicy", "rules")
	c.atMost(rules, 20)
	for _, rule := range rules.items() {
		if rule.at("action").text() == "FailIndex" && !spec.at("backoffLimitPerIndex").set() {
			c.bad(rule.at("action"), "is FailIndex, which needs backoffLimitPerIndex", "write backoffLimitPerIndex: 0")
		}
		c.atMost(rule.at("onPodConditions"), 20)
		codes := rule.at("onExitCodes")
		if name := codes.at("containerName"); name.set() && !names[name.text()] {
			c.badf(name, "write the name of one", "there is no container %s", name.quoted())
		}
		c.exitCodes(codes)
	}
}

// atMost checks the length of a list.
func (c *checker) atMost(list spot, most int) {
	if n := len(list.items()); n > most {
		c.badf(list, fmt.Sprintf("keep %d", most), "are %d", n)
	}
}

func (c *checker) exitCodes(codes spot) {
	values := codes.at("values")
	c.atMost(values, 255)
	last := int64(-1 << 62)
	for _, x := range values.items() {
		n, ok := x.number()
		switch {
		case !ok:
			continue
		case n == 0 && codes.at("operator").text() == "In":
			c.bad(x, "is 0, which is not a failure", "remove it, or write operator: NotIn")
		case n == last:
			c.badf(x, "remove it", "%d is there twice", n)
		case n < last:
			c.badf(x, "write the values in ascending order", "%d comes after %d", n, last)
		}
		last = n
	}
}
