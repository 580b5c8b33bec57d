package laboratory

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"muster/cmd/evidence"
	"muster/cmd/invocation"
	"muster/cmd/output"
	"muster/generator/buildkite"
	"muster/gitops"

	"github.com/spf13/cobra"
)

// live contains the flags of muster-sim live.
type live struct {
	git        invocation.Repository
	buildkite  invocation.Buildkite
	agentFiles []string
	agentURL   string
	budget     int
	write      bool
	agent      string
}

func (p program) liveCommand() *cobra.Command {
	l := &live{git: invocation.Repository{Program: p.Program}, buildkite: invocation.Buildkite{Program: p.Program}}
	c := &cobra.Command{
		Use:   "live",
		Short: "Compare beliefs about Buildkite and git with your accounts",
		Long: `live reads your organisation in Buildkite, and the fleet repository if --repo is
given, and compares what it reads with each belief about them on which muster and its
simulation rely. It sends requests that only read, and first prints how many at most.
Some fail on purpose: with an invalid token or password, without a scope, and for an
object, a repository and a stack that do not exist.

A belief is confirmed, contradicted, or not reachable: reading cannot show it, or no
such case exists now. Run it while builds wait and run. The evidence has numbers and
names of fields, but no secrets, names, identifiers or contents of jobs.

With --write, live also creates a queue, pipelines, builds, a stack and a branch whose
names begin with muster-live, starts agents, and removes all of that at its end, also
after Ctrl-C. If it was killed, its next start with --write removes it. It first prints
what it creates, and changes nothing that it has not created.

Exit code 1: a belief is contradicted; 3: also if something that it created is not
removed. docs/how-to/compare-with-your-accounts.md has an example.`,
		Example: `  muster-sim live --buildkite-org acme
  muster-sim live --buildkite-org acme --agent-token-file token \
    --repo https://git.example.com/fleet.git
  muster-sim live --buildkite-org acme --agent-token-file token --write`,
		Args: invocation.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return l.run(cmd) },
	}
	l.buildkite.AddTo(c)
	l.git.AddReading(c)
	l.git.AddLog(c)
	f := c.Flags()
	f.StringArrayVar(&l.agentFiles, "agent-token-file", nil, "file with an agent token of a Buildkite cluster: also read the Agent API")
	f.StringVar(&l.agentURL, "agent-endpoint", "https://agent.buildkite.com/v3/", "Buildkite Agent API URL")
	invocation.NumberVar(f, &l.budget, "budget", "", evidence.DefaultBudget, 1, 1000, "maximum number of requests that read the REST API; Buildkite allows 50 a minute, which muster run shares")
	f.BoolVar(&l.write, "write", false, "also create builds, agents and a branch, and remove them at the end; needs --agent-token-file")
	f.StringVar(&l.agent, "agent-program", "buildkite-agent", "program that --write starts as agents")
	return c
}

func (l *live) run(cmd *cobra.Command) error {
	config, err := l.config()
	if err != nil {
		return err
	}
	writing, end, err := l.writing(cmd.ErrOrStderr(), config)
	if err != nil {
		return err
	}
	defer end()
	if l.write {
		fmt.Fprintf(cmd.ErrOrStderr(), "live creates, and then removes, %s\n", evidence.Plan(writing))
		return l.compare(cmd, writing)
	}
	text := fmt.Sprintf("Reading only, with at most %d requests to Buildkite's REST API", config.Budget)
	if config.AgentToken != nil {
		text += fmt.Sprintf(", %d to its Agent API", evidence.AgentRequests)
	}
	if config.Git != nil {
		text += fmt.Sprintf(", %d to the git host", evidence.GitRequests)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s.\n\n", text)
	if config.AgentToken != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "With --write, live would also create, and then remove, %s\n", evidence.Plan(writing))
	}
	return l.compare(cmd, config)
}

// compare prints the results, also if not all that was created is removed.
func (l *live) compare(cmd *cobra.Command, config evidence.Config) error {
	p := l.git.Program
	results, unremoved := evidence.Collect(cmd.Context(), config)
	p.Progress.Done()
	switch {
	case results == nil && cmd.Context().Err() != nil && l.write:
		return invocation.Interruption{Err: unremoved}
	case results == nil:
		return gitops.WithRemedy(unremoved)
	}
	if err := printEvidence(p.Output(), results); unremoved == nil {
		return err
	}
	return unremoved
}

// writing returns the settings with those of writing, and a function that deletes the agents' files.
func (l *live) writing(errs io.Writer, config evidence.Config) (evidence.Config, func(), error) {
	p := l.git.Program
	none := func() {}
	if config.AgentToken == nil {
		if l.write {
			return config, none, output.Usage(errors.New("--write registers a stack and agents: give --agent-token-file"))
		}
		return config, none, nil
	}
	w := &evidence.Writing{ID: strings.ToLower(rand.Text()[:8]), Log: func(text string) { fmt.Fprintln(errs, text) }}
	config.Write = w
	path, err := exec.LookPath(l.agent)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		w.NoAgents = "needs buildkite-agent: it is not in PATH, and --agent-program names no program"
		return config, none, nil
	}
	if w.Host, err = os.Hostname(); err != nil {
		return config, none, err
	}
	program := agentProgram{path: path, token: config.AgentToken, environ: p.Environ, now: p.Clock.Now}
	if l.agentURL != buildkite.DefaultAgentURL {
		program.endpoint = l.agentURL
	}
	if w.Start = program.start; !l.write {
		return config, none, nil
	}
	if program.dir, err = os.MkdirTemp("", "muster-live-"); err != nil {
		return config, none, err
	}
	w.Start = program.start // with its directory
	return config, func() { _ = os.RemoveAll(program.dir) }, nil
}

// config returns the settings of the flags.
func (l *live) config() (evidence.Config, error) {
	p := l.git.Program
	c := evidence.Config{
		Org: l.buildkite.Org, URL: l.buildkite.URL, AgentURL: l.agentURL, Branch: l.git.Branch,
		Budget: l.budget, Clock: p.Clock, Doing: p.Progress.Doing,
	}
	err := l.buildkite.RequireOrg()
	if err == nil {
		c.Token, err = l.buildkite.Token()
	}
	if err != nil {
		return c, err
	}
	tokens, err := invocation.AgentTokens(l.agentFiles)
	switch {
	case err != nil:
		return c, err
	case len(tokens) > 1:
		return c, output.Usage(errors.New("--agent-token-file: live reads one Buildkite cluster: give one agent token"))
	case len(tokens) == 1:
		c.AgentToken = tokens[0]
	}
	if l.git.Repo == "" {
		return c, nil
	}
	log, err := l.git.Logger()
	if err == nil {
		c.Git, err = l.git.Connection(log)
	}
	if err != nil {
		return c, err
	}
	owner, name, app, err := l.git.GitHubRepository()
	if app != nil {
		c.GitHub = &evidence.GitHub{API: l.git.GitHubAPI, Owner: owner, Name: name, Token: app.Token}
	}
	return c, err
}

// printEvidence prints the table of results, and what each contradiction means.
func printEvidence(out output.Output, results []evidence.Result) error {
	styles := map[evidence.Verdict]output.Style{evidence.Confirmed: output.Good, evidence.Contradicted: output.Bad}
	t := output.Table{Head: []string{"BELIEF", "RESULT", "EVIDENCE"}}
	count := map[evidence.Verdict]int{}
	for _, r := range results {
		count[r.Verdict]++
		t.Rows = append(t.Rows, []output.Cell{{Text: r.ID}, {Text: string(r.Verdict), Style: styles[r.Verdict]}, {Text: r.Evidence}})
	}
	if err := t.Write(out); err != nil {
		return err
	}
	fmt.Fprintf(out.Text, "\n%d confirmed, %d contradicted, %d not reachable\n", count[evidence.Confirmed], count[evidence.Contradicted], count[evidence.Unreachable])
	for _, r := range results {
		if r.Verdict == evidence.Contradicted {
			fmt.Fprintf(out.Text, "\n%s: %s\n  if false: %s\n", r.ID, r.Belief.Belief, r.IfFalse)
		}
	}
	if count[evidence.Contradicted] > 0 {
		return invocation.ErrChanges
	}
	return nil
}
