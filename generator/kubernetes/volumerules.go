package kubernetes

import "strings"

// The rules of this file are those of k8s.io/kubernetes v1.36.3, pkg/apis/core/validation/validation.go.

// volume checks that a volume has one source. All its fields except the name are sources.
func (c *checker) volume(s spot) {
	var found []string
	for _, key := range s.keys() {
		if key != "name" && s.at(key).set() && c.types["Volume"][key] != "" {
			found = append(found, key)
		}
	}
	if len(found) > 1 { // none is an emptyDir
		c.bad(s, "has "+strings.Join(found, " and ")+" together", "keep one of them")
	}
	if q, ok := parseQuantity(s.at("emptyDir", "sizeLimit").text()); ok && q.Sign() < 0 {
		c.bad(s.at("emptyDir", "sizeLimit"), "is negative", quantityRemedy)
	}
}

// mounts checks that the volumes of a container exist.
func (c *checker) mounts(x, list spot, volumes map[string]bool) {
	var names []spot
	for _, field := range []string{"volumeMounts", "volumeDevices"} {
		for _, m := range x.at(field).items() {
			names = append(names, m.at("name"))
		}
	}
	for _, v := range x.at("env").items() {
		names = append(names, v.at("valueFrom", "fileKeyRef", "volumeName"))
	}
	for _, name := range names {
		if name.text() != "" && !volumes[name.text()] {
			c.badf(name, "add a volume of that name, or write one of those that are there", "there is no volume %s in the pod", name.quoted())
		}
	}
	for _, m := range x.at("volumeDevices").items() {
		for _, v := range list.items() {
			if v.at("name").text() == m.at("name").text() && !v.at("persistentVolumeClaim").set() && !v.at("ephemeral").set() {
				c.bad(m.at("name"), "is not a block device", "write it in volumeMounts, or use a persistentVolumeClaim")
			}
		}
	}
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
