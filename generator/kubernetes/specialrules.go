package kubernetes

import (
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"muster/generator/finding"
)

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// special checks the rules for the fields of a type that no table contains, for each type
// separately.
func (c *checker) special(s spot, typ string) {
	switch typ {
	case "Container":
		c.container(s)
	case "EnvVar":
		if from := s.at("valueFrom"); from.set() && s.at("value").text() != "" {
			c.bad(s.at("value"), "is set together with valueFrom", "keep one of the two")
		}
	case "EnvVarSource":
		c.exactlyOne(s, "fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
		c.fieldRef(s.at("fieldRef"), variableFields)
		c.resourceRef(s.at("resourceFieldRef"), false)
	case "EnvFromSource":
		c.exactlyOne(s, "configMapRef", "secretRef")
	case "DownwardAPIVolumeFile":
		c.exactlyOne(s, "fieldRef", "resourceFieldRef")
		c.fieldRef(s.at("fieldRef"), fileFields)
		c.resourceRef(s.at("resourceFieldRef"), true)
		c.relative(s.at("path"), true)
	case "Volume":
		c.volume(s)
	case "VolumeMount":
		c.relative(s.at("subPath"), false)
		c.relative(s.at("subPathExpr"), false)
		if s.at("subPath").text() != "" && s.at("subPathExpr").text() != "" {
			c.bad(s.at("subPathExpr"), "is set together with subPath", "keep one of the two")
		}
	case "KeyToPath":
		c.relative(s.at("path"), true)
	case "FileKeySelector":
		c.noSteps(s.at("path"))
	case "HostPathVolumeSource":
		c.noSteps(s.at("path"))
	case "GitRepoVolumeSource":
		c.relative(s.at("directory"), false)
	case "ResourceRequirements":
		c.resources(s)
	case "LifecycleHandler":
		c.exactlyOne(s, "exec", "httpGet", "tcpSocket", "sleep")
	case "Probe":
		c.exactlyOne(s, "exec", "httpGet", "tcpSocket", "grpc")
	case "SeccompProfile", "AppArmorProfile":
		c.localProfile(s, typ == "SeccompProfile")
	case "SecurityContext":
		escalate := s.at("allowPrivilegeEscalation")
		if escalate.set() && !escalate.isTrue() && s.at("privileged").isTrue() {
			c.bad(s.at("privileged"), "is true with allowPrivilegeEscalation: false", "keep one of the two")
		}
	case "Toleration":
		c.toleration(s)
	case "NodeSelectorRequirement", "LabelSelectorRequirement":
		c.requirement(s)
	case "PodFailurePolicyRule":
		c.exactlyOne(s, "onExitCodes", "onPodConditions")
	case "PersistentVolumeClaimTemplate":
		c.claim(s.at("spec"))
	case "ProjectedVolumeSource":
		c.projected(s)
	case "ServiceAccountTokenProjection":
		c.relative(s.at("path"), true)
	}
}

// exactlyOne checks that exactly one of several fields is set.
func (c *checker) exactlyOne(s spot, fields ...string) {
	var found []string
	for _, f := range fields {
		if at := s.at(f); at.set() && (at.node.Kind != yaml.SequenceNode || !at.empty()) {
			found = append(found, f)
		}
	}
	switch {
	case len(found) == 0:
		c.bad(s, "has none of "+finding.Or(fields), "write one of them")
	case len(found) > 1:
		c.bad(s, "has "+strings.Join(found, " and ")+" together", "keep one of them")
	}
}

// variableFields are the fields of a pod that a variable can read besides annotations and labels,
// and fileFields those that a file can.
var (
	variableFields = []string{"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"}
	fileFields     = []string{"metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations", "metadata.uid"}
)

// fieldRef checks the path of a field of the pod.
func (c *checker) fieldRef(s spot, fields []string) {
	at := s.at("fieldPath")
	path := at.text()
	if v := s.at("apiVersion"); v.text() != "" && v.text() != "v1" {
		c.badf(v, "write v1, or remove it", "is %s", v.quoted())
	}
	if path == "" {
		return
	}
	for _, m := range []string{"metadata.annotations['", "metadata.labels['"} {
		key, subscripted := strings.CutPrefix(path, m)
		key, closed := strings.CutSuffix(key, "']")
		if subscripted && closed {
			if strings.HasPrefix(m, "metadata.annotations") {
				key = strings.ToLower(key)
			}
			if !isQualified(key) {
				c.badf(at, "write the key of an annotation or a label between the quotes", "%s names no valid key", at.quoted())
			}
			return
		}
	}
	if !slices.Contains(fields, path) {
		c.badf(at, "write metadata.annotations['KEY'], metadata.labels['KEY'], "+finding.Or(fields), "%s is not a field that can be read here", at.quoted())
	}
}

// resourceRef checks a reference to a container's resources.
func (c *checker) resourceRef(s spot, file bool) {
	if !s.set() {
		return
	}
	if file && s.at("containerName").empty() {
		c.missing(s.at("containerName"))
	}
	at := s.at("resource")
	kind, name, _ := strings.Cut(at.text(), ".")
	known := (kind == "limits" || kind == "requests") && (slices.Contains([]string{"cpu", "memory", "ephemeral-storage"}, name) || strings.HasPrefix(name, "hugepages-"))
	if at.text() != "" && !known {
		c.badValue(at, "is not a resource that can be read", "write limits or requests, a dot, and cpu, memory or ephemeral-storage")
	}
}

// relative checks a path below a volume; dotted reports that the path must not begin with two dots.
func (c *checker) relative(at spot, dotted bool) {
	path := at.text()
	switch {
	case strings.HasPrefix(path, "/"):
		c.badf(at, "write it without the first /", "%s is not a relative path", at.quoted())
	case dotted && strings.HasPrefix(path, ".."):
		c.badf(at, "write another name", "%s begins with two dots", at.quoted())
	default:
		c.noSteps(at)
	}
}

func (c *checker) noSteps(at spot) {
	if slices.Contains(strings.Split(at.text(), "/"), "..") {
		c.badValue(at, "leads upwards", "write the path without ..")
	}
}

// localProfile checks that a profile has a name exactly if its type is Localhost.
func (c *checker) localProfile(s spot, seccomp bool) {
	name := s.at("localhostProfile")
	local := s.at("type").text() == "Localhost"
	switch {
	case local && !name.set(), local && name.text() == "" && !seccomp:
		c.missing(name)
	case !local && name.set():
		c.bad(name, "is set together with another type than Localhost", "remove it")
	case local && seccomp:
		c.relative(name, false)
	case local && strings.TrimSpace(name.text()) != name.text():
		c.bad(name, "has spaces around it", "remove them")
	}
}

func (c *checker) toleration(s spot) {
	key, operator, value := s.at("key"), s.at("operator"), s.at("value")
	switch {
	case key.text() == "" && operator.text() != "Exists":
		c.bad(operator, "is not Exists, and there is no key", "write the taint's key, or operator: Exists for every taint")
	case operator.text() == "Exists" && value.text() != "":
		c.bad(value, "is set together with operator: Exists", "remove it, or write operator: Equal")
	case operator.text() != "Exists" && !isLabelValue(value.text()):
		c.badValue(value, "is not a valid value of a taint", nameFormats["label-value"].remedy)
	}
	if s.at("tolerationSeconds").set() && s.at("effect").text() != "NoExecute" {
		c.bad(s.at("effect"), "is not NoExecute, and tolerationSeconds is set", "write effect: NoExecute, or remove tolerationSeconds")
	}
}

// requirement checks the values of a selector by its operator.
func (c *checker) requirement(s spot) {
	values := s.at("values")
	n := len(values.items())
	switch s.at("operator").text() {
	case "In", "NotIn":
		if n == 0 {
			c.missing(values)
		}
	case "Exists", "DoesNotExist":
		if n > 0 {
			c.bad(values, "are set together with operator: "+s.at("operator").text(), "remove them")
		}
	case "Gt", "Lt":
		if n != 1 {
			c.bad(values, "are not one value", "write one number, in quotes")
		}
	}
}
