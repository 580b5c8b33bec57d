package main

import (
	"io/fs"
	"path"
	"strings"
	"testing"

	"muster/cmd/invocation"
	"muster/deploy"

	"sigs.k8s.io/yaml"
)

// TestDeployedCommand asserts that the arguments and variables in deploy/ are valid.
func TestDeployedCommand(t *testing.T) {
	looked := 0
	err := fs.WalkDir(deploy.Files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(deploy.Files, name)
		if err != nil {
			return err
		}
		switch {
		case path.Ext(name) == ".env":
			looked++
			checkCommand(t, name, []string{"run"}, strings.Fields(withoutComments(string(text))))
		case strings.Contains(string(text), "kind: Deployment\n"):
			for _, c := range containers(t, name, text) {
				var environ []string
				for _, e := range c.Env {
					environ = append(environ, e.Name+"="+e.Value)
				}
				if len(c.Args) == 0 { // a patch of the base
					c.Args = []string{"run"}
				}
				looked++
				checkCommand(t, name, c.Args, environ)
			}
		}
		return nil
	})
	if err != nil || looked < 5 {
		t.Errorf("looked at %d commands, %v", looked, err)
	}
}

func withoutComments(text string) string {
	var all strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			all.WriteString(line)
		}
	}
	return all.String()
}

// container contains the command of a container.
type container struct {
	Args []string
	Env  []struct{ Name, Value string }
}

// containers returns the containers of a Deployment, or of its patches.
func containers(t *testing.T, name string, text []byte) []container {
	t.Helper()
	type deployment struct {
		Patches []struct{ Patch, Path string }
		Spec    struct {
			Template struct {
				Spec struct{ Containers []container }
			}
		}
	}
	var d deployment
	if err := yaml.Unmarshal(text, &d); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	all := d.Spec.Template.Spec.Containers
	for _, p := range d.Patches {
		var inline deployment
		if err := yaml.Unmarshal([]byte(p.Patch), &inline); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		all = append(all, inline.Spec.Template.Spec.Containers...)
	}
	return all
}

// checkCommand reports invalid arguments and variables.
func checkCommand(t *testing.T, name string, args, environ []string) {
	t.Helper()
	p := program{invocation.Program{Environ: environ}}
	root := p.command()
	if err := p.Environment(root); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	command, flags, err := root.Find(args)
	if err == nil {
		err = command.ParseFlags(flags)
	}
	if err != nil {
		t.Errorf("%s: muster %q: %v", name, args, err)
	}
}
