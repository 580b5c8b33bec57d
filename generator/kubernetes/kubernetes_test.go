package kubernetes

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

func parse(t testing.TB, text []byte) *yaml.Node {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Content[0]
}

// TestPods asserts the places of problems in parts of pods, most of which an earlier release
// missed and the API server refused.
func TestPods(t *testing.T) {
	text, err := os.ReadFile("../../base/job.yaml")
	if err != nil {
		t.Fatal(err)
	}
	claim := func(spec string) string {
		return "volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {" + spec + "}}}}]"
	}
	const (
		modes = "accessModes: [ReadWriteOnce]"
		size  = "resources: {requests: {storage: 1Gi}}"
		sound = modes + ", " + size
	)
	const in = "volumes [0] ephemeral volumeClaimTemplate "
	for pod, want := range map[string]string{
		claim(sound): "",
		claim(sound + ", storageClassName: fast, volumeMode: Block"): "",
		claim("accessModes: [Nope], " + size):                        in + "spec accessModes [0]",
		claim(size):                                                  in + "spec accessModes",
		claim(modes):                                                 in + "spec resources requests storage",
		claim(modes + ", resources: {requests: {storage: 0}}"):       in + "spec resources requests storage",
		claim(sound + ", storageClassName: A_B"):                     in + "spec storageClassName",
		claim(sound + ", volumeMode: Nope"):                          in + "spec volumeMode",
		"volumes: [{name: v, projected: {sources: [{secret: {name: a, items: [{key: k, path: x}]}}, {configMap: {name: b, items: [{key: k, path: x}]}}]}}]": "volumes [0] projected sources [1] configMap items [0] path",
		"volumes: [{name: v, csi: {driver: A_B}}]":    "volumes [0] csi driver",
		"volumes: [{name: v, emptyDir: {medium: n}}]": "volumes [0] emptyDir medium",

		"hostAliases: [{ip: 10.0.0.300}]":            "hostAliases [0] ip",
		"tolerations: [{operator: Equal, value: a}]": "tolerations [0] operator",
		"readinessGates: [{conditionType: a b}]":     "readinessGates [0] conditionType",

		"resourceClaims: [{name: a, resourceClaimName: c}, {name: a, resourceClaimName: d}, {name: b}]": "resourceClaims [1] name; resourceClaims [2]",
	} {
		job := parse(t, text)
		spec := spot{node: job}.at("spec", "template", "spec").node
		added := parse(t, []byte(pod))
		if strings.HasPrefix(pod, "volumes") { // which the base's mounts are of
			spec.Content[len(spec.Content)-1].Content = append(added.Content[1].Content, spec.Content[len(spec.Content)-1].Content...)
		} else {
			spec.Content = append(added.Content, spec.Content...)
		}
		var got []string
		for _, p := range Validate(job) {
			got = append(got, strings.Join(p.Path[3:], " "))
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("%s: problems at %q, want %q", pod, got, want)
		}
	}
}

// TestQuantityBounds asserts which quantities are not given to the library: it computes for
// minutes on a large exponent and on millions of digits, and reads a unit alone as 0.
func TestQuantityBounds(t *testing.T) {
	for s, want := range map[string]bool{
		"1": true, "-.5": true, "1.": true, "1E": true, "1e3": true, "12E-3": true, "100Mi": true, "1e999": true, strings.Repeat("1", 64): true,
		"1K": false, "1.1.1": false, "Gi": false, "": false, "-": false, "e3": false, "1e1000": false, "1e99999999": false,
		strings.Repeat("1", 65): false, strings.Repeat("1", 4<<20): false,
	} {
		if _, ok := parseQuantity(s); ok != want {
			t.Errorf("%.70s: valid %t, want %t", s, ok, want)
		}
	}
}

// TestNameBounds asserts that the check of a name of megabytes copies none of it: the library
// allocates 64 MiB to split these slashes.
func TestNameBounds(t *testing.T) {
	long := strings.Repeat("/", 4<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if isQualified(long) {
		t.Error("4 MiB of slashes are a qualified name")
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
		t.Errorf("allocates %d bytes", used)
	}
}
