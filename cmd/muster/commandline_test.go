package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"muster/cmd/invocation"
	"muster/cmd/laboratory"
	"muster/generator/condition"
	"muster/gitops/leaktest"

	"github.com/spf13/pflag"
)

// TestHelp asserts that each command has a heading, two examples and a help text of at most 80 columns, and that no
// paragraph is in two of them.
func TestHelp(t *testing.T) {
	flags := map[string]bool{}
	for _, commands := range []invocation.Commands{allCommands, laboratory.Commands} {
		paragraphs := map[string]string{}
		root := commands.Root(invocation.Program{})
		for _, c := range append(root.Commands(), root) {
			var text bytes.Buffer
			c.InitDefaultHelpFlag()
			c.SetOut(&text)
			check(t, c.Help())
			for line := range strings.Lines(text.String()) {
				if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > 80 {
					t.Errorf("%s --help has a line of more than 80 columns: %s", c.CommandPath(), line)
				}
			}
			for paragraph := range strings.SplitSeq(c.Long, "\n\n") {
				if other := paragraphs[paragraph]; other != "" && paragraph != "" {
					t.Errorf("%s and %s have the same paragraph: %s", other, c.CommandPath(), paragraph)
				}
				paragraphs[paragraph] = c.CommandPath()
			}
			c.LocalFlags().VisitAll(func(f *pflag.Flag) { flags[f.Name] = f.Name != "help" && f.Name != "version" })
			if c == root {
				continue
			}
			if n := strings.Count("\n"+c.Example, "\n  muster"); n < 2 {
				t.Errorf("%s has %d examples", c.CommandPath(), n)
			}
			if c.GroupID == "" {
				t.Errorf("%s has no heading", c.CommandPath())
			}
		}
	}
	n := 0
	for _, counted := range flags {
		if counted {
			n++
		}
	}
	if n > mostFlags {
		t.Errorf("the programs have %d distinct flags, at most %d before", n, mostFlags)
	}
}

// mostFlags is the number of distinct flags of both programs, without --help and --version. It may only shrink.
const mostFlags = 80

// TestRemedyCommands asserts that muster accepts the arguments of each command that a condition offers to copy.
func TestRemedyCommands(t *testing.T) {
	tried := 0
	for _, r := range condition.Reasons() {
		words := strings.Fields(condition.Condition{Reason: r.Name, Overlay: "default", Queue: "large", Cluster: "ci"}.Command())
		if len(words) == 0 || words[0] != "muster" {
			continue
		}
		c, args, err := allCommands.Root(invocation.Program{}).Find(words[1:])
		check(t, err)
		check(t, c.ParseFlags(args))
		if err := c.ValidateArgs(c.Flags().Args()); err != nil {
			t.Errorf("%s: %q: %v", r.Name, words, err)
		}
		tried++
	}
	if tried < 10 {
		t.Errorf("%d commands", tried)
	}
}

// TestUsageErrors asserts the exit code and the message of invalid flags, which print nothing
// else.
func TestUsageErrors(t *testing.T) {
	dir := t.TempDir()
	empty := tempFile(t, "empty", " \n")
	bad := tempFile(t, "bad.csv", "at,duration\n0,60\n5,soon\n")
	policy := tempFile(t, "scaling.yaml", "apiVersion: muster.dev/v1alpha1\nkind: ScalingPolicy\nspec: {queue: default, max: many}\n")
	run := "run --repo https://git.invalid/fleet.git --buildkite-org acme "
	for _, test := range []struct{ args, want string }{
		{"run --once --listen :0", "--once ends after one tick"},
		{"run --once --listen pprof=:0", "--once ends after one tick"},
		{"run --listen :6060,pprof=:6060", "--listen: pprof must use another address"},
		{"run --listen 8080", `--listen: "8080": must end in a port`},
		{"run --listen :99999", `--listen: ":99999": must end in a port`},
		{"run --listen pprof=localhost", `--listen: pprof "localhost": must end in a port`},
		{"pause", "muster pause takes OVERLAY..., got no argument: muster pause --help prints examples"},
		{"set default", "muster set takes OVERLAY... NAME=VALUE..., got 1 argument"},
		{"revert", "muster revert takes COMMIT, got no argument"},
		{"cancel", "muster cancel takes DISPATCH..., got no argument"},
		{"preview x y", `muster-sim preview takes one pair of commits: remove "y"`},
		{"simulate a b", `muster-sim simulate takes one repository: remove "b"`},
		{"report --price x", "--price: must be a non-negative number"},
		{"simulate --policy " + dir + "/none.yaml", "--policy: " + dir + "/none.yaml: no such file or directory"},
		{"run --git-webhook-secret-file x", "on the address of --listen: give one"},
		{"run --listen 127.0.0.1:0,commit-url=git.example.com/{commit}", "--listen: commit-url must begin with https:// and contain {commit}"},
		{"run --listen 127.0.0.1:0 --webhook-interval 999ms", "--webhook-interval is below one second"},
		{run + "--listen 127.0.0.1:0 --buildkite-webhook-secret-file /nowhere", "reading the secret of Buildkite's webhook: /nowhere: no such file"},
		{run + "--listen 127.0.0.1:0 --git-webhook-secret-file " + empty, "reading the secret of the git host's webhook: " + empty + " is empty"},
		{run + "--once --listen 127.0.0.1:0 --buildkite-webhook-secret-file " + empty, "--once ends after one tick"},
		{run + "--say-on-jobs", "--say-on-jobs: which agent token? give --agent-token-file"},
		{run + "--say-on-jobs --once", "leave out --say-on-jobs"},
		{run + "--agent-token-file " + empty, "reading the agent token: " + empty + " is empty"},
		{run + "--agent-endpoint ftp://x/ --agent-token-file " + agentTokenFile(t), "the address of Buildkite's Agent API is not a URL"},
		{"simulate --csv " + bad, bad + `: row 3: duration: "soon" is neither`},
		{"simulate --csv " + bad + " --workload steady", "use one of them"},
		{"simulate --csv " + dir + "/none.csv", "no such file"},
		{"simulate --workload stormy", "--workload stormy: use all, or some of steady, diurnal"},
		{"simulate --algorithms magic", "--algorithms magic: use all, or some of muster,"},
		{"simulate --length -1h", "--length -1h: use at most 31d"},
		{"simulate --syncer jenkins", `--syncer: "jenkins": use one of argocd, flux, notified`},
		{"simulate --syncer 30s-20s", `--syncer: "30s-20s": use one of argocd, flux, notified`},
		{"simulate --faults requests=-1", `--faults: requests: must be a whole number of 1 or more, got "-1"`},
		{"simulate --interval 1ms", "--interval is below one second"},
		{"simulate --startup 2m-1m", `--startup: "2m-1m" is not a duration, or a shorter and a longer one, as in 25s-70s`},
		{"simulate --faults nodes=x", `--faults: nodes: must be a whole number of 1 or more, got "x"`},
		{"simulate --faults no-show=NaN", `--faults: no-show: must be a number from 0 to 1, got "NaN"`},
		{"simulate --seed 0x7", `--seed: must be a whole number of 0 or more, got "0x7"`},
		{"history --limit 1e3", `--limit: must be a whole number of 0 or more, got "1e3"`},
		{"simulate --out chart.png", "must end in .json or .svg"},
		{"simulate --policy " + policy, "spec.max"},
		{"simulate --history " + dir, dir + " is in no git repository"},
		{"simulate --history", "which repository?"},
		{"simulate fleet", `unknown argument "fleet"`},
		{"run --sign key", "--sign: a signature is written as KEY=VALUE,KEY=VALUE, as in kind=ssh,key-file=FILE"},
		{"run --sign kind=ssh", "--sign: a signature needs key-file, as in kind=ssh,key-file=FILE"},
		{"run --sign kind=x509,key-file=x", `--sign: "x509" is not a kind of signature: write kind=ssh or kind=gpg`},
		{"run --sign kind=ssh,key-file=x,passphrase-file=y", "--sign: kind=ssh takes no passphrase-file"},
		{"pause --sign kind=ssh,key=x", `--sign: a signature has no "key": give key-file, kind, passphrase-file, separated by commas`},
		{"pause default --commit-author ada@example.com", `--commit-author: "ada@example.com" is not a person: write "Name <address>"`},
		{"plan --github-app id=7", "--github-app: a GitHub App needs installation, as in id=1234,installation=5678,key-file=FILE"},
		{"plan --github-app id=7,installation=acme,key-file=x", `--github-app: installation: must be a whole number of 1 or more, got "acme"`},
		{"plan --github-app id=7,installation=7,key-file=x,sign=yes", "--github-app: the sign of a GitHub App is true or false"},
		{"status --live 127.0.0.1:8080", `--live: must be the address of muster run --listen, as in http://127.0.0.1:8080, got "127.0.0.1:8080"`},
		{"plan --source stack", `--source: "stack": use rest or stacks`},
		{"plan --source rest,key=x", "--source: only stacks takes a key, as in stacks,key=KEY"},
		{"run --sign-ssh-key-file x", "unknown flag: --sign-ssh-key-file; write --sign kind=ssh,key-file=FILE"},
		{"simulate --json x", "unknown flag: --json; write --out FILE, whose name ends in .json or .svg"},
	} {
		code, stdout, stderr := execute(t, program{invocation.Program{Args: strings.Fields(test.args), Environ: []string{"BUILDKITE_API_TOKEN=" + leaktest.BuildkiteToken}}})
		if code != invocation.ExitUsage || stdout != "" || !strings.Contains(stderr, test.want) {
			t.Errorf("%s: exit code %d, printed %q, and %q, want %q", test.args, code, stdout, stderr, test.want)
		}
	}
}
