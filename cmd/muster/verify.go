package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"muster/cmd/invocation"
	"muster/cmd/output"
	"muster/generator/ledger"
	"muster/generator/verification"
	"muster/gitops"
	"muster/gitops/branch"
	"muster/gitops/git"
	"muster/gitops/git/remote"

	"github.com/spf13/cobra"
)

// verifyFlags contains the flags of muster verify.
type verifyFlags struct {
	settings                *settings
	since, output           string
	all, strict, signatures bool
	count                   verification.Count
}

func (p program) verifyCommand() *cobra.Command {
	v := &verifyFlags{settings: &settings{program: p, git: invocation.Repository{Program: p.Program}}}
	git := &v.settings.git
	c := &cobra.Command{
		Use:   "verify [RANGE]",
		Short: "Recompute every commit by muster and compare it byte for byte",
		Long: `verify makes the decision of every commit by muster again, from the commit and the
observation that its trailers name, renders it, and compares the files byte for byte
and the trailers one by one. It does not read the prose of messages. The verdicts:

  reproduced     the same trailers and files
  differs        other trailers, other files, or not where muster pushed it
  not-by-muster  somebody changed muster's files in a commit of their own
  unknown        this repository lacks the files that were decided on, or
                 another version made the commit, and this one would make it
                 differently

It prints all but the reproduced ones. If a commit differs, the exit code is 1; with
--strict also if one is unknown. For a repair, verify checks that it changes only
muster's own files, and writes dispatches as they were ordered. For commits of muster
cancel and muster close-breaker, it runs the command again on the parent.

RANGE is as in git: A..B is what is in B and not in A, A.. goes to the head of the
branch, and B alone is everything up to B. The default is the branch. In a clone, A
and B are any revisions that git resolves, otherwise commit IDs.

It reads only git: it needs no Buildkite token, and no flags in a clone of the
repository. --signatures needs a clone, and uses its git and its keys.`,
		Example: `  muster verify
  muster verify --since 7d
  muster verify origin/main..HEAD --strict
  muster verify --signatures -o json`,
		Args:              invocation.AtMostOne("range"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return v.run(cmd.Context(), strings.Join(args, ""))
		},
	}
	git.AddReading(c)
	v.settings.git.AddLog(c)
	f := c.Flags()
	f.StringVar(&v.since, "since", "", "omit commits older than this time or age, such as 24h or 7d")
	f.StringVarP(&v.output, "output", "o", "text", "text or json")
	f.BoolVar(&v.all, "all", false, "also print commits that are reproduced")
	f.BoolVar(&v.strict, "strict", false, "also fail for unknown commits, such as those cut off in a shallow clone")
	f.BoolVar(&v.signatures, "signatures", false, "fail unless git verifies the signature of each muster commit; needs a clone")
	invocation.OneOf(c, "output", "text", "json")
	return c
}

// run verifies a range.
func (v *verifyFlags) run(ctx context.Context, text string) error {
	p := v.settings.program
	var printer verifyPrinter
	switch out := p.Output(); v.output {
	case "text":
		head := []string{"COMMIT", "TIME", "AUTHOR", "OVERLAY", "ACT", "VERDICT", "WHY"}
		printer = &verifyText{out: out, stream: output.Stream{Out: out, Head: head}}
	case "json":
		printer = &verifyJSON{output.JSONList{Out: out.Text, Kind: "Verification", List: "findings"}}
	default:
		return output.Usage(fmt.Errorf("--output %q: use text or json", v.output))
	}
	from := invocation.Nearest
	if text != "" || v.signatures {
		from = invocation.InClone
	}
	repository, err := v.settings.git.Open(ctx, from)
	if err != nil {
		return err
	}
	p.Progress.Doing("reading the history")
	defer p.Progress.Done()
	newest, config, err := v.config(ctx, repository, text)
	if err != nil {
		return err
	}
	log := ledger.Read(config.Overlays, invocation.ReadingAhead{Repository: repository}.Commits(ctx, newest, branch.Limit{}))
	for f, err := range config.Verify(ctx, log) {
		if err != nil {
			return err
		}
		if v.count.Muster%100 == 0 {
			p.Progress.Doing("verifying: " + commits(v.count.Muster) + " by muster")
		}
		if v.all || f.Failed() || f.Verdict != verification.Reproduced {
			if err := printer.finding(f); err != nil {
				return err
			}
		}
	}
	p.Progress.Done()
	if err := printer.end(config, v.count); err != nil {
		return err
	}
	return v.result(config, text)
}

// result prints notes on standard error, and returns the error that selects the exit code.
func (v *verifyFlags) result(config verification.Config, text string) error {
	v.settings.program.printShallow(v.count.Cut)
	if config.Until != "" && !v.count.Reached {
		return output.Usage(fmt.Errorf("%q: the first is not an ancestor of the second, whose whole history was verified", text))
	}
	if v.count.Failed > 0 || v.strict && (v.count.Verdicts[verification.Unknown] > 0 || v.count.Cut != "" && config.Since.IsZero()) {
		return invocation.ErrChanges
	}
	return nil
}

// config returns the configuration of the verification. from is the newest commit; empty: the
// branch's head.
func (v *verifyFlags) config(ctx context.Context, repository *gitops.Repository, text string) (from string, c verification.Config, err error) {
	s := v.settings
	clone := invocation.IsClone(s.git.Repo)
	c = verification.Config{
		Overlays: s.git.Overlays, Version: s.program.Build.String(), Loader: s.git.Loader,
		Workers: runtime.GOMAXPROCS(0), Count: &v.count,
		Files: func(ctx context.Context) (verification.Files, error) {
			a, err := repository.PastTrees(ctx)
			return pastFiles{a}, err
		},
	}
	if !clone {
		const manyTogether = 256 // each time is some requests
		c.Together = manyTogether
	}
	if c.Since, err = s.program.Moment("since", v.since); err != nil {
		return "", c, err
	}
	if v.signatures {
		if !clone {
			return "", c, output.Usage(errors.New("--signatures needs a clone, with its git and its keys: run it in one"))
		}
		c.Signatures = s.signatures
	}
	until, from, err := splitRange(text)
	if err != nil {
		return "", c, err
	}
	if c.Until, err = v.resolve(ctx, repository, until); err != nil {
		return "", c, err
	}
	from, err = v.resolve(ctx, repository, from)
	return from, c, err
}

// splitRange returns the excluded commit and the newest commit of a range; each may be empty.
func splitRange(text string) (until, from string, err error) {
	before, after, two := strings.Cut(text, "..")
	switch {
	case !two:
		return "", text, nil
	case strings.HasPrefix(after, "."):
		return "", "", output.Usage(fmt.Errorf("%q: a range has two dots, as in A..B", text))
	case before == "" || strings.Contains(after, ".."):
		return "", "", output.Usage(fmt.Errorf("%q is not a range: use A..B, A.. or B", text))
	}
	return before, after, nil
}

// identifier matches the ID of a commit, or a prefix.
var identifier = regexp.MustCompile(`^[0-9a-f]{4,40}$`)

// resolve returns the ID of a named commit; "" for an empty name.
func (v *verifyFlags) resolve(ctx context.Context, repository *gitops.Repository, name string) (string, error) {
	const whole = 40
	switch {
	case name == "":
		return "", nil
	case invocation.IsClone(v.settings.git.Repo):
		if commit := v.settings.program.Commit(v.settings.git.Repo, name); commit != "" {
			return commit, nil
		}
		return "", output.Usage(fmt.Errorf("git found no commit %q here", name))
	case len(name) == whole && identifier.MatchString(name):
		return name, nil
	case !identifier.MatchString(name):
		return "", output.Usage(fmt.Errorf("%q: without a clone name a commit by its identifier", name))
	}
	for c, err := range repository.Commits(ctx, "", branch.Limit{}) {
		if err != nil {
			return "", err
		}
		if strings.HasPrefix(c.ID, name) {
			return c.ID, nil
		}
	}
	return "", output.Usage(fmt.Errorf("the branch has no commit %s", name))
}

// pastFiles implements [verification.Files] with the repository's history.
type pastFiles struct{ *git.PastTrees }

// Ahead implements [verification.Files].
func (a pastFiles) Ahead(ctx context.Context, commits []branch.Commit, dirs []string) error {
	a.Know(commits)
	var all []string
	for _, c := range commits {
		all = append(append(all, c.ID), c.Parents...)
	}
	return a.PastTrees.Ahead(ctx, all, dirs)
}

// ID implements [verification.Files].
func (pastFiles) ID(content []byte) string { return git.BlobID(content) }

// verifyPrinter prints findings one by one.
type verifyPrinter interface {
	finding(f verification.Finding) error
	end(c verification.Config, count verification.Count) error
}

// verifyText prints a table and the totals.
type verifyText struct {
	out    output.Output
	stream output.Stream
	rows   int
}

func (p *verifyText) finding(f verification.Finding) error {
	p.rows++
	style := output.Plain
	if f.Failed() {
		style = output.Bad
	} else if f.Verdict == verification.Unknown {
		style = output.Warning
	}
	why := slices.Clone(f.Why)
	if f.Signature != "" {
		why = append(why, "signature: "+string(f.Signature))
	}
	return p.stream.Row([]output.Cell{
		{Text: f.Commit[:min(7, len(f.Commit))]}, {Text: f.At.UTC().Format(time.RFC3339)},
		{Text: cmp.Or(output.OneRow(f.Author), output.Unknown)}, {Text: cmp.Or(f.Overlay, output.Unknown)},
		{Text: cmp.Or(string(f.Operation), output.Unknown)}, {Text: string(f.Verdict), Style: style}, {Text: output.OneRow(strings.Join(why, "; "))},
	})
}

func (p *verifyText) end(c verification.Config, count verification.Count) error {
	if err := p.stream.Flush(); err != nil {
		return err
	}
	if p.rows > 0 {
		fmt.Fprintln(p.out.Text)
	}
	var kinds []string
	for _, v := range verification.Verdicts() {
		if n := count.Verdicts[v]; n > 0 && v != verification.NotMuster || v == verification.Reproduced {
			kinds = append(kinds, fmt.Sprintf("%d %s", n, v))
		}
	}
	_, err := fmt.Fprintf(p.out.Text, "%s, %d of them by muster: %s\n", commits(count.Commits), count.Muster, strings.Join(kinds, ", "))
	if count.Unproven > 0 {
		fmt.Fprintf(p.out.Text, "%s by muster %s no valid signature\n", commits(count.Unproven), ledger.Pick(count.Unproven, "has", "have"))
	}
	return err
}

// verifyJSON prints a document, finding by finding.
type verifyJSON struct{ list output.JSONList }

func (p *verifyJSON) finding(f verification.Finding) error { return p.list.Add(f) }

func (p *verifyJSON) end(c verification.Config, count verification.Count) error {
	return p.list.End(struct {
		Version string             `json:"version"`
		Count   verification.Count `json:"count"`
	}{c.Version, count})
}

// signatures returns the signatures of commits, as git verify-commit reports them in the clone
// with the user's keys, settings and programs. It runs no program of the clone's own
// configuration.
func (s *settings) signatures(ctx context.Context, commits []string) (map[string]verification.Signature, error) {
	args := append(s.program.SignaturePrograms(), "log", "--no-walk=unsorted", "--stdin", "--no-show-signature", "--format=%H %G?")
	c, err := remote.Command(ctx, strings.TrimPrefix(s.git.Repo, "file://"), s.program.ChildEnviron(), args...)
	if err != nil {
		return nil, err
	}
	c.Stdin = strings.NewReader(strings.Join(commits, "\n") + "\n")
	out, err := invocation.Printed(c)
	if err != nil {
		return nil, fmt.Errorf("verifying signatures with git: %w", err)
	}
	letters := map[string]verification.Signature{ // git-log(1), %G?
		"G": verification.Good, "U": verification.Untrusted, "B": verification.Bad, "X": verification.Expired, "Y": verification.Expired,
		"R": verification.Revoked, "E": verification.NoKey, "N": verification.Unsigned,
	}
	all := map[string]verification.Signature{}
	for line := range strings.Lines(out) {
		id, letter, _ := strings.Cut(strings.TrimSpace(line), " ")
		all[id] = letters[letter]
	}
	for _, id := range commits {
		if all[id] == "" { // git reported none, or an unknown letter
			all[id] = verification.NoKey
		}
	}
	return all, nil
}
