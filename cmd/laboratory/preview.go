package laboratory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"muster/cmd/invocation"
	"muster/cmd/output"
	"muster/generator/finding"
	"muster/generator/fleet"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/generator/preview"
	"muster/gitops"
	"muster/gitops/github"

	"github.com/spf13/cobra"
)

// previewFlags contains the flags of muster-sim preview.
type previewFlags struct {
	git        invocation.Repository
	base, head string
	length     time.Duration
	pull       int
	githubRepo string

	repository *gitops.Repository
}

func (p program) previewCommand() *cobra.Command {
	v := &previewFlags{git: invocation.Repository{Program: p.Program}}
	git := &v.git
	c := &cobra.Command{
		Use:   "preview [BASE[...HEAD]]",
		Short: "Show the effect of changes to policies, templates or the base",
		Long: `preview compares two commits of the current clone, as those of a pull request, and
prints in Markdown which settings change, how the agents' Job changes, what check
finds, and what the new policies would have done with the jobs of the last days, as
the fleet's commits record them. It needs no Buildkite token.

The clone needs the history of those days; preview reports if a shallow clone has
less. --github-pr keeps one comment of that pull request up to date, and writes a
check with the findings at their lines, with the App's flag, or with GH_TOKEN or
GITHUB_TOKEN. docs/how-to/review-policy-changes.md has the steps for GitHub Actions
and Buildkite.

BASE is the branch to merge into, by default origin/main, and HEAD the commit to
merge, by default HEAD. As in git diff, the comparison starts at their merge base.`,
		Example: `  muster-sim preview
  muster-sim preview origin/main...HEAD --github-pr 12`,
		Args: invocation.AtMostOne("pair of commits"),
		RunE: func(cmd *cobra.Command, args []string) error {
			base, head, _ := strings.Cut(strings.Join(args, ""), "...")
			v.base, v.head = cmp.Or(base, "origin/main"), cmp.Or(head, "HEAD")
			return v.run(cmd.Context())
		},
	}
	f := c.Flags()
	f.StringVar(&git.Repo, "repo", "", "clone on this machine (default the one of the current directory)")
	f.StringVar(&git.Overlays, "overlays", "overlays", "directory of overlays in the repository")
	invocation.DurationVar(f, &v.length, "length", 7*24*time.Hour, "length of the history to replay, such as 12h or 7d; 0 replays none")
	invocation.NumberVar(f, &v.pull, "github-pr", "", 0, 0, math.MaxInt, "comment on this GitHub pull request, and write a check")
	f.StringVar(&v.githubRepo, "github-repo", "", "repository on GitHub, as OWNER/NAME (default that of the remote origin)")
	git.AddApp(c)
	return c
}

// longestReplay is the maximum length of the history that is replayed.
const longestReplay = 90 * 24 * time.Hour

func (v *previewFlags) run(ctx context.Context) error {
	if v.length < 0 || v.length > longestReplay {
		return output.Usage(fmt.Errorf("--length %s: use 0 to 90d", invocation.ShortDuration(v.length)))
	}
	base, head, err := v.open()
	if err != nil {
		return err
	}
	progress := v.git.Program.Progress
	progress.Doing("comparing the two commits")
	report, err := v.report(ctx, base, head)
	progress.Done()
	if err != nil {
		return err
	}
	fmt.Fprint(v.git.Program.Stdout, report.Markdown())
	if v.pull == 0 {
		return nil
	}
	return v.post(ctx, report)
}

// open opens the clone, and finds the two commits.
func (v *previewFlags) open() (base, head string, err error) {
	git := &v.git
	if git.Repo != "" && !invocation.IsClone(git.Repo) {
		return "", "", output.Usage(fmt.Errorf("--repo %s: must be a clone on this machine, because preview compares two of its commits", git.Repo))
	}
	top, err := v.git.Program.CloneAt(git.Repo)
	if err != nil {
		return "", "", output.Usage(err)
	}
	git.Repo, git.Branch = top, "HEAD"
	p := v.git.Program
	if head = p.Commit(top, v.head); head == "" {
		return "", "", output.Usage(fmt.Errorf("%s: there is no such commit in %s", v.head, top))
	}
	into := p.Commit(top, v.base)
	if into == "" {
		return "", "", output.Usage(fmt.Errorf("%s: there is no such commit in %s; fetch it, or name another", v.base, top))
	}
	if base = p.GitOutput(top, "merge-base", into, head); base == "" {
		return "", "", output.Usage(fmt.Errorf("%s and %s have no commit in common here: fetch more of the history (git fetch --unshallow)", v.base, v.head))
	}
	if v.githubRepo == "" {
		v.githubRepo = p.GitOutput(top, "remote", "get-url", "origin")
	} else if strings.Count(v.githubRepo, "/") == 1 {
		v.githubRepo = "https://github.com/" + v.githubRepo
	}
	v.repository, err = git.Reader(slog.New(slog.DiscardHandler))
	return base, head, err
}

// report compares the two commits, and simulates the changed overlays.
func (v *previewFlags) report(ctx context.Context, base, head string) (preview.Report, error) {
	r := preview.Report{Base: base, Head: head}
	dir := path.Clean(v.git.Overlays)
	dirs := []string{dir, path.Join(path.Dir(dir), "base")}
	var fleets [2][]fleet.Overlay
	var findings [2][]finding.Finding
	for i, commit := range []string{base, head} {
		tree, err := v.repository.Past(ctx, commit, dirs)
		if err != nil {
			return r, err
		}
		loader := v.git.Loader()
		if fleets[i], err = loader.LoadContext(ctx, tree.Tree); err != nil && i == 1 {
			return r, fmt.Errorf("the overlays of %.7s cannot be read: %w", commit, err)
		}
		if findings[i], err = loader.Check(ctx, tree.Tree); err != nil {
			return r, err
		}
	}
	r.Changes = preview.Compare(fleets[0], fleets[1])
	r.Findings = append(findings[1], fleet.Removed(fleets[0], fleets[1], v.git.Program.Clock.Now())...)
	known := map[string]bool{}
	for _, f := range findings[0] {
		known[f.File+"\n"+f.Text()] = true
	}
	r.New = func(f finding.Finding) bool { return !known[f.File+"\n"+f.Text()] }
	return r, v.play(ctx, &r, fleets[1])
}

// play simulates the recorded jobs of the overlays that change.
func (v *previewFlags) play(ctx context.Context, r *preview.Report, loaded []fleet.Overlay) error {
	if v.length == 0 || len(r.Changes) == 0 {
		return nil
	}
	v.git.Program.Progress.Doing("reading the history")
	since := v.git.Program.Clock.Now().Add(-v.length)
	current := map[string]plan.Policy{}
	for _, c := range r.Changes {
		current[path.Join(v.git.Overlays, c.Overlay)] = c.Before
	}
	past, err := readPast(ctx, v.git.Overlays, v.repository, r.Base, since, nil)
	var overrides map[string][]plan.Override
	if err == nil {
		overrides, err = pastOverrides(ctx, v.git.Overlays, v.repository, past, current)
	}
	if err != nil {
		return fmt.Errorf("reading the history before %.7s: %w", r.Base, err)
	}
	for i := range r.Changes {
		c := &r.Changes[i]
		v.git.Program.Progress.Doing("playing " + c.Overlay)
		shared := slices.ContainsFunc(loaded, func(o fleet.Overlay) bool {
			return o.Name != c.Overlay && o.Policy.Queue == c.Queue && c.Queue != ""
		})
		dir := path.Join(v.git.Overlays, c.Overlay)
		if err := c.Play(ctx, past.Observed[dir], overrides[dir], shared); err != nil {
			return err
		}
	}
	return nil
}

// previewMarker begins the comment of a pull request.
const previewMarker = "<!-- muster preview -->"

// post writes or updates the comment of the pull request, and writes a check.
func (v *previewFlags) post(ctx context.Context, r preview.Report) error {
	out := v.git.Program.Stderr
	v.git.Repo = v.githubRepo
	pulls, err := v.git.Pulls()
	switch {
	case err != nil:
		return err
	case pulls == nil:
		return output.Usage(errors.New("--github-pr needs a repository on GitHub (--github-repo OWNER/NAME) and a token: GH_TOKEN, GITHUB_TOKEN, or --github-app"))
	}
	pull, err := pulls.Get(ctx, v.pull)
	if err != nil {
		return err
	}
	if !pull.Open {
		fmt.Fprintf(out, "pull request %d is closed: nothing is written\n", v.pull)
		return nil
	}
	url, changed, err := pulls.Comment(ctx, v.pull, previewMarker, r.Markdown())
	if errors.Is(err, github.ErrReadOnly) { // pull requests from forks must pass
		fmt.Fprintf(out, "no comment is written: %v\n", err)
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s %s\n", map[bool]string{true: "wrote", false: "unchanged"}[changed], url)
	return v.check(ctx, pulls, pull, r)
}

// check writes the findings as a check of the pull request's last commit.
func (v *previewFlags) check(ctx context.Context, pulls *github.Pulls, pull github.Pull, r preview.Report) error {
	c := github.Check{Name: "muster", Title: "nothing wrong", Summary: r.Markdown(), Failed: len(r.Findings) > 0}
	if c.Failed {
		c.Title = ledger.Count(len(r.Findings), "finding")
	}
	for _, f := range r.Findings {
		c.Annotations = append(c.Annotations, github.Annotation{Path: f.File, Line: f.Line, Failure: true, Text: output.ShownAs(f.Text())})
	}
	url, err := pulls.Check(ctx, pull.Head, c)
	if errors.Is(err, github.ErrNoChecks) {
		fmt.Fprintf(v.git.Program.Stderr, "no check is written: %v\n", err)
		return nil
	}
	if err == nil {
		fmt.Fprintln(v.git.Program.Stderr, "wrote "+url)
	}
	return err
}
