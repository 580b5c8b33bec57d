package main

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"muster/deploy"

	"sigs.k8s.io/yaml"
)

// mounts contains the Secrets of a pod, and where they are mounted.
type mounts struct {
	Spec struct {
		Template struct {
			Spec struct {
				Containers []struct {
					VolumeMounts []struct{ Name, MountPath string }
				}
				Volumes []struct {
					Name   string
					Secret struct {
						SecretName string
						Optional   bool
					}
				}
			}
		}
	}
}

// TestDeployedSecrets asserts that the pod mounts the Secret of each file in muster.env,
// including commented lines; that all Secrets except the two required ones are optional; and
// that the commented lines are valid.
func TestDeployedSecrets(t *testing.T) {
	for env, pod := range map[string]string{"base/muster.env": "base/deployment.yaml", "overlays/sidecar/muster.env": "overlays/sidecar/sidecar.yaml"} {
		text, err := fs.ReadFile(deploy.Files, env)
		check(t, err)
		manifest, err := fs.ReadFile(deploy.Files, pod)
		check(t, err)
		var m mounts
		if err := yaml.Unmarshal(manifest, &m); err != nil {
			t.Fatalf("%s: %v", pod, err)
		}
		if !strings.Contains(string(text), "\nMUSTER_AGENT_TOKEN_FILE=/secrets/buildkite/agent-token\n") {
			t.Errorf("%s does not set MUSTER_AGENT_TOKEN_FILE", env)
		}
		shown := regexp.MustCompile(`(?m)^# (MUSTER_\w+=\S+)$`).ReplaceAllString(string(text), "$1")
		checkCommand(t, env, []string{"run"}, strings.Fields(withoutComments(shown)))
		named, needed := secretDirs(shown), secretDirs(withoutComments(string(text)))
		var mounted []string
		for _, v := range m.Spec.Template.Spec.Volumes {
			if v.Secret.SecretName == "" {
				continue
			}
			for _, at := range m.Spec.Template.Spec.Containers[0].VolumeMounts {
				if at.Name != v.Name {
					continue
				}
				mounted = append(mounted, at.MountPath)
				if v.Secret.Optional == slices.Contains(needed, at.MountPath) {
					t.Errorf("%s: the Secret %s is optional %t, and muster.env needs %v", pod, v.Secret.SecretName, v.Secret.Optional, needed)
				}
			}
		}
		if slices.Sort(mounted); !slices.Equal(mounted, named) {
			t.Errorf("%s mounts %v, and %s names %v", pod, mounted, env, named)
		}
		for _, want := range []string{"MUSTER_BUILDKITE_WEBHOOK_SECRET_FILE", "MUSTER_GIT_WEBHOOK_SECRET_FILE", "MUSTER_NOTIFY"} {
			if !strings.Contains(string(text), "\n# "+want+"=") {
				t.Errorf("%s does not show %s", env, want)
			}
		}
	}
}

// secretDirs are the directories of the files below /secrets that a text names, sorted.
func secretDirs(text string) []string {
	var all []string
	for _, file := range regexp.MustCompile(`/secrets/[\w/-]+`).FindAllString(text, -1) {
		all = append(all, path.Dir(file))
	}
	slices.Sort(all)
	return slices.Compact(all)
}
