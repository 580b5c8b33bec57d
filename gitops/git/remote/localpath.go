package remote

import (
	"context"
	"os/exec"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/transport"
)

// openProcess runs a service of the git binary on a local repository.
func (c *Connection) openProcess(ctx context.Context, service, version string) (*stream, error) {
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(running, git, append(slices.Clone(c.offers(ctx, service)), strings.TrimPrefix(service, "git-"), c.Address.Path)...)
	s := &stream{ctx: ctx, stderr: &Tail{}, abort: cancel}
	cmd.Env = append(minimal(cmd.Environ()), versionVariable+"="+version)
	if service == transport.UploadPackServiceName {
		cmd.Env = append(cmd.Env, noFetch...)
	}
	return s.run(cmd)
}

// Enabling returns the settings that make a server offer partial clone, or for a local repository
// the commands.
func (c *Connection) Enabling() string {
	const filter, named = "uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"
	if c.Address.Scheme != "file" {
		return filter + " and " + named
	}
	set := "git -C " + quoteShell(c.Address.Path) + " config "
	return set + filter + " true && " + set + named + " true"
}

// offers returns settings that allow single objects to be read from a local repository, unless its
// configuration forbids that.
func (c *Connection) offers(ctx context.Context, service string) []string {
	if service != transport.UploadPackServiceName {
		return nil
	}
	if c.local == nil {
		c.local = []string{}
		var said []byte // empty if nothing is set
		if ask, err := Command(ctx, c.Address.Path, nil, "config", "--get-regexp", `^uploadpack\.allow`); err == nil {
			said, _ = ask.Output()
		}
		for _, key := range []string{"uploadpack.allowfilter", "uploadpack.allowanysha1inwant"} {
			if !strings.Contains(strings.ToLower(string(said)), key+" ") {
				c.local = append(c.local, "-c", key+"=true")
			}
		}
	}
	return c.local
}
