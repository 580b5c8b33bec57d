package kubernetes

import "strings"

// container checks one container.
func (c *checker) container(s spot) {
	if image := s.at("image"); strings.TrimSpace(image.text()) != image.text() {
		c.badValue(image, "has spaces around it, so that no pod can be created", "remove them")
	}
	if !s.at("restartPolicyRules").empty() && s.at("restartPolicy").empty() {
		c.missing(s.at("restartPolicy"))
	}
	c.uniqueIn(s.at("ports"), "name", "of another port", map[string]bool{})
	for _, probe := range []string{"livenessProbe", "startupProbe"} {
		if n, ok := s.at(probe, "successThreshold").number(); ok && n > 1 {
			c.badf(s.at(probe, "successThreshold"), "write 1", "is %d", n)
		}
	}
	if at := s.at("readinessProbe", "terminationGracePeriodSeconds"); at.set() {
		c.bad(at, "is not for a readinessProbe", "remove it")
	}
	for _, m := range s.at("volumeMounts").items() {
		if at := m.at("mountPropagation"); at.text() == "Bidirectional" && !s.at("securityContext", "privileged").isTrue() {
			c.bad(at, "is Bidirectional in a container that is not privileged", "write HostToContainer, or privileged: true")
		}
	}
	c.uniqueIn(s.at("volumeMounts"), "mountPath", "of another volume too", map[string]bool{})
}

// uniqueIn records a problem for each element of a list whose field repeats an earlier value. It
// adds the values to seen. Empty values may repeat.
func (c *checker) uniqueIn(list spot, field, whose string, seen map[string]bool) {
	for _, x := range list.items() {
		if at := x.at(field); at.text() != "" {
			c.unique(at, seen, whose)
		}
	}
}

// unique records a problem if seen contains the value, and adds it.
func (c *checker) unique(at spot, seen map[string]bool, whose string) {
	if seen[at.text()] {
		c.badf(at, "write another", "%s is %s", at.quoted(), whose)
	}
	seen[at.text()] = true
}

// pod checks the relations between the parts of a pod.
func (c *checker) pod(s spot) {
	volumes, claims := map[string]bool{}, map[string]bool{}
	c.uniqueIn(s.at("volumes"), "name", "the name of another volume", volumes)
	c.uniqueIn(s.at("resourceClaims"), "name", "the name of another claim", claims)
	for _, claim := range s.at("resourceClaims").items() {
		c.exactlyOne(claim, "resourceClaimName", "resourceClaimTemplateName")
	}
	containers := map[string]bool{}
	for _, list := range []string{"containers", "initContainers"} {
		for _, x := range s.at(list).items() {
			if x.at("name").text() != "" {
				c.unique(x.at("name"), containers, "the name of another container")
			}
			c.mounts(x, s.at("volumes"), volumes)
			for _, claim := range x.at("resources", "claims").items() {
				if name := claim.at("name"); name.text() != "" && !claims[name.text()] {
					c.badf(name, "add it to resourceClaims", "there is no claim %s in the pod", name.quoted())
				}
			}
			c.handlers(x, s)
			for _, policy := range x.at("resizePolicy").items() {
				if at := policy.at("restartPolicy"); at.text() == "RestartContainer" && s.at("restartPolicy").text() == "Never" {
					c.bad(at, "is RestartContainer in a pod that never restarts", "write NotRequired")
				}
			}
		}
	}
	for _, x := range s.at("initContainers").items() {
		for _, f := range []string{"livenessProbe", "readinessProbe", "startupProbe", "lifecycle"} {
			if at := x.at(f); at.set() && x.at("restartPolicy").text() != "Always" {
				c.bad(at, "is not for an init container that ends", "remove it, or write restartPolicy: Always for one that runs next to the agent")
			}
		}
	}
	if at := s.at("ephemeralContainers"); !at.empty() {
		c.bad(at, "are only for running pods", "remove them")
	}
	c.podResources(s)
	c.system(s)
}

// systemFields are the fields that a pod of an operating system must not have, by their place: in the
// pod, in its securityContext, and in the securityContext of a container.
var systemFields = map[string][3]string{
	"windows": {
		"hostUsers hostPID hostIPC shareProcessNamespace resources",
		"appArmorProfile seLinuxOptions seccompProfile fsGroup fsGroupChangePolicy sysctls runAsUser runAsGroup supplementalGroups supplementalGroupsPolicy seLinuxChangePolicy",
		"appArmorProfile seLinuxOptions seccompProfile capabilities readOnlyRootFilesystem privileged allowPrivilegeEscalation procMount runAsUser runAsGroup",
	},
	"linux": {"", "windowsOptions", "windowsOptions"},
}

// system checks the fields of a pod whose operating system is set.
func (c *checker) system(s spot) {
	system := s.at("os", "name").text()
	without := func(s spot, fields string) {
		for _, field := range strings.Fields(fields) {
			at := s.at(field)
			if !at.set() || field == "sysctls" && at.empty() || (field == "hostPID" || field == "hostIPC") && !at.isTrue() {
				continue
			}
			c.badf(at, "remove it, or os", "is not for a pod of %s", system)
		}
	}
	fields := systemFields[system]
	without(s, fields[0])
	without(s.at("securityContext"), fields[1])
	for _, list := range []string{"containers", "initContainers"} {
		for _, x := range s.at(list).items() {
			without(x.at("securityContext"), fields[2])
		}
	}
}

// handlers checks the sleeps of a container against its grace period.
func (c *checker) handlers(x, pod spot) {
	grace := int64(30)
	if n, ok := pod.at("terminationGracePeriodSeconds").number(); ok {
		grace = n
	}
	for _, hook := range []string{"postStart", "preStop"} {
		at := x.at("lifecycle", hook, "sleep", "seconds")
		remedy := "write one from 0 to " + decimal(grace) + ", which is terminationGracePeriodSeconds"
		if grace < 0 {
			remedy = "write terminationGracePeriodSeconds: 30"
		}
		if n, ok := at.number(); ok && (n < 0 || n > grace) {
			c.badf(at, remedy, "%d is out of range", n)
		}
	}
}
