package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"muster/cmd/invocation"
	"muster/generator/policy"
)

// TestInitPrompts asserts that init prompts for the queue on a terminal, and that an empty
// answer is the default, with a hint.
func TestInitPrompts(t *testing.T) {
	for _, test := range []struct {
		name, answer, overlay string
		terminal, asks, hints bool
		args                  []string
	}{
		{"an answer", "linux-large\n", "linux-large", true, true, false, nil},
		{"an answer without an end", " linux-large", "linux-large", true, true, false, nil},
		{"an empty answer", "\n", "default", true, true, true, nil},
		{"no answer", "", "default", true, true, true, nil},
		{"the default by name", "default\n", "default", true, true, false, nil},
		{"no terminal", "linux-large\n", "default", false, false, true, nil},
		{"a flag", "linux-large\n", "mac", true, false, false, []string{"--queue", "mac"}},
		{"two answers", "linux-large\ny\n", "linux-large", true, true, false, nil},
		{"one for a flag", "Yes\n", "mac", true, false, false, []string{"--queue", "mac"}},
	} {
		dir := filepath.Join(t.TempDir(), "fleet")
		code, out, errs := execute(t, program{invocation.Program{Args: append([]string{"init", dir}, test.args...), Stdin: strings.NewReader(test.answer), Terminal: test.terminal}})
		if code != invocation.ExitOK {
			t.Errorf("%s: exit code %d: %s", test.name, code, errs)
		}
		if _, err := os.Stat(filepath.Join(dir, "overlays", test.overlay, "scaling.yaml")); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if asks := strings.Contains(out, "Key of the self-hosted Buildkite queue"); asks != test.asks {
			t.Errorf("%s: asks: %t", test.name, asks)
		}
		if asks := strings.Count(out, "May builds share a pod?") == 1; asks != test.terminal {
			t.Errorf("%s: asks whether builds may share a pod: %t", test.name, asks)
		}
		policy, err := os.ReadFile(filepath.Join(dir, "overlays", test.overlay, "scaling.yaml"))
		check(t, err)
		shares := slices.Contains([]string{"two answers", "one for a flag"}, test.name)
		if set := strings.Contains(string(policy), "\n  reuse: {idle: auto, uptime: 30m} # lets agents"); set != shares {
			t.Errorf("%s: sets reuse: %t\n%s", test.name, set, policy)
		}
		if set := strings.Contains(string(policy), "\n  idleTimeout: 1m           # how long"); set == shares {
			t.Errorf("%s: sets the idle time-out: %t\n%s", test.name, set, policy)
		}
		if !strings.Contains(string(policy), "\n  max: 100                  # maximum") || !strings.Contains(string(policy), "\n  maxPerHour: 5000          # maximum") || !strings.Contains(out, "max is 100. If the nodes hold fewer agents, set it in overlays/") {
			t.Errorf("%s: %s\n%s", test.name, out, policy)
		}
		if hints := strings.Contains(out, "of that name: create"); hints != test.hints {
			t.Errorf("%s: hints: %t", test.name, hints)
		}
	}
}

// TestDeployedVersion asserts that init writes the program's version, as a valid tag, for each
// image.
func TestDeployedVersion(t *testing.T) {
	part, err := deployment("v9.8.7+6", "")
	check(t, err)
	images := 0
	for name, content := range part.Files {
		text := string(content)
		images += strings.Count(text, "newName: ")
		if strings.Count(text, "newName: ") != strings.Count(text, "newTag: v9.8.7-6\n") {
			t.Errorf("%s:\n%s", name, text)
		}
	}
	if images < 2 {
		t.Errorf("%d images are named", images)
	}
}

// TestNoTerminal asserts that neither a file nor the null device is a terminal.
func TestNoTerminal(t *testing.T) {
	for _, name := range []string{os.DevNull, "init_test.go"} {
		f, err := os.Open(name)
		check(t, err)
		if invocation.IsTerminal(f) {
			t.Errorf("%s is taken for a terminal", name)
		}
		f.Close()
	}
}

// TestInitSaysWhatItIgnores asserts that init names flags that existing files contradict, and the name
// that it derives from a queue.
func TestInitSaysWhatItIgnores(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"", "wrote overlays/default", invocation.ExitOK},
		{"--overlay default --queue other", "overlays/default exists: unchanged, with the queue default instead of other: edit it, or give another --overlay", invocation.ExitOK},
		{"--overlay default --cluster eu", `overlays/default exists: unchanged, with the cluster "" instead of "eu"`, invocation.ExitOK},
		{"--queue UPPER", "the overlay of the queue UPPER is called upper-", invocation.ExitOK},
		{"--syncer flux", "wrote syncer/", invocation.ExitOK},
		{"--syncer argocd", "is for flux; remove it, or give --syncer flux", invocation.ExitUsage},
		{"--overlay default --max 100", "overlays/default exists: unchanged\n", invocation.ExitOK},
		{"--overlay default", "Next: validate the files with", invocation.ExitOK},
		{"--overlay default --queue default --max 20", "Next: edit overlays/default/scaling.yaml", invocation.ExitOK},
		{"--overlay default --queue other --max 20 --image a/b:1", "unchanged, with the queue default instead of other, and max 100 instead of 20, and its own image instead of a/b:1: edit it", invocation.ExitOK},
		{"--queue windows --syncer argocd", "syncer/fleet.yaml is for flux: do not apply it to a cluster that has only argocd.\n", invocation.ExitOK},
		{"--queue stopped --max 0", "muster orders no agents for this overlay until you raise max, which is 0.\n", invocation.ExitOK},
		{"--max x", `--max: must be a whole number from 0 to 100000, got "x"`, invocation.ExitUsage},
		{"--queue a --max -1", `--max: must be a whole number from 0 to 100000, got "-1"`, invocation.ExitUsage},
		{"--image 'a", `--image "'a": is not the name of an image`, invocation.ExitUsage},
		{"--repo /srv/fleet.git", "--repo /srv/fleet.git: a cluster cannot read this path: give the URL of a git server", invocation.ExitUsage},
		{"--repo file:///srv/fleet.git", "--repo file:///srv/fleet.git: a cluster cannot read this path", invocation.ExitUsage},
		{"--repo https://ada:pw@git.example/fleet.git", "--repo has a password in it, which git would contain: leave it out", invocation.ExitUsage},
	} {
		code, out, errs := execute(t, program{invocation.Program{Args: append([]string{"init", dir}, strings.Fields(c.args)...)}})
		if code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("init %s: exit code %d, printed\n%s%s", c.args, code, out, errs)
		}
	}
}

// TestInitLeavesNothingToEdit asserts that the files contain the values of the flags and no placeholder, and that they
// are valid.
func TestInitLeavesNothingToEdit(t *testing.T) {
	for _, c := range []struct{ syncer, repo, url string }{
		{"flux", "https://git.example/acme/fleet.git", "https://git.example/acme/fleet.git"},
		{"flux", "git@git.example:acme/fleet.git", "ssh://git@git.example/acme/fleet.git"},
		{"argocd", "https://git.example/acme/fleet.git", "https://git.example/acme/fleet.git"},
	} {
		dir := t.TempDir()
		run := func(args ...string) string {
			code, out, errs := execute(t, program{invocation.Program{Args: args}})
			if code != invocation.ExitOK {
				t.Fatalf("%q: %s%s", args, out, errs)
			}
			return out
		}
		out := run("init", dir, "--syncer", c.syncer, "--repo", c.repo, "--max", "40", "--image", "ghcr.io/acme/agent:1")
		if strings.Contains(out, "edit") {
			t.Errorf("there is something to edit:\n%s", out)
		}
		run("init", dir, "--syncer", c.syncer, "--repo", c.repo, "--queue", "large", "--image", "ghcr.io/acme/large:2", "--max", "7")
		if out := run("check", dir); out != "OK\n" {
			t.Errorf("check prints\n%s", out)
		}
		for file, want := range map[string]string{
			"overlays/default/scaling.yaml":              "  max: 40                   # maximum number of agents",
			"overlays/large/scaling.yaml":                "  max: 7                    # maximum",
			"base/job.yaml":                              "image: ghcr.io/acme/agent:1\n",
			"overlays/large/template/kustomization.yaml": "value: ghcr.io/acme/large:2\n",
			map[string]string{"flux": "syncer/fleet.yaml", "argocd": "syncer/agents-large.yaml"}[c.syncer]: ": " + c.url + "\n",
		} {
			text, err := os.ReadFile(filepath.Join(dir, file))
			check(t, err)
			if !strings.Contains(string(text), want) {
				t.Errorf("%s lacks %q:\n%s", file, want, text)
			}
		}
	}
}

// TestInitAddsManifest asserts that init writes the manifest of a further overlay for the syncer that syncer/ is for,
// and that check warns of overlays without one. Neither judges a syncer/ that may apply overlays in another way.
func TestInitAddsManifest(t *testing.T) {
	const (
		set     = "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\n"
		parent  = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nspec: {path: ./overlays}\n"
		mine    = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nspec: {source: {path: ci/overlays/default}}\n"
		apps    = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nspec: {source: {path: apps}}\n"
		list    = "apiVersion: v1\nkind: List\n"
		secret  = "apiVersion: v1\nkind: Secret\n"
		warning = "warning: overlays/large: no manifest in syncer applies it"
	)
	for _, c := range []struct {
		name, syncer, file, text string
		remove                   string
		adds, warns              bool
	}{
		{name: "flux", syncer: "flux", adds: true, warns: true},
		{name: "argocd", syncer: "argocd", adds: true, warns: true},
		{name: "another object", syncer: "flux", file: "secret.yaml", text: secret, adds: true, warns: true},
		{name: "an own source", syncer: "flux", remove: "fleet.yaml", adds: true, warns: true},
		{name: "an own name", syncer: "argocd", remove: "agents-default.yaml", file: "mine.yaml", text: mine, warns: true},
		{name: "ApplicationSet", syncer: "argocd", file: "set.yaml", text: set},
		{name: "ApplicationSet only", syncer: "argocd", remove: "agents-default.yaml", file: "set.yaml", text: set},
		{name: "all overlays", syncer: "flux", file: "all.yaml", text: parent},
		{name: "app of apps", syncer: "argocd", file: "apps.yaml", text: apps},
		{name: "List", syncer: "flux", file: "list.yaml", text: list},
		{name: "invalid", syncer: "flux", file: "x.yaml", text: "a: [\n"},
		{name: "directory", syncer: "flux", file: "eu/x.yaml", text: secret},
		{name: "no syncer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			run := func(args ...string) string {
				code, out, errs := execute(t, program{invocation.Program{Args: args}})
				if code != invocation.ExitOK {
					t.Fatalf("%q: %s%s", args, out, errs)
				}
				return out
			}
			write := func(file, text string) {
				check(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755))
				check(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644))
			}
			const url = "https://git.example/acme/fleet.git"
			if run("init", dir); c.syncer != "" {
				run("init", dir, "--syncer", c.syncer, "--repo", url)
			}
			if c.remove != "" {
				check(t, os.Remove(filepath.Join(dir, "syncer", c.remove)))
			}
			if c.file != "" {
				write("syncer/"+c.file, c.text)
			}
			const large = "apiVersion: muster.dev/v1alpha1\nkind: ScalingPolicy\nspec: {queue: large, max: 5}\n"
			write("overlays/hand/scaling.yaml", strings.Replace(large, "large", "hand", 1))
			out := run("init", dir, "--queue", "large")
			text, err := os.ReadFile(filepath.Join(dir, "syncer", "agents-large.yaml"))
			if added := err == nil && strings.Contains(out, "wrote syncer/agents-large.yaml") && strings.Contains(out, "kubectl apply -f "+filepath.Join(dir, "syncer")+"\n"); added != c.adds {
				t.Errorf("the manifest is added: %t\n%s", added, out)
			}
			if c.adds && (strings.Contains(out, "syncer/fleet.yaml") || !strings.Contains(string(text), "overlays/large\n") || c.syncer == "argocd" && !strings.Contains(string(text), url)) {
				t.Errorf("wrote\n%s\nand printed\n%s", text, out)
			}
			if c.adds {
				if again := run("init", dir, "--queue", "large"); strings.Contains(again, "syncer") {
					t.Errorf("a second init adds a manifest:\n%s", again)
				}
				check(t, os.Remove(filepath.Join(dir, "syncer", "agents-large.yaml")))
			}
			check(t, os.RemoveAll(filepath.Join(dir, "overlays", "hand")))
			out = run("check", dir)
			if !strings.HasSuffix(out, "OK\n") || strings.Contains(out, warning) != c.warns || strings.Contains(out, "overlays/default:") {
				t.Errorf("check prints\n%s", out)
			}
			if _, command, found := strings.Cut(out, "write it with muster "); found {
				command, _, _ = strings.Cut(command, ", push")
				run(strings.Fields(command)...)
				if out := run("check", dir); out != "OK\n" {
					t.Errorf("after %s, check prints\n%s", command, out)
				}
			}
		})
	}
}

// TestInitTable compares the table of what init writes, and why, with the fields that it writes other than their
// defaults, and the figures of the table with those of the page that they are from.
func TestInitTable(t *testing.T) {
	page, quality := readText(t, "docs/how-to/tune-waits-and-cost.md"), readText(t, "docs/explanation/scaling-quality.md")
	fields := map[string][]string{} // by situation
	_, table, _ := strings.Cut(page, "## What `muster init` writes, and why\n")
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, " | "); len(cells) == 3 {
			fields[strings.TrimPrefix(cells[0], "| ")] = strings.Split(strings.Trim(cells[1], "`"), "`, `")
		}
	}
	for _, c := range []struct {
		args, answer string
		situations   []string
	}{
		{"", "n", []string{"every queue", "capacity of the nodes unknown", "builds do not share a pod"}},
		{"", "y", []string{"every queue", "capacity of the nodes unknown", "builds may share a pod"}},
		{"--max=40", "n", []string{"every queue", "nodes hold 40 agents: `--max 40`", "builds do not share a pod"}},
		{"--max=40", "y", []string{"every queue", "nodes hold 40 agents: `--max 40`", "builds may share a pod"}},
	} {
		dir := filepath.Join(t.TempDir(), "fleet")
		args := append([]string{"init", dir, "--queue", "default"}, strings.Fields(c.args)...)
		if code, _, errs := execute(t, program{invocation.Program{Args: args, Stdin: strings.NewReader(c.answer + "\n"), Terminal: true}}); code != invocation.ExitOK {
			t.Fatal(errs)
		}
		written, err := os.ReadFile(filepath.Join(dir, "overlays", "default", "scaling.yaml"))
		check(t, err)
		var want, got []string
		for _, s := range c.situations {
			want = append(want, fields[s]...)
		}
		for _, f := range policy.Fields() {
			line := regexp.MustCompile(`(?m)^  (` + f.Name + `: .*?) +#`).FindStringSubmatch(string(written))
			if line != nil && f.Name != "queue" && line[1] != f.Name+": "+f.Default {
				got = append(got, line[1])
			}
		}
		slices.Sort(want)
		if slices.Sort(got); !slices.Equal(want, got) {
			t.Errorf("%s %s: the table has %q, and init writes %q", c.args, c.answer, want, got)
		}
	}
	for _, syncer := range []string{"flux", "argocd"} {
		dir := filepath.Join(t.TempDir(), "fleet")
		if code, _, errs := execute(t, program{invocation.Program{Args: []string{"init", dir, "--with-deploy", "--syncer", syncer}}}); code != invocation.ExitOK {
			t.Fatal(errs)
		}
		settings, err := os.ReadFile(filepath.Join(dir, "deploy", "base", "muster.env"))
		check(t, err)
		for _, name := range fields["`--with-deploy --syncer flux` or `argocd`"] {
			if !strings.Contains(string(settings), "\n"+name+"=") {
				t.Errorf("init --with-deploy --syncer %s does not set %s", syncer, name)
			}
		}
	}
	figure := func(row string, column int) float64 {
		_, rest, _ := strings.Cut(quality, "\n| "+row)
		line, _, _ := strings.Cut(rest, "\n")
		cells := strings.Split(line, " | ")
		v, err := strconv.ParseFloat(cells[min(column, len(cells)-1)], 64)
		check(t, err)
		return v
	}
	const reused = "`muster-reuse-auto`"
	for _, text := range []string{
		fmt.Sprintf("the mean wait is %.0f s instead of %.0f s", figure("1 of 20 agents lost", 4), figure("1 of 20 agents lost", 3)),
		fmt.Sprintf("mean wait times %.2f, p95 times %.2f, pod-hours times %.2f", figure(reused, 1), figure(reused, 2), figure(reused, 3)),
		fmt.Sprintf("mean wait times %.2f (Flux) or %.2f (Argo CD)", 1/figure("`muster-flux`", 1), 1/figure("`muster-argocd`", 1)),
	} {
		if !strings.Contains(page, text) {
			t.Errorf("the page lacks %q", text)
		}
	}
}
