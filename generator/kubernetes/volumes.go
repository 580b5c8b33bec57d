package kubernetes

import (
	"net"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// The rules of this file are those of k8s.io/kubernetes v1.36.3,
// pkg/apis/core/validation/validation.go: the function is named with each.

// volumeSource checks the rules for a volume's source that no table contains.
func (c *checker) volumeSource(s spot, typ string) {
	switch typ {
	case "PersistentVolumeClaimTemplate": // ValidateTemplateObjectMeta
		for _, key := range s.at("metadata").keys() {
			at := s.at("metadata", key)
			if key != "labels" && key != "annotations" && at.set() && (!at.zero() || key == "deletionGracePeriodSeconds") {
				c.bad(at, "is not for a volumeClaimTemplate", "remove it: Kubernetes names the claim after the pod and the volume")
			}
		}
		c.claim(s.at("spec"))
	case "ProjectedVolumeSource":
		c.projected(s)
	case "ServiceAccountTokenProjection":
		c.relative(s.at("path"), true)
	case "CSIVolumeSource": // validateCSIVolumeSource
		c.secretNamed(s.at("nodePublishSecretRef"))
		c.format(s.at("nodePublishSecretRef", "name"), "subdomain")
	case "CinderVolumeSource", "StorageOSVolumeSource":
		c.secretNamed(s.at("secretRef"))
	case "NFSVolumeSource": // validateNFSVolumeSource
		if at := s.at("path"); at.text() != "" && !strings.HasPrefix(at.text(), "/") {
			c.badValue(at, "is not an absolute path", "write it from the top, as in /srv")
		}
	case "ISCSIVolumeSource":
		c.iscsi(s)
	case "FCVolumeSource":
		c.fibreChannel(s)
	case "AzureDiskVolumeSource": // validateAzureDisk
		begins := "https://"
		if s.at("kind").text() == "Managed" {
			begins = "/subscriptions/"
		}
		if at := s.at("diskURI"); at.text() != "" && !strings.HasPrefix(at.text(), begins) {
			c.badValue(at, "is not a disk of this kind", "write one that begins with "+begins+", or another kind: of kind Managed it begins with /subscriptions/, of others with https://")
		}
	case "FlockerVolumeSource": // validateFlockerVolumeSource
		c.exactlyOneWord(s, "datasetName", "datasetUUID")
		if at := s.at("datasetName"); strings.Contains(at.text(), "/") {
			c.bad(at, "has a slash", "write the name alone")
		}
	case "QuobyteVolumeSource":
		c.quobyte(s)
	case "FlexVolumeSource": // validateFlexVolumeSource
		for _, key := range s.at("options").keys() {
			domain, _, _ := strings.Cut(key, "/")
			domain = "." + strings.ToLower(domain)
			if strings.HasSuffix(domain, ".kubernetes.io") || strings.HasSuffix(domain, ".k8s.io") {
				c.bad(s.at("options", key), "is a key that Kubernetes keeps for itself", "remove it")
			}
		}
	}
}

// zero reports whether the value is missing, null, 0 or an empty string.
func (s spot) zero() bool {
	n, isNumber := s.number()
	return !s.set() || isNumber && n == 0 || s.node.Kind == yaml.ScalarNode && s.node.Value == ""
}

// claim is ValidatePersistentVolumeClaimSpec.
func (c *checker) claim(s spot) {
	modes := s.at("accessModes")
	if modes.empty() {
		c.missing(modes)
	}
	alone, shared := false, false
	for _, x := range modes.items() {
		c.chosen(x, "* ReadOnlyMany ReadWriteMany ReadWriteOnce ReadWriteOncePod")
		alone = alone || x.text() == "ReadWriteOncePod"
		shared = shared || x.text() != "ReadWriteOncePod"
	}
	if alone && shared {
		c.bad(modes, "have ReadWriteOncePod together with others", "keep ReadWriteOncePod alone, or remove it")
	}
	storage := s.at("resources", "requests", "storage")
	if q, ok := parseQuantity(storage.text()); storage.node == nil {
		c.bad(storage, "is missing", "write how much disk the claim is for, as in 10Gi")
	} else if !storage.set() || ok && q.Sign() <= 0 {
		c.bad(storage, "is not more than 0", "write how much disk the claim is for, as in 10Gi")
	}
	data, ref := s.at("dataSource"), s.at("dataSourceRef")
	for _, x := range []spot{data, ref} { // validateDataSource, validateDataSourceRef
		if x.set() && x.at("apiGroup").text() == "" && x.at("kind").text() != "PersistentVolumeClaim" {
			c.bad(x.at("kind"), "is not PersistentVolumeClaim, and there is no apiGroup", "write the apiGroup of the kind")
		}
	}
	if !data.set() || !ref.set() {
		return
	}
	differ := ref.at("namespace").text() != "" || data.at("apiGroup").set() != ref.at("apiGroup").set()
	for _, f := range []string{"apiGroup", "kind", "name"} {
		differ = differ || data.at(f).text() != ref.at(f).text()
	}
	if differ {
		c.bad(data, "is not the same as dataSourceRef", "keep one of the two")
	}
}

// projected is validateProjectionSources: two files of one path are refused. What
// the API server drops where its feature is off, clusterTrustBundle and
// podCertificate, is not looked at.
func (c *checker) projected(s spot) {
	paths := map[string]bool{}
	for _, source := range s.at("sources").items() {
		var found []string
		for _, kind := range []string{"secret", "configMap", "downwardAPI", "serviceAccountToken"} {
			if source.at(kind).set() {
				found = append(found, kind)
			}
			for _, x := range source.at(kind, "items").items() {
				if at := x.at("path"); at.text() != "" {
					c.unique(at, paths, "the path of another file too")
				}
			}
		}
		if len(found) > 1 {
			c.bad(source, "has "+strings.Join(found, " and ")+" together", "keep one of them")
		}
	}
}

func (c *checker) secretNamed(ref spot) {
	if ref.set() && ref.at("name").empty() {
		c.missing(ref.at("name"))
	}
}

// exactlyOneWord checks that exactly one of two strings is not empty.
func (c *checker) exactlyOneWord(s spot, a, b string) {
	switch {
	case s.at(a).text() == "" && s.at(b).text() == "":
		c.bad(s, "has neither "+a+" nor "+b, "write one of them")
	case s.at(a).text() != "" && s.at(b).text() != "":
		c.bad(s, "has "+a+" and "+b+" together", "keep one of them")
	}
}

// initiators are iscsiInitiatorIqnRegex and its like.
var initiators = map[string]*regexp.Regexp{
	"iqn": regexp.MustCompile(`iqn\.\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)$`),
	"eui": regexp.MustCompile(`^eui.[[:alnum:]]{16}$`),
	"naa": regexp.MustCompile(`^naa.[[:alnum:]]{32}$`),
}

// iscsi is validateISCSIVolumeSource.
func (c *checker) iscsi(s spot) {
	for _, at := range []spot{s.at("iqn"), s.at("initiatorName")} {
		rule := initiators[at.text()[:min(3, len(at.text()))]]
		if at.set() && (rule == nil || !rule.MatchString(at.text())) {
			c.badValue(at, "is not an iSCSI name", "write one as in iqn.2026-11.com.example:disk")
		}
	}
	for _, f := range []string{"chapAuthDiscovery", "chapAuthSession"} {
		if s.at(f).isTrue() && !s.at("secretRef").set() {
			c.missing(s.at("secretRef"))
		}
	}
}

// fibreChannel is validateFCVolumeSource.
func (c *checker) fibreChannel(s spot) {
	names, ids, lun := s.at("targetWWNs"), s.at("wwids"), s.at("lun")
	switch {
	case names.empty() && ids.empty():
		c.bad(names, "is missing, and so are wwids", "write one of the two")
	case !names.empty() && !ids.empty():
		c.bad(names, "is set together with wwids", "keep one of the two")
	}
	if names.empty() {
		return
	}
	if !lun.set() {
		c.missing(lun)
	}
	c.within(lun, 0, 255)
}

// quobyte is validateQuobyteVolumeSource.
func (c *checker) quobyte(s spot) {
	if at := s.at("tenant"); len(at.text()) > 64 {
		c.bad(at, "is longer than 64 characters", "write a UUID")
		return
	}
	at := s.at("registry")
	if at.text() != "" && slices.ContainsFunc(strings.Split(at.text(), ","), func(x string) bool { _, _, err := net.SplitHostPort(x); return err != nil }) {
		c.badValue(at, "is not an address", "write host:port, several with commas between them")
	}
}

// affinityTerm is ValidateMatchLabelKeysAndMismatchLabelKeys.
func (c *checker) affinityTerm(s spot) {
	selector, match := s.at("labelSelector"), map[string]bool{}
	for _, f := range []string{"matchLabelKeys", "mismatchLabelKeys"} {
		keys := s.at(f)
		if !keys.empty() && !selector.set() {
			c.bad(keys, "is set without labelSelector", "add a labelSelector, or remove it")
		}
		for _, x := range keys.items() {
			switch {
			case !isQualified(x.text()):
				c.badValue(x, "is not a valid key of a label", nameFormats["qualified"].remedy)
			case f == "matchLabelKeys":
				match[x.text()] = true
			case match[x.text()]:
				c.bad(x, "is in matchLabelKeys too", "keep one of the two")
			}
		}
	}
	seen := map[string]bool{}
	for _, key := range selector.at("matchLabels").keys() {
		seen[key] = true
	}
	for _, x := range selector.at("matchExpressions").items() {
		if key := x.at("key"); match[key.text()] && seen[key.text()] {
			c.bad(key, "is in matchLabelKeys too", "remove it here or there")
		}
		seen[x.at("key").text()] = true
	}
}

// nodeFields is ValidateNodeFieldSelectorRequirement.
func (c *checker) nodeFields(term spot) {
	for _, x := range term.at("matchFields").items() {
		if key := x.at("key"); key.text() != "metadata.name" {
			c.badValue(key, "is not a field that nodes can be selected by", "write metadata.name, or move it to matchExpressions")
		}
		if at := x.at("operator"); at.text() != "In" && at.text() != "NotIn" {
			c.badf(at, "write In or NotIn", "is %s, which node fields do not support", at.quoted())
		}
		values := x.at("values")
		if len(values.items()) != 1 {
			c.bad(values, "are not one value", "write the name of one node")
		}
		for _, v := range values.items() {
			if !isSubdomain(v.text()) {
				c.badValue(v, "is not a valid name of a node", nameFormats["subdomain"].remedy)
			}
		}
	}
}
