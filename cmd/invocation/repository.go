package invocation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"muster/cmd/output"
	"muster/generator/ledger"
	"muster/gitops"
	"muster/gitops/branch"
	"muster/gitops/git"
	"muster/gitops/git/remote"
	"muster/gitops/github"
	"muster/gitops/keyvalue"

	"github.com/spf13/cobra"
)

// plainMarker is the default skip marker.
const plainMarker = "[skip ci]"

// Style returns the style of commit messages. An invalid style is a usage error.
func (s *Repository) Style() (ledger.Style, error) {
	style := ledger.Style{CoAuthors: s.coAuthors, NoSkip: s.skipMarker == ""}
	if s.skipMarker != plainMarker {
		style.Skip = s.skipMarker
	}
	if s.signOff {
		style.SignOff = s.Author.String()
	}
	return style, output.Usage(style.Check())
}

// Repository are the flags of the repository, of the author and of signatures.
type Repository struct {
	Program Program

	Repo, Branch, Overlays string
	Author                 Person
	username, passwordFile string
	SSHKey, sshKnownHosts  string
	caFile                 string
	sign                   struct{ kind, keyFile, passphraseFile string }
	app                    struct{ id, installation, keyFile, sign string }
	GitHubAPI              string
	logFormat, logLevel    string

	// signOff, coAuthors and skipMarker configure the commit messages.
	signOff    bool
	coAuthors  []string
	skipMarker string

	// Shown is the repository's address without secrets, or that of the remote of a clone. It is set by
	// repository.
	Shown string
	// Traffic returns the statistics of git, and github counts those of GitHub's API; nil if
	// not used.
	Traffic func() remote.Stats
	GitHub  *remote.Counter
}

// AddTo adds all flags of the repository.
func (s *Repository) AddTo(c *cobra.Command) {
	s.AddReading(c)
	s.AddSigning(c)
	f := c.Flags()
	AuthorVar(f, &s.Author, Person{"muster", "muster@localhost"}, "author and committer of commits, as \"Name <address>\"")
	f.BoolVar(&s.signOff, "sign-off", false, "add Signed-off-by with the author to commits")
	f.StringArrayVar(&s.coAuthors, "co-author", nil, "add Co-authored-by to commits, as \"Name <address>\"; repeatable")
	f.StringVar(&s.skipMarker, "skip-marker", plainMarker, "text in commits that prevents CI builds; empty omits it")
}

// AddSigning adds the flag of signatures.
func (s *Repository) AddSigning(c *cobra.Command) {
	form := keyvalue.Form{Name: "a signature", Example: "kind=ssh,key-file=FILE", Fields: map[string]*string{
		"kind": &s.sign.kind, "key-file": &s.sign.keyFile, "passphrase-file": &s.sign.passphraseFile,
	}}
	FormVar(c.Flags(), form, "sign", "sign commits with a private key: kind=ssh,key-file=FILE, or kind=gpg,key-file=FILE,passphrase-file=FILE with an OpenPGP key as gpg --armor --export-secret-keys writes it, and passphrase-file if it has one", func() error {
		switch err := form.Require("kind", "key-file"); {
		case err != nil:
			return err
		case s.sign.kind != "ssh" && s.sign.kind != "gpg":
			return fmt.Errorf("%q is not a kind of signature: write kind=ssh or kind=gpg", s.sign.kind)
		case s.sign.kind == "ssh" && s.sign.passphraseFile != "":
			return errors.New("kind=ssh takes no passphrase-file: use a key without a passphrase")
		}
		return nil
	})
}

// AddApp adds the flags of a GitHub App and of GitHub's API.
func (s *Repository) AddApp(c *cobra.Command) {
	form := keyvalue.Form{Name: "a GitHub App", Example: "id=1234,installation=5678,key-file=FILE", Fields: map[string]*string{
		"id": &s.app.id, "installation": &s.app.installation, "key-file": &s.app.keyFile, "sign": &s.app.sign,
	}}
	FormVar(c.Flags(), form, "github-app", "GitHub App whose tokens are the password for https, and which opens pull requests and comments on them: id=ID,installation=ID,key-file=FILE with its private key in PEM. With sign=true, run commits through GitHub's API, so that GitHub signs the commits as the App's", func() error {
		err := form.Require("id", "installation", "key-file")
		if err == nil {
			if _, err = s.installation(); err != nil {
				err = fmt.Errorf("installation: %w", err)
			}
		}
		if err == nil && !slices.Contains([]string{"", "true", "false"}, s.app.sign) {
			err = errors.New("the sign of a GitHub App is true or false")
		}
		return err
	})
	c.Flags().StringVar(&s.GitHubAPI, "github-api-url", "https://api.github.com/", "GitHub API URL")
}

// installation returns the ID of the App's installation on the repository's owner.
func (s *Repository) installation() (int64, error) {
	return ReadNumber(s.app.installation, 1, int64(math.MaxInt64))
}

// AddReading adds the flags that are necessary to read the repository.
func (s *Repository) AddReading(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.Repo, "repo", "", "fleet repository: any URL git accepts, or a path")
	f.StringVar(&s.Branch, "branch", "main", "branch of the fleet repository")
	f.StringVar(&s.Overlays, "overlays", "overlays", "directory of overlays in the repository")
	f.StringVar(&s.username, "git-username", "git", "user name for https")
	f.StringVar(&s.passwordFile, "git-password-file", "", "file with the password or token for https, read at each connection; or set "+variablePassword+". If absent: ~/.netrc and git's credential helpers")
	f.StringVar(&s.SSHKey, "ssh-key-file", "", "private key for ssh, without a passphrase. Without both ssh flags: the ssh program, as git runs it, or else the ssh-agent (SSH_AUTH_SOCK) or the first key in ~/.ssh")
	f.StringVar(&s.sshKnownHosts, "ssh-known-hosts-file", "", "host keys of ssh servers (default ~/.ssh/known_hosts)")
	f.StringVar(&s.caFile, "git-ca-file", "", "additional certificate authorities for https, in PEM")
	s.AddApp(c)
}

// tracked matches how names of branches of remotes begin in a clone.
var tracked = regexp.MustCompile(`^refs/(heads|remotes/[^/]+)/`)

// BranchName returns the name of the branch; empty if it is what a repository has checked out.
func (s *Repository) BranchName() string {
	if s.Branch == "HEAD" {
		return ""
	}
	return tracked.ReplaceAllString(s.Branch, "")
}

// withoutScheme matches a URL whose scheme is missing, as in github.com/OWNER/NAME.
var withoutScheme = regexp.MustCompile(`^[a-z0-9-]+(\.[a-z0-9-]+)*\.[a-z]{2,}/[^:]+$`)

// requireRepo returns an error if no repository is given.
func (s *Repository) requireRepo() error {
	if s.Repo == "" {
		return output.Usage(errors.New("which repository? give --repo or set MUSTER_REPO"))
	}
	switch info, err := os.Stat(s.Repo); {
	case err != nil && withoutScheme.MatchString(s.Repo):
		return output.Usage(fmt.Errorf("--repo %s: is a path, and there is no such directory; did you mean https://%[1]s?", s.Repo))
	case err == nil && !info.IsDir():
		return output.Usage(fmt.Errorf("--repo %s: is a file: give a URL, or the directory of a repository", s.Repo))
	}
	return nil
}

// Reader returns the fleet repository for reading.
func (s *Repository) Reader(log *slog.Logger) (*gitops.Repository, error) {
	app, err := s.GitHubApp()
	if err != nil {
		return nil, err
	}
	return s.Repository(log, app, nil)
}

// Repository returns the fleet repository over git. app and sign may be nil.
func (s *Repository) Repository(log *slog.Logger, app *github.App, sign git.Signer) (*gitops.Repository, error) {
	config, err := s.config(log, app)
	if err != nil {
		return nil, err
	}
	config.Sign = sign
	repository, err := gitops.New(config)
	if err != nil {
		return nil, output.Usage(err)
	}
	s.Shown, s.Traffic = repository.String(), repository.Stats
	return repository, nil
}

// Connection returns a connection to the server of the fleet repository, for reading. It does not connect yet.
func (s *Repository) Connection(log *slog.Logger) (*remote.Connection, error) {
	app, err := s.GitHubApp()
	if err != nil {
		return nil, err
	}
	config, err := s.config(log, app)
	if err != nil {
		return nil, err
	}
	connection, err := git.Connect(config)
	return connection, output.Usage(gitops.WithRemedy(err))
}

// config returns the address and the credentials of the fleet repository. app may be nil.
func (s *Repository) config(log *slog.Logger, app *github.App) (gitops.Config, error) {
	if err := s.requireRepo(); err != nil {
		return gitops.Config{}, err
	}
	password, err := s.password(app)
	if err != nil {
		return gitops.Config{}, output.Usage(err)
	}
	read, push := s.Program.insteadOf(s.Repo)
	credentials := s.credentials(password, read, push)
	if app != nil {
		credentials.Refused = app.Refused
	}
	if unused := s.unusedSSHConfig(read); unused != "" {
		log.Warn(unused)
	}
	return gitops.Config{
		URL: read, PushURL: push, Branch: s.Branch, ReadAhead: s.Overlays,
		AuthorName: s.Author.Name, AuthorEmail: s.Author.Email, Log: log, TempDir: os.TempDir(),
		Credentials: credentials,
	}, nil
}

// Writer returns the writer of the fleet repository.
func (s *Repository) Writer(log *slog.Logger) (branch.Writer, error) {
	if err := s.requireRepo(); err != nil {
		return nil, err
	}
	app, err := s.GitHubApp()
	if err != nil {
		return nil, err
	}
	sign := s.Signer()
	if sign != nil {
		// Report an invalid key now, not at the first commit.
		if _, err := sign([]byte("muster\n"), s.Program.Clock.Now()); err != nil {
			return nil, output.Usage(err)
		}
	}
	repository, err := s.Repository(log, app, sign)
	if err != nil {
		return nil, err
	}
	if s.app.sign != "true" {
		return repository, nil
	}
	owner, name, err := ownerAndName(s.Repo)
	switch {
	case err != nil:
		return nil, output.Usage(err)
	case sign != nil:
		return nil, output.Usage(errors.New("--github-app with sign=true leaves signing to GitHub: remove --sign"))
	}
	writer, err := github.NewWriter(github.Config{Repository: repository, Owner: owner, Name: name, Branch: s.Branch, API: s.GitHubAPI, Token: app.Token, Refused: app.Refused, MayWrite: app.MayWrite, Client: app.Client, Now: s.Program.Clock.Now, Log: log})
	return writer, output.Usage(err)
}

// GitHubApp returns the App; nil if --github-app is absent.
func (s *Repository) GitHubApp() (*github.App, error) {
	if s.app.id == "" {
		return nil, nil
	}
	installation, err := s.installation()
	if err != nil {
		return nil, output.Usage(err)
	}
	s.GitHub = &remote.Counter{}
	client := &http.Client{Timeout: time.Minute, Transport: s.GitHub.Transport(http.DefaultTransport)}
	return &github.App{ID: s.app.id, Installation: installation, PrivateKeyFile: s.app.keyFile, API: s.GitHubAPI, Now: s.Program.Clock.Now, Client: client}, nil
}

// GitHubRepository returns the owner, the name and the App of a repository on GitHub; nil if --github-app is absent.
func (s *Repository) GitHubRepository() (owner, name string, app *github.App, err error) {
	if app, err = s.GitHubApp(); app == nil || err != nil {
		return "", "", nil, err
	}
	owner, name, err = ownerAndName(s.Repo)
	return owner, name, app, output.Usage(err)
}

// password returns the source of the password for https, or nil if none is configured. It is an
// error to configure more than one source.
func (s *Repository) password(app *github.App) (remote.PasswordFunc, error) {
	fixed := s.Program.Variable(variablePassword)
	var sources []string
	var password remote.PasswordFunc
	if app != nil {
		sources, password = append(sources, "a GitHub App"), app.Password()
	}
	if s.passwordFile != "" {
		sources, password = append(sources, "--git-password-file"), remote.PasswordFile(s.username, s.passwordFile)
	}
	if fixed != "" {
		sources, password = append(sources, variablePassword), remote.StaticPassword(s.username, fixed)
	}
	if len(sources) > 1 {
		return nil, fmt.Errorf("the password for git is given by %s: keep one", strings.Join(sources, " and "))
	}
	return password, nil
}

// Signer returns the signer of commits; nil leaves them unsigned.
func (s *Repository) Signer() git.Signer {
	switch s.sign.kind {
	case "gpg":
		return git.GPGSigner(s.sign.keyFile, s.sign.passphraseFile)
	case "ssh":
		return git.SSHSigner(s.sign.keyFile)
	}
	return nil
}

// errNotGitHub: GitHub signs no commits of another host.
var errNotGitHub = errors.New("--github-app with sign=true needs a --repo on GitHub, as in https://github.com/OWNER/NAME")

// ownerAndName returns a repository's owner and name from its address on GitHub.
func ownerAndName(repo string) (owner, name string, err error) {
	a, err := branch.ParseAddress(repo)
	owner, name, ok := strings.Cut(a.Repository(), "/")
	if err != nil || a.Host == "" || !ok || owner == "" || name == "" || strings.Contains(name, "/") {
		return "", "", errNotGitHub
	}
	return owner, name, nil
}

// credentials returns the credentials of the flags, and otherwise those that git itself would
// use: the netrc file, the credential helpers, and the ssh program with its configuration.
// Without the ssh program these are the ssh-agent or the first default key, and the known
// hosts.
func (s *Repository) credentials(password remote.PasswordFunc, addresses ...string) remote.Credentials {
	c := remote.Credentials{Password: password, SSHKeyFile: s.SSHKey, SSHKnownHostsFile: s.sshKnownHosts, CAFile: s.caFile}
	if password == nil {
		c.Helper = s.Program.CredentialHelper()
	}
	home := s.Program.Variable("HOME")
	if password == nil && home != "" {
		c.NetrcFile = filepath.Join(home, ".netrc")
	}
	overSSH := func(address string) bool { target, _ := sshTarget(address); return target != "" }
	if c.SSHKeyFile == "" && c.SSHKnownHostsFile == "" && slices.ContainsFunc(addresses, overSSH) {
		c.SSHProgram = s.Program.sshProgram()
	}
	if c.SSHKeyFile == "" {
		if c.SSHAgent = s.Program.Variable("SSH_AUTH_SOCK"); c.SSHAgent == "" && home != "" {
			c.SSHKeyFile = firstFile(filepath.Join(home, ".ssh", "id_ed25519"), filepath.Join(home, ".ssh", "id_ecdsa"), filepath.Join(home, ".ssh", "id_rsa"))
		}
	}
	if c.SSHKnownHostsFile == "" && home != "" {
		c.SSHKnownHostsFile = firstFile(filepath.Join(home, ".ssh", "known_hosts"), "/etc/ssh/ssh_known_hosts")
	}
	return c
}

// upstreamTime limits the time that the upstream takes to return its head.
const upstreamTime = 10 * time.Second

// source is where a command that runs in a clone reads the branch of its [upstream].
type source int

const (
	// Nearest is the clone if it has the head of the upstream's branch, otherwise the upstream.
	Nearest source = iota
	// InUpstream is the upstream, for commands that wait for new commits, or for what muster does next.
	InUpstream
	// InClone is the clone, for commands that need git's revisions or keys.
	InClone
)

// Open opens the repository for reading. By default this is the clone that contains the current
// directory: its branch if it has commits that the upstream has not, otherwise the branch of the upstream.
func (s *Repository) Open(ctx context.Context, from source) (*gitops.Repository, error) {
	log, err := s.Logger()
	if err != nil {
		return nil, err
	}
	if s.Repo != "" {
		return s.Reader(log)
	}
	log = slog.New(slog.DiscardHandler) // a clone needs no warnings about the server
	p := s.Program
	top, up, err := p.UpstreamOf(s.BranchName())
	if err != nil {
		return nil, err
	}
	head, failed, remote := "", error(nil), ""
	if up.fetch != "" {
		p.Progress.Doing("reading the head of " + up.name)
		s.Repo = up.fetch
		var repository *gitops.Repository
		if repository, failed = s.Reader(log); failed == nil {
			remote = s.Shown
			head, failed = headOf(ctx, repository)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if failed == nil && from == InUpstream {
			return repository, nil
		}
	}
	name, tracking := s.Branch, "refs/remotes/"+up.name+"/"+s.Branch
	local, fetched := p.Commit(top, "refs/heads/"+name), p.Commit(top, tracking)
	own := local != "" && (fetched == "" || p.GitOutput(top, "merge-base", local, fetched) != local)
	lacks := head != "" && p.Commit(top, head) == ""
	if own || fetched == "" {
		tracking = name
	}
	switch {
	case failed != nil && local+fetched == "":
		return nil, failed
	case failed != nil:
		p.PrintMessage("%s cannot be read; this is what the clone has, as of its last git fetch%s: %v", up.name, p.sinceFetch(top), failed)
	case lacks && !own && from == Nearest:
		return s.Reader(log)
	case lacks:
		p.PrintMessage("the clone lacks the newest commits of %s, until %.7s: git pull", up.name, head)
	case own && fetched != "":
		if behind := p.GitOutput(top, "rev-list", "--count", local+".."+fetched); behind != "0" {
			p.PrintMessage("the branch %s of the clone has commits of its own, and lacks %s of %s: git pull", name, behind, up.name)
		}
	}
	s.Repo, s.Branch = top, tracking
	repository, err := s.Reader(log)
	s.Shown = cmp.Or(remote, s.Shown)
	return repository, err
}

// headOf returns the ID of the newest commit of a repository's branch.
func headOf(ctx context.Context, repository *gitops.Repository) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, upstreamTime)
	defer cancel()
	for c, err := range repository.Commits(ctx, "", branch.Limit{Commits: 1}) {
		return c.ID, err
	}
	return "", nil
}

// ReadAhead reads commits in a goroutine, ahead of the loop. When the loop ends, it calls
// cancel, which must end the reading.
func ReadAhead(commits iter.Seq2[branch.Commit, error], cancel func()) iter.Seq2[branch.Commit, error] {
	type result struct {
		commit branch.Commit
		err    error
	}
	const ahead = 4096
	return func(yield func(branch.Commit, error) bool) {
		read, stop := make(chan result, ahead), make(chan struct{})
		go func() {
			defer close(read)
			for c, err := range commits {
				select {
				case read <- result{c, err}:
				case <-stop:
					return
				}
			}
		}()
		defer func() {
			close(stop)
			cancel()
			for range read { //nolint:revive // until the reader has ended
			}
		}()
		for r := range read {
			if !yield(r.commit, r.err) || r.err != nil {
				return
			}
		}
	}
}

// ReadingAhead reads commits while those before them are looked at.
type ReadingAhead struct{ *gitops.Repository }

// Commits implements [branch.History].
func (r ReadingAhead) Commits(ctx context.Context, from string, limit branch.Limit) iter.Seq2[branch.Commit, error] {
	return func(yield func(branch.Commit, error) bool) {
		reading, stop := context.WithCancel(ctx)
		defer stop()
		ReadAhead(r.Repository.Commits(reading, from, limit), stop)(yield)
	}
}

// Pulls returns the client of the repository's pull requests on GitHub, with a token of the App
// or, as GitHub's tools, of GH_TOKEN or GITHUB_TOKEN; nil if the repository is not on GitHub, or
// there is no token.
func (s *Repository) Pulls() (*github.Pulls, error) {
	owner, name, err := ownerAndName(s.Repo)
	if err != nil {
		return nil, nil // not on GitHub
	}
	app, err := s.GitHubApp()
	if err != nil {
		return nil, err
	}
	c := github.PullsConfig{Owner: owner, Name: name, API: s.GitHubAPI, Now: s.Program.Clock.Now, Sleep: s.Program.Clock.Sleep}
	if app != nil {
		c.Token = app.Token
	} else if token := cmp.Or(s.Program.Variable("GH_TOKEN"), s.Program.Variable("GITHUB_TOKEN")); token != "" {
		c.Token = func(context.Context) (string, error) { return token, nil }
	}
	if c.Token == nil {
		return nil, nil
	}
	p, err := github.NewPulls(c)
	return p, output.Usage(err)
}

// IsClone reports whether a repository is a local directory.
func IsClone(repo string) bool {
	info, err := os.Stat(strings.TrimPrefix(repo, "file://"))
	return err == nil && info.IsDir()
}
