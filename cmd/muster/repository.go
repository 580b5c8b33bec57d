package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"muster/cmd/muster/output"
	"muster/generator/ledger"
	"muster/gitops"
	"muster/gitops/branch"
	"muster/gitops/git"
	"muster/gitops/git/remote"
	"muster/gitops/github"

	"github.com/spf13/cobra"
)

// plainMarker is the default skip marker.
const plainMarker = "[skip ci]"

// style returns the style of commit messages. An invalid style is a usage error.
func (s *gitSettings) style() (ledger.Style, error) {
	style := ledger.Style{CoAuthors: s.coAuthors, NoSkip: s.skipMarker == ""}
	if s.skipMarker != plainMarker {
		style.Skip = s.skipMarker
	}
	if s.signOff {
		style.SignOff = fmt.Sprintf("%s <%s>", s.authorName, s.authorEmail)
	}
	return style, output.Usage(style.Check())
}

// gitSettings are the flags of the repository, of the author and of signatures.
type gitSettings struct {
	program program

	repo, branch, overlays  string
	authorName, authorEmail string
	username, passwordFile  string
	sshKey, sshKnownHosts   string
	caFile                  string
	signGPG, signPassphrase string
	signSSH                 string
	app, appKey, githubAPI  string
	installation            int64
	commitThroughGitHub     bool

	// signOff, coAuthors and skipMarker configure the commit messages.
	signOff    bool
	coAuthors  []string
	skipMarker string

	// shown is the repository's address without secrets. It is set by repository.
	shown string
	// traffic returns the statistics of git, and github counts those of GitHub's API; nil if
	// not used.
	traffic func() remote.Stats
	github  *remote.Counter
}

func (s *gitSettings) addTo(c *cobra.Command) {
	s.addReading(c)
	s.addSigning(c)
	f := c.Flags()
	f.StringVar(&s.authorName, "author-name", "muster", "author and committer of commits")
	f.StringVar(&s.authorEmail, "author-email", "muster@localhost", "email address of the author")
	f.BoolVar(&s.signOff, "sign-off", false, "add Signed-off-by with the author to commits")
	f.StringArrayVar(&s.coAuthors, "co-author", nil, "add Co-authored-by to commits, as \"Name <address>\"; repeatable")
	f.StringVar(&s.skipMarker, "skip-marker", plainMarker, "text in commits that prevents CI builds; empty omits it")
	f.BoolVar(&s.commitThroughGitHub, "github-commits", false, "commit through GitHub's API, so that GitHub signs the commits as the App's; needs the App")
}

// addSigning adds the flags of signatures.
func (s *gitSettings) addSigning(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.signGPG, "sign-gpg-key-file", "", "sign commits with this OpenPGP private key, as gpg --armor --export-secret-keys writes it")
	f.StringVar(&s.signPassphrase, "sign-gpg-passphrase-file", "", "file with the passphrase of the OpenPGP key")
	f.StringVar(&s.signSSH, "sign-ssh-key-file", "", "sign commits with this ssh private key")
}

// addReading adds the flags that are necessary to read the repository.
func (s *gitSettings) addReading(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.repo, "repo", "", "fleet repository: any URL git accepts, or a path")
	f.StringVar(&s.branch, "branch", "main", "branch to read and commit to")
	f.StringVar(&s.overlays, "overlays", "overlays", "directory of overlays in the repository")
	f.StringVar(&s.username, "git-username", "git", "user name for https")
	f.StringVar(&s.passwordFile, "git-password-file", "", "file with the password or token for https, read at each connection; or set "+variablePassword+". If absent: ~/.netrc and git's credential helpers")
	f.StringVar(&s.sshKey, "ssh-key-file", "", "private key for ssh, without a passphrase. Without both ssh flags: the ssh program, as git runs it, or else the ssh-agent (SSH_AUTH_SOCK) or the first key in ~/.ssh")
	f.StringVar(&s.sshKnownHosts, "ssh-known-hosts-file", "", "host keys of ssh servers (default ~/.ssh/known_hosts)")
	f.StringVar(&s.caFile, "git-ca-file", "", "additional certificate authorities for https, in PEM")
	f.StringVar(&s.app, "github-app-id", "", "GitHub App whose tokens are the password for https")
	f.Int64Var(&s.installation, "github-app-installation", 0, "id of the App's installation on the repository's owner")
	f.StringVar(&s.appKey, "github-app-key-file", "", "the App's private key, in PEM")
	f.StringVar(&s.githubAPI, "github-api-url", "https://api.github.com/", "GitHub API URL")
}

// requireRepo returns an error if no repository is given.
func (s *gitSettings) requireRepo() error {
	if s.repo == "" {
		return output.Usage(errors.New("which repository? give --repo or set MUSTER_REPO"))
	}
	return nil
}

// reader returns the fleet repository for reading.
func (s *gitSettings) reader(log *slog.Logger) (*gitops.Repository, error) {
	app, err := s.githubApp()
	if err != nil {
		return nil, err
	}
	return s.repository(log, app, nil)
}

// repository returns the fleet repository over git. app and sign may be nil.
func (s *gitSettings) repository(log *slog.Logger, app *github.App, sign git.Signer) (*gitops.Repository, error) {
	if err := s.requireRepo(); err != nil {
		return nil, err
	}
	password, err := s.password(app)
	if err != nil {
		return nil, output.Usage(err)
	}
	read, push := s.program.insteadOf(s.repo)
	credentials := s.credentials(password, read, push)
	if app != nil {
		credentials.Refused = app.Refused
	}
	if unused := s.unusedSSHConfig(read); unused != "" {
		log.Warn(unused)
	}
	repository, err := gitops.New(gitops.Config{
		URL: read, PushURL: push, Branch: s.branch, ReadAhead: s.overlays,
		AuthorName: s.authorName, AuthorEmail: s.authorEmail, Sign: sign, Log: log, TempDir: os.TempDir(),
		Credentials: credentials,
	})
	if err != nil {
		return nil, output.Usage(err)
	}
	s.shown, s.traffic = repository.String(), repository.Stats
	return repository, nil
}

// writer returns the writer of the fleet repository.
func (s *gitSettings) writer(log *slog.Logger) (branch.Writer, error) {
	if err := s.requireRepo(); err != nil {
		return nil, err
	}
	app, err := s.githubApp()
	if err != nil {
		return nil, err
	}
	sign, err := s.signer()
	if err == nil && sign != nil {
		// Report an invalid key now, not at the first commit.
		_, err = sign([]byte("muster\n"), s.program.clock.Now())
	}
	if err != nil {
		return nil, output.Usage(err)
	}
	repository, err := s.repository(log, app, sign)
	if err != nil {
		return nil, err
	}
	if !s.commitThroughGitHub {
		return repository, nil
	}
	owner, name, err := ownerAndName(s.repo)
	switch {
	case err != nil && app == nil:
		return nil, output.Usage(fmt.Errorf("%w, and %w", err, errNoApp))
	case err != nil:
		return nil, output.Usage(err)
	case app == nil:
		return nil, output.Usage(fmt.Errorf("--github-commits needs %w", errNoApp))
	case sign != nil:
		return nil, output.Usage(errors.New("--github-commits leaves signing to GitHub: remove the --sign flags"))
	}
	writer, err := github.NewWriter(github.Config{Repository: repository, Owner: owner, Name: name, Branch: s.branch, API: s.githubAPI, Token: app.Token, Refused: app.Refused, MayWrite: app.MayWrite, Client: app.Client, Now: s.program.clock.Now, Log: log})
	return writer, output.Usage(err)
}

// githubApp returns the App, or nil if no flag configures one.
func (s *gitSettings) githubApp() (*github.App, error) {
	if s.app == "" && s.appKey == "" && s.installation == 0 {
		return nil, nil
	}
	if s.app == "" || s.appKey == "" || s.installation == 0 {
		return nil, output.Usage(errors.New("a GitHub App takes --github-app-id, --github-app-installation and --github-app-key-file, all three"))
	}
	s.github = &remote.Counter{}
	client := &http.Client{Timeout: time.Minute, Transport: s.github.Transport(http.DefaultTransport)}
	return &github.App{ID: s.app, Installation: s.installation, PrivateKeyFile: s.appKey, API: s.githubAPI, Now: s.program.clock.Now, Client: client}, nil
}

// password returns the source of the password for https, or nil if none is configured. It is an
// error to configure more than one source.
func (s *gitSettings) password(app *github.App) (remote.PasswordFunc, error) {
	fixed := s.program.variable(variablePassword)
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

// signer returns the signer of commits; nil leaves them unsigned.
func (s *gitSettings) signer() (git.Signer, error) {
	switch {
	case s.signGPG != "" && s.signSSH != "":
		return nil, errors.New("--sign-gpg-key-file and --sign-ssh-key-file are both given: keep one")
	case s.signGPG != "":
		return git.GPGSigner(s.signGPG, s.signPassphrase), nil
	case s.signPassphrase != "":
		return nil, errors.New("--sign-gpg-passphrase-file is given without --sign-gpg-key-file")
	case s.signSSH != "":
		return git.SSHSigner(s.signSSH), nil
	}
	return nil, nil
}

// What --github-commits needs.
var (
	errNotGitHub = errors.New("--github-commits needs a --repo on GitHub, as in https://github.com/OWNER/NAME")
	errNoApp     = errors.New("the App's --github-app-id, --github-app-installation and --github-app-key-file")
)

// ownerAndName returns a repository's owner and name from its address on GitHub.
func ownerAndName(repo string) (owner, name string, err error) {
	path := "" // a local path is not on GitHub
	if u, err := url.Parse(repo); err == nil && u.Host != "" {
		path = u.Path
	} else if host, after, ok := strings.Cut(repo, ":"); ok && !strings.Contains(host, "/") { // git@github.com:owner/name
		path = after
	}
	path = strings.TrimSuffix(strings.Trim(path, "/"), ".git")
	owner, name, ok := strings.Cut(path, "/")
	if !ok || owner == "" || name == "" || strings.Contains(name, "/") {
		return "", "", errNotGitHub
	}
	return owner, name, nil
}

// cloneAt returns the local repository that contains a directory, as the git program finds
// it: the top of a work tree, or a bare repository. The directory defaults to the current
// one. An address is returned unchanged.
//
// A bare repository is used only if it is named: a committed directory can be a bare
// repository, and its configuration is not the user's (git-config(1),
// safe.bareRepository).
func (p program) cloneAt(named string) (string, error) {
	dir := named
	if named == "" {
		dir = "."
	}
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return named, nil
	}
	if err == nil && !info.IsDir() {
		err = errors.New("it is not a directory")
	}
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return "", fmt.Errorf("opening %s: %w", named, err)
	}
	if named != "" && p.gitOutput(dir, "rev-parse", "--is-inside-git-dir") == "true" {
		return dir, nil
	}
	top, err := p.discoverOutput(dir, "rev-parse", "--show-toplevel")
	if err != nil {
		return "", fmt.Errorf("opening %s: %w", dir, err)
	}
	return top, nil
}

// discovered returns the output of the git program in a directory, for the repository that
// git finds from there.
func (p program) discoverOutput(dir string, args ...string) (string, error) {
	args = append([]string{"-c", "safe.bareRepository=explicit"}, args...)
	return runProgram("git", dir, remote.WithoutRepository(p.childEnviron()), args...)
}

// runProgram runs a program in a directory, and returns what [printed] does.
func runProgram(name, dir string, environ []string, args ...string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", err
	}
	c := exec.Command(path, args...)
	c.Dir, c.Env = dir, environ
	return printed(c)
}

// printed returns a program's output without surrounding space, or an error with its standard
// error.
func printed(c *exec.Cmd) (string, error) {
	out, err := c.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) && len(failed.Stderr) > 0 {
		err = errors.New(strings.TrimPrefix(strings.TrimSpace(string(failed.Stderr)), "fatal: "))
	}
	if err != nil {
		return "", err
	}
	return string(bytes.TrimSpace(out)), nil
}

// gitOutput returns the output of the git program for a clone, in one line; "" if git is not
// installed or fails.
func (p program) gitOutput(dir string, args ...string) string {
	c, err := remote.Command(context.Background(), strings.TrimPrefix(dir, "file://"), p.childEnviron(), args...)
	if err != nil {
		return ""
	}
	line, _ := printed(c)
	return line
}

// commit returns the ID of the commit with a name in a clone; empty if the name is unknown.
func (p program) commit(dir, name string) string {
	return p.gitOutput(dir, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
}

// ownEnviron returns an environment in which git has the user's and the system's settings,
// including those for the current directory (git-config(1), includeIf), but none of a
// repository's own, which could name programs to run.
func (p program) ownEnviron() []string {
	environ := append(remote.WithoutRepository(p.childEnviron()), "GIT_DIR="+os.DevNull)
	list, err := p.discoverOutput("", "config", "--list", "-z", "--show-scope")
	if err != nil {
		return environ
	}
	count := 0
	fields := strings.Split(list, "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		key, value, set := strings.Cut(fields[i+1], "\n")
		switch scope := fields[i]; {
		case scope != "system" && scope != "global" && scope != "command", strings.HasPrefix(key, "include.") || strings.HasPrefix(key, "includeif."):
			continue // the list has the settings of included files
		case !set:
			value = "true"
		}
		environ = append(environ, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", count, key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", count, value))
		count++
	}
	return append(environ, fmt.Sprintf("GIT_CONFIG_COUNT=%d", count), "GIT_CONFIG_PARAMETERS=", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull)
}

// ownSetting returns the output of git config for the settings of [program.ownEnviron]; "" if
// git is not installed or has no such setting.
func (p program) ownSetting(args ...string) string {
	value, _ := runProgram("git", "", p.ownEnviron(), append([]string{"config"}, args...)...)
	return value
}

// signaturePrograms returns settings that make git verify signatures with the programs of
// the user's configuration, or with git's defaults (git-config(1), gpg.program and
// gpg.<format>.program).
func (p program) signaturePrograms() []string {
	programs := map[string]string{"gpg.program": "gpg", "gpg.x509.program": "gpgsm", "gpg.ssh.program": "ssh-keygen"}
	for entry := range strings.SplitSeq(p.ownSetting("-z", "--get-regexp", `^gpg\.(.*\.)?program$`), "\x00") {
		if key, value, ok := strings.Cut(entry, "\n"); ok {
			if key == "gpg.openpgp.program" {
				key = "gpg.program" // the same setting
			}
			programs[key] = value
		}
	}
	var args []string
	for key, value := range programs {
		args = append(args, "-c", key+"="+value)
	}
	return args
}

// credentials returns the credentials of the flags, and otherwise those that git itself would
// use: the netrc file, the credential helpers, and the ssh program with its configuration.
// Without the ssh program these are the ssh-agent or the first default key, and the known
// hosts.
func (s *gitSettings) credentials(password remote.PasswordFunc, addresses ...string) remote.Credentials {
	c := remote.Credentials{Password: password, SSHKeyFile: s.sshKey, SSHKnownHostsFile: s.sshKnownHosts, CAFile: s.caFile}
	if password == nil {
		c.Helper = s.program.credentialHelper()
	}
	home := s.program.variable("HOME")
	if password == nil && home != "" {
		c.NetrcFile = filepath.Join(home, ".netrc")
	}
	overSSH := func(address string) bool { return sshTarget(address) != "" }
	if c.SSHKeyFile == "" && c.SSHKnownHostsFile == "" && slices.ContainsFunc(addresses, overSSH) {
		c.SSHProgram = s.program.sshProgram()
	}
	if c.SSHKeyFile == "" {
		if c.SSHAgent = s.program.variable("SSH_AUTH_SOCK"); c.SSHAgent == "" && home != "" {
			c.SSHKeyFile = firstFile(filepath.Join(home, ".ssh", "id_ed25519"), filepath.Join(home, ".ssh", "id_ecdsa"), filepath.Join(home, ".ssh", "id_rsa"))
		}
	}
	if c.SSHKnownHostsFile == "" && home != "" {
		c.SSHKnownHostsFile = firstFile(filepath.Join(home, ".ssh", "known_hosts"), "/etc/ssh/ssh_known_hosts")
	}
	return c
}

// firstFile returns the first file that exists; "" if none does.
func firstFile(names ...string) string {
	i := slices.IndexFunc(names, func(name string) bool {
		info, err := os.Stat(name)
		return err == nil && info.Mode().IsRegular()
	})
	if i < 0 {
		return ""
	}
	return names[i]
}

// childEnviron returns the environment of the user's programs, without muster's secrets.
func (p program) childEnviron() []string {
	return slices.DeleteFunc(slices.Clone(p.environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return name == variableToken || name == variablePassword || name == variableAgentToken
	})
}

// credentialHelper runs git's credential helpers if the git program is installed. It uses those
// in the user's and the system's configuration, because a repository's own could be any program.
//
// Without a terminal neither git (git(1), GIT_TERMINAL_PROMPT; an empty GIT_ASKPASS is unset)
// nor Git Credential Manager prompts for a password.
func (p program) credentialHelper() remote.HelperFunc {
	path, err := exec.LookPath("git")
	if err != nil {
		return nil
	}
	environ, prompts := p.ownEnviron(), p.prompts()
	if !prompts {
		environ = append(environ, "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "SSH_ASKPASS=", "GCM_INTERACTIVE=never")
	}
	return func(ctx context.Context, action string) *exec.Cmd {
		p.progress.Done() // the helper may prompt on the same line
		cmd := exec.CommandContext(ctx, path, "credential", action)
		cmd.Env = environ
		if prompts {
			cmd.Stderr = os.Stderr
		}
		return cmd
	}
}

// prompts reports whether programs may prompt for a password.
func (p program) prompts() bool { return p.terminal && p.screen.progress }

// insteadOf returns the addresses that git would read from and push to; push may be empty. If
// the git program is installed, it applies the user's settings url.BASE.insteadOf and
// pushInsteadOf, which replace a prefix of the address (git-config(1)).
func (p program) insteadOf(address string) (read, push string) {
	const fetches, pushes = ".insteadof", ".pushinsteadof"
	read = address
	longest := map[string]int{}
	for entry := range strings.SplitSeq(p.ownSetting("-z", "--get-regexp", `^url\..*insteadof$`), "\x00") {
		key, begins, _ := strings.Cut(entry, "\n")
		base, ok := strings.CutPrefix(key, "url.")
		rest, found := strings.CutPrefix(address, begins)
		if !ok || !found {
			continue
		}
		if base, ok := strings.CutSuffix(base, pushes); ok && len(begins) > longest[pushes] {
			push, longest[pushes] = base+rest, len(begins)
		} else if base, ok := strings.CutSuffix(base, fetches); ok && len(begins) > longest[fetches] {
			read, longest[fetches] = base+rest, len(begins)
		}
	}
	return read, push
}

// sshProgram returns the ssh that git would run, or nil if there is no such program (git(1),
// GIT_SSH_COMMAND; git-config(1), core.sshCommand). It ignores a repository's own
// core.sshCommand. Without a terminal it does not prompt.
func (p program) sshProgram() remote.SSHFunc {
	command := cmp.Or(p.variable("GIT_SSH_COMMAND"), p.ownSetting("--get", "core.sshCommand"))
	path, err := exec.LookPath(cmp.Or(p.variable("GIT_SSH"), "ssh"))
	if command == "" && err != nil {
		return nil
	}
	environ, prompts := p.childEnviron(), p.prompts()
	return func(ctx context.Context, args ...string) *exec.Cmd {
		p.progress.Done() // ssh may prompt on the same line
		if !prompts {
			args = append([]string{"-o", "BatchMode=yes"}, args...)
		}
		cmd := exec.CommandContext(ctx, path, args...)
		if command != "" { // git runs it in a shell
			cmd = exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", command + ` "$@"`, "ssh"}, args...)...)
		}
		cmd.Env = environ
		return cmd
	}
}

// sshTarget returns the destination that ssh would connect to for an address, as in
// git@example.com; empty if the address does not use ssh.
func sshTarget(address string) string {
	if scheme, _, ok := strings.Cut(address, "://"); ok {
		u, err := url.Parse(address)
		if err != nil || !strings.Contains(strings.ToLower(scheme), "ssh") {
			return ""
		}
		if u.User.Username() == "" {
			return u.Hostname()
		}
		return u.User.Username() + "@" + u.Hostname()
	}
	target, _, ok := strings.Cut(address, ":")
	if !ok || strings.Contains(target, "/") {
		return ""
	}
	return target
}

// unusedSSHConfig returns a warning if the user's configuration of ssh changes how a host is
// reached, and is not used because a flag gives the key or the known hosts; "" otherwise.
func (s *gitSettings) unusedSSHConfig(address string) string {
	target := sshTarget(address)
	if target == "" || strings.HasPrefix(target, "-") || s.sshKey == "" && s.sshKnownHosts == "" {
		return ""
	}
	host := target[strings.LastIndex(target, "@")+1:]
	config, _ := runProgram("ssh", "", s.program.childEnviron(), "-G", target)
	for line := range strings.Lines(config) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case (key == "proxyjump" || key == "proxycommand") && value != "none",
			key == "hostname" && !strings.EqualFold(value, host):
			return fmt.Sprintf("ssh is set up to reach %s by %s %s, which is not done with --ssh-key-file or --ssh-known-hosts-file: leave both out, or forward a port with ssh -L and give ssh://git@127.0.0.1:PORT/PATH", host, key, value)
		}
	}
	return ""
}
