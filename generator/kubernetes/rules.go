package kubernetes

import (
	"cmp"
	"slices"
	"strings"

	"muster/generator/finding"
)

// required lists, by type, the fields that Kubernetes does not fill in.
var required = map[string]string{
	"JobSpec": "template", "PodTemplateSpec": "spec", "PodSpec": "containers", "Container": "name image",
	"EnvVar": "name", "Volume": "name", "VolumeMount": "name mountPath", "VolumeDevice": "name devicePath",
	"ContainerPort": "containerPort", "SecretKeySelector": "name key", "ConfigMapKeySelector": "name key",
	"ConfigMapEnvSource": "name", "SecretEnvSource": "name", "FileKeySelector": "volumeName path key",
	"ObjectFieldSelector": "fieldPath", "ResourceFieldSelector": "resource",
	"SecretVolumeSource": "secretName", "ConfigMapVolumeSource": "name", "SecretProjection": "name", "ConfigMapProjection": "name",
	"KeyToPath": "key path", "PersistentVolumeClaimVolumeSource": "claimName", "HostPathVolumeSource": "path",
	"NFSVolumeSource": "server path", "CSIVolumeSource": "driver", "EphemeralVolumeSource": "volumeClaimTemplate",
	"DownwardAPIVolumeFile": "path", "ServiceAccountTokenProjection": "path", "GitRepoVolumeSource": "repository",
	"ExecAction": "command", "HTTPGetAction": "port", "TCPSocketAction": "port", "GRPCAction": "port", "HTTPHeader": "name",
	"SeccompProfile": "type", "AppArmorProfile": "type", "TopologySpreadConstraint": "maxSkew topologyKey whenUnsatisfiable",
	"PodAffinityTerm": "topologyKey", "NodeSelector": "nodeSelectorTerms", "PreferredSchedulingTerm": "weight", "WeightedPodAffinityTerm": "weight podAffinityTerm",
	"PodFailurePolicyRule": "action", "PodFailurePolicyOnExitCodesRequirement": "operator values",
	"PodFailurePolicyOnPodConditionsPattern": "type", "SuccessPolicy": "rules",
	"PodOS": "name", "PodResourceClaim": "name", "ResourceClaim": "name",
	"PodSchedulingGate": "name", "PodReadinessGate": "conditionType", "Sysctl": "name", "HostAlias": "ip",
	"LabelSelectorRequirement": "key operator", "NodeSelectorRequirement": "key operator", "PodDNSConfigOption": "name",
	"ContainerResizePolicy": "resourceName restartPolicy", "ContainerRestartRule": "action exitCodes", "ContainerRestartRuleOnExitCodes": "operator", "AWSElasticBlockStoreVolumeSource": "volumeID",
	"AzureDiskVolumeSource": "diskName diskURI", "AzureFileVolumeSource": "secretName shareName", "CephFSVolumeSource": "monitors",
	"CinderVolumeSource": "volumeID", "GCEPersistentDiskVolumeSource": "pdName", "GlusterfsVolumeSource": "endpoints path",
	"ISCSIVolumeSource": "targetPortal iqn", "PhotonPersistentDiskVolumeSource": "pdID", "PortworxVolumeSource": "volumeID",
	"QuobyteVolumeSource": "registry volume", "RBDVolumeSource": "monitors image", "ScaleIOVolumeSource": "gateway system volumeName",
	"VsphereVirtualDiskVolumeSource": "volumePath", "FlexVolumeSource": "driver",
	"PersistentVolumeClaimTemplate": "spec", "TypedLocalObjectReference": "name kind", "TypedObjectReference": "name kind", "StorageOSVolumeSource": "volumeName",
}

// choices lists the values of a field that has a fixed few. Those that begin with
// a star take no empty string either.
var choices = map[string]string{
	"JobSpec.completionMode": "* Indexed NonIndexed", "JobSpec.podReplacementPolicy": "* Failed TerminatingOrFailed",
	"PodFailurePolicyRule.action": "Count FailIndex FailJob Ignore", "PodFailurePolicyOnExitCodesRequirement.operator": "In NotIn",
	"PodFailurePolicyOnPodConditionsPattern.status": "False True Unknown",
	"PodSpec.dnsPolicy":                             "ClusterFirst ClusterFirstWithHostNet Default None", "PodSpec.preemptionPolicy": "* Never PreemptLowerPriority",
	"PodOS.name": "linux windows", "Container.imagePullPolicy": "Always IfNotPresent Never", "ImageVolumeSource.pullPolicy": "Always IfNotPresent Never",
	"Container.terminationMessagePolicy": "FallbackToLogsOnError File", "Container.restartPolicy": "* Always Never OnFailure",
	"ContainerPort.protocol": "SCTP TCP UDP", "HTTPGetAction.scheme": "HTTP HTTPS",
	"ContainerResizePolicy.resourceName": "cpu memory", "ContainerResizePolicy.restartPolicy": "NotRequired RestartContainer",
	"ContainerRestartRule.action": "Restart RestartAllContainers", "ContainerRestartRuleOnExitCodes.operator": "In NotIn",
	"Toleration.operator": "Equal Exists", "Toleration.effect": "NoExecute NoSchedule PreferNoSchedule",
	"SeccompProfile.type": "Localhost RuntimeDefault Unconfined", "AppArmorProfile.type": "Localhost RuntimeDefault Unconfined",
	"SecurityContext.procMount": "* Default Unmasked", "PodSecurityContext.fsGroupChangePolicy": "* Always OnRootMismatch",
	"PodSecurityContext.supplementalGroupsPolicy": "* Merge Strict", "PodSecurityContext.seLinuxChangePolicy": "* MountOption Recursive",
	"LabelSelectorRequirement.operator": "DoesNotExist Exists In NotIn", "NodeSelectorRequirement.operator": "DoesNotExist Exists Gt In Lt NotIn",
	"TopologySpreadConstraint.whenUnsatisfiable":  "DoNotSchedule ScheduleAnyway",
	"TopologySpreadConstraint.nodeAffinityPolicy": "* Honor Ignore", "TopologySpreadConstraint.nodeTaintsPolicy": "* Honor Ignore",
	"VolumeMount.mountPropagation": "* Bidirectional HostToContainer None", "VolumeMount.recursiveReadOnly": "* Disabled Enabled IfPossible",
	"PersistentVolumeClaimSpec.volumeMode": "* Block Filesystem", "AzureDiskVolumeSource.cachingMode": "* None ReadOnly ReadWrite",
	"AzureDiskVolumeSource.kind": "* Dedicated Managed Shared",
	"HostPathVolumeSource.type":  "BlockDevice CharDevice Directory DirectoryOrCreate File FileOrCreate Socket",
}

// limits are the least and the most that a field takes; the most is 0 where it is
// as large as its type.
var limits = map[string][2]int64{
	"JobSpec.parallelism": {}, "JobSpec.completions": {}, "JobSpec.activeDeadlineSeconds": {}, "JobSpec.backoffLimit": {},
	"JobSpec.ttlSecondsAfterFinished": {}, "JobSpec.backoffLimitPerIndex": {}, "JobSpec.maxFailedIndexes": {}, "SuccessPolicyRule.succeededCount": {},
	"PodSpec.activeDeadlineSeconds": {1, largest}, "ContainerPort.containerPort": {1, port}, "ContainerPort.hostPort": {0, port},
	"GRPCAction.port": {1, port}, "HTTPGetAction.port": {1, port}, "TCPSocketAction.port": {1, port},
	"Probe.initialDelaySeconds": {}, "Probe.timeoutSeconds": {}, "Probe.periodSeconds": {}, "Probe.successThreshold": {}, "Probe.failureThreshold": {},
	"Probe.terminationGracePeriodSeconds": {1, 0}, "PodSecurityContext.runAsUser": {0, largest}, "PodSecurityContext.runAsGroup": {0, largest},
	"PodSecurityContext.fsGroup": {0, largest}, "PodSecurityContext.supplementalGroups": {0, largest},
	"SecurityContext.runAsUser": {0, largest}, "SecurityContext.runAsGroup": {0, largest},
	"SecretVolumeSource.defaultMode": {0, mode}, "ConfigMapVolumeSource.defaultMode": {0, mode}, "ProjectedVolumeSource.defaultMode": {0, mode},
	"DownwardAPIVolumeSource.defaultMode": {0, mode}, "KeyToPath.mode": {0, mode}, "DownwardAPIVolumeFile.mode": {0, mode},
	"PreferredSchedulingTerm.weight": {1, 100}, "WeightedPodAffinityTerm.weight": {1, 100}, "TopologySpreadConstraint.maxSkew": {1, 0},
	"ISCSIVolumeSource.lun": {0, 255}, "AWSElasticBlockStoreVolumeSource.partition": {0, 255}, "GCEPersistentDiskVolumeSource.partition": {0, 255},
	"TopologySpreadConstraint.minDomains": {1, 0}, "ServiceAccountTokenProjection.expirationSeconds": {600, 1 << 32},
}

const largest, mode, port = 1<<31 - 1, 0o777, 65535

// formats names the format of a field, of each element of a list, or of the keys
// and values of a mapping; see [nameFormats]. Where a star is before it, an empty
// string is not valid either.
var formats = map[string]string{
	"Container.name": "label", "Volume.name": "label", "PodSpec.hostname": "label", "PodSpec.subdomain": "label", "FileKeySelector.volumeName": "label",
	"PodAffinityTerm.namespaces": "* label", "PodSpec.serviceAccountName": "subdomain", "PodSpec.nodeName": "subdomain", "PodSpec.priorityClassName": "subdomain",
	"PodSpec.runtimeClassName": "* subdomain", "PodSpec.hostnameOverride": "* subdomain", "PodSpec.serviceAccount": "subdomain", "PodResourceClaim.name": "label", "PodResourceClaim.resourceClaimName": "* subdomain", "PodResourceClaim.resourceClaimTemplateName": "* subdomain",
	"HostAlias.ip": "address", "HostAlias.hostnames": "* subdomain", "PodDNSConfig.nameservers": "* address", "PodDNSConfig.searches": "* search", "Sysctl.name": "sysctl", "SecretKeySelector.name": "subdomain", "ConfigMapKeySelector.name": "subdomain",
	"SecretEnvSource.name": "subdomain", "ConfigMapEnvSource.name": "subdomain", "Toleration.key": "qualified",
	"PodAffinityTerm.topologyKey": "qualified", "NodeSelectorRequirement.key": "qualified", "LabelSelectorRequirement.key": "qualified",
	"PodReadinessGate.conditionType": "qualified", "PodSchedulingGate.name": "qualified", "PodFailurePolicyOnPodConditionsPattern.type": "qualified",
	"SecretKeySelector.key": "key", "ConfigMapKeySelector.key": "key", "FileKeySelector.key": "variable", "EnvVar.name": "variable",
	"EnvFromSource.prefix": "variable", "ContainerPort.name": "port", "HTTPHeader.name": "header",
	"HTTPGetAction.port": "port", "TCPSocketAction.port": "port", "CSIVolumeSource.driver": "driver",
	"PersistentVolumeClaimSpec.storageClassName": "subdomain", "PersistentVolumeClaimSpec.volumeAttributesClassName": "subdomain",
	"TypedLocalObjectReference.apiGroup": "subdomain", "TypedObjectReference.apiGroup": "subdomain", "TypedObjectReference.namespace": "label",
	"StorageOSVolumeSource.volumeName": "label", "StorageOSVolumeSource.volumeNamespace": "label",
	"ObjectMeta.labels": "labels", "PodSpec.nodeSelector": "labels", "LabelSelector.matchLabels": "labels", "ObjectMeta.annotations": "annotations",
}

// rules applies the tables to the fields of a value, and then the rules that no table contains.
func (c *checker) rules(s spot, typ string) {
	for _, field := range strings.Fields(required[typ]) {
		if at := s.at(field); at.empty() {
			c.missing(at)
		}
	}
	for _, key := range s.keys() {
		at, field := s.at(key), typ+"."+key
		if !at.set() {
			continue
		}
		c.chosen(at, choices[field])
		if l, ok := limits[field]; ok {
			for _, x := range append(at.items(), at) {
				c.within(x, l[0], l[1])
			}
		}
		c.format(at, formats[field])
	}
	c.special(s, typ)
}

func (c *checker) missing(at spot) {
	for _, p := range c.problems { // it is there, misspelt
		above := len(at.path) - 1
		if len(p.Path) == len(at.path) && slices.Equal(p.Path[:above], at.path[:above]) && p.Remedy == "nearest: "+at.path[above] {
			return
		}
	}
	problem := "is missing"
	if at.set() {
		problem = "is empty"
	}
	remedies := map[string]string{
		"image": "write the image of the agent with its version", "mountPath": "write where the volume is to appear",
		"containers": "write the agent's container", "name": "give it a name",
	}
	c.bad(at, problem, cmp.Or(remedies[at.path[len(at.path)-1]], "Kubernetes has no value of its own for it: write one"))
}

func (c *checker) chosen(at spot, allowed string) {
	words := strings.Fields(allowed)
	if len(words) == 0 || at.text() == "" && words[0] != "*" {
		return
	}
	words = slices.DeleteFunc(words, func(w string) bool { return w == "*" })
	if !slices.Contains(words, at.text()) {
		c.badf(at, "write "+finding.Or(words), "is %s", at.quoted())
	}
}

func (c *checker) within(at spot, least, most int64) {
	n, ok := at.number()
	switch {
	case !ok:
	case n < least && most > 0, most > 0 && n > most:
		c.badf(at, "write one from "+decimal(least)+" to "+decimal(most), "%d is out of range", n)
	case n < least:
		c.badf(at, "write "+decimal(least)+" or more", "%d is too small", n)
	}
}

// format checks a name, a list of names, or a mapping with names as its keys.
func (c *checker) format(at spot, name string) {
	switch name {
	case "":
		return
	case "labels", "annotations":
		c.labels(at, name == "labels")
		return
	}
	name, filled := strings.CutPrefix(name, "* ")
	f := nameFormats[name]
	for _, x := range at.items() {
		if filled && !x.set() {
			c.bad(x, "is empty", f.remedy)
		}
	}
	for _, x := range append(at.items(), at) {
		if x.text() == "" && !filled || !x.set() || tagOf(x.node) != "!!str" {
			continue
		}
		if !f.valid(x.text()) {
			c.badValue(x, "is not a valid name", f.remedy)
		}
	}
}

// labels checks the keys of labels or annotations, and the values of labels.
func (c *checker) labels(at spot, values bool) {
	key, value := nameFormats["qualified"], nameFormats["label-value"]
	for _, k := range at.keys() {
		name := k
		if !values {
			name = strings.ToLower(k)
		}
		if !key.valid(name) {
			c.badf(at.at(k), key.remedy, "has a key that is not valid")
		}
		if v := at.at(k); values && !value.valid(v.text()) {
			c.badValue(v, "is not a valid value of a label", value.remedy)
		}
	}
	const most = 256 << 10
	total := 0
	for _, k := range at.keys() {
		total += len(k) + len(at.at(k).text())
	}
	if !values && total > most {
		c.badf(at, "keep large values elsewhere", "are %d bytes together, and Kubernetes takes %d", total, most)
	}
}
