package node

import (
	"slices"
	"strings"
	"time"
)

// Pod is as much of a pod as the stand-in reads.
type Pod struct {
	Metadata Metadata `json:"metadata"`
	Spec     struct {
		NodeName                      string      `json:"nodeName"`
		TerminationGracePeriodSeconds *int64      `json:"terminationGracePeriodSeconds"`
		Containers                    []Container `json:"containers"`
	} `json:"spec"`
	Status Status `json:"status"`
}

// Metadata is an object's.
type Metadata struct {
	Name                       string            `json:"name"`
	Namespace                  string            `json:"namespace"`
	UID                        string            `json:"uid"`
	Labels                     map[string]string `json:"labels"`
	Annotations                map[string]string `json:"annotations"`
	CreationTimestamp          time.Time         `json:"creationTimestamp"`
	DeletionTimestamp          *time.Time        `json:"deletionTimestamp"`
	DeletionGracePeriodSeconds *int64            `json:"deletionGracePeriodSeconds"`
}

// Container is a pod's.
type Container struct {
	Name    string   `json:"name"`
	Image   string   `json:"image"`
	Command []string `json:"command"`
	Args    []string `json:"args"`
	Env     []struct {
		Name      string `json:"name"`
		Value     string `json:"value"`
		ValueFrom *struct {
			FieldRef *struct {
				FieldPath string `json:"fieldPath"`
			} `json:"fieldRef"`
			SecretKeyRef *struct {
				Name string `json:"name"`
				Key  string `json:"key"`
			} `json:"secretKeyRef"`
		} `json:"valueFrom"`
	} `json:"env"`
}

// Status is a pod's.
type Status struct {
	Phase      string      `json:"phase"`
	PodIP      string      `json:"podIP"`
	Conditions []Condition `json:"conditions"`
}

// Condition is one of a status.
type Condition struct {
	Type   string `json:"type"`
	Status string `json:"status"`
	Reason string `json:"reason"`
}

// Reason is why a condition is true; empty where it is not.
func (s Status) Reason(condition string) string {
	for _, c := range s.Conditions {
		if c.Type == condition && c.Status == "True" {
			return c.Reason
		}
	}
	return ""
}

// Disrupted says that the pod was evicted, preempted or drained: its end counts as no
// failure.
func (p Pod) Disrupted() bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c Condition) bool { return c.Type == "DisruptionTarget" && c.Status == "True" })
}

// environment is what the container's process is given, with Secrets as secret
// reads them.
func (p Pod) environment(c Container, secret func(namespace, name, key string) (string, error)) (map[string]string, error) {
	env := map[string]string{}
	for _, e := range c.Env {
		value := e.Value
		switch from := e.ValueFrom; {
		case from == nil:
		case from.FieldRef != nil:
			value = p.field(from.FieldRef.FieldPath)
		case from.SecretKeyRef != nil:
			var err error
			if value, err = secret(p.Metadata.Namespace, from.SecretKeyRef.Name, from.SecretKeyRef.Key); err != nil {
				return nil, err
			}
		}
		env[e.Name] = value
	}
	return env, nil
}

// field is what the downward API gives for the paths that Jobs have.
func (p Pod) field(path string) string {
	for prefix, values := range map[string]map[string]string{
		"metadata.annotations['": p.Metadata.Annotations, "metadata.labels['": p.Metadata.Labels,
	} {
		if key, ok := strings.CutPrefix(path, prefix); ok {
			return values[strings.TrimSuffix(key, "']")]
		}
	}
	switch path {
	case "metadata.name":
		return p.Metadata.Name
	case "metadata.namespace":
		return p.Metadata.Namespace
	case "spec.nodeName":
		return p.Spec.NodeName
	}
	return ""
}
