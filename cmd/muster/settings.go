package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"muster/generator"
	"muster/generator/buildkite"
	"muster/gitops"
)

// settings are the flags that say which repository and which Buildkite, and as
// whom.
type settings struct {
	program program

	repo, branch, overlays     string
	authorName, authorEmail    string
	gitUsername, gitPassword   string
	sshKey, sshKnownHosts      string
	caFile                     string
	org, buildkiteURL, tokenIn string
	logFormat, logLevel        string
}

func (s *settings) addTo(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.repo, "repo", "", "the fleet repository: any URL git accepts, or a path")
	f.StringVar(&s.branch, "branch", "main", "the branch that is read and committed to")
	f.StringVar(&s.overlays, "overlays", "overlays", "the directory of overlays in the repository")
	f.StringVar(&s.authorName, "author-name", "muster", "author and committer of every commit")
	f.StringVar(&s.authorEmail, "author-email", "muster@localhost", "their address")
	f.StringVar(&s.gitUsername, "git-username", "git", "user name for https")
	f.StringVar(&s.gitPassword, "git-password-file", "", "file with the password or token for https, read again for each connection; or set "+variablePassword)
	f.StringVar(&s.sshKey, "ssh-key-file", "", "private key for ssh, without a passphrase")
	f.StringVar(&s.sshKnownHosts, "ssh-known-hosts-file", "", "the servers' host keys for ssh")
	f.StringVar(&s.caFile, "git-ca-file", "", "further certificate authorities for https, in PEM")
	f.StringVar(&s.org, "buildkite-org", "", "the organisation's slug in Buildkite")
	f.StringVar(&s.buildkiteURL, "buildkite-url", "https://api.buildkite.com/", "Buildkite's REST API")
	f.StringVar(&s.tokenIn, "buildkite-token-file", "", "file with the API access token, read again at each tick; or set "+variableToken)
	f.StringVar(&s.logFormat, "log-format", "text", "text or json")
	f.StringVar(&s.logLevel, "log-level", "info", "debug, info, warn or error")
}

// logger returns the log, which goes to standard error.
func (s *settings) logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.logLevel)); err != nil {
		return nil, usage(fmt.Errorf("--log-level %q: use debug, info, warn or error", s.logLevel))
	}
	options := &slog.HandlerOptions{Level: level}
	switch s.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(s.program.stderr, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(s.program.stderr, options)), nil
	}
	return nil, usage(fmt.Errorf("--log-format %q: use text or json", s.logFormat))
}

// repository returns the fleet repository.
func (s *settings) repository(log *slog.Logger) (*gitops.Repository, error) {
	if s.repo == "" {
		return nil, usage(errors.New("which repository? give --repo or set MUSTER_REPO"))
	}
	credentials := gitops.Credentials{SSHKeyFile: s.sshKey, SSHKnownHostsFile: s.sshKnownHosts, CAFile: s.caFile}
	password := s.program.variable(variablePassword)
	switch {
	case s.gitPassword != "" && password != "":
		return nil, usage(fmt.Errorf("--git-password-file and %s are both given: keep one", variablePassword))
	case s.gitPassword != "":
		credentials.Password = gitops.PasswordFile(s.gitUsername, s.gitPassword)
	case password != "":
		credentials.Password = gitops.StaticPassword(s.gitUsername, password)
	}
	repository, err := gitops.New(gitops.Config{
		URL: s.repo, Branch: s.branch, Overlays: s.overlays,
		AuthorName: s.authorName, AuthorEmail: s.authorEmail,
		Credentials: credentials, Log: log,
	})
	return repository, usage(err)
}

// client returns the client for Buildkite.
func (s *settings) client(log *slog.Logger) (*buildkite.Client, error) {
	if s.org == "" {
		return nil, usage(errors.New("which organisation? give --buildkite-org or set MUSTER_BUILDKITE_ORG"))
	}
	token, err := s.token()
	if err != nil {
		return nil, err
	}
	client, err := buildkite.New(buildkite.Config{Org: s.org, URL: s.buildkiteURL, Token: token, Log: log})
	return client, usage(err)
}

// token returns where Buildkite's token comes from: a file is read again each
// time, so that a rotated token needs no restart.
func (s *settings) token() (func() (string, error), error) {
	fixed := s.program.variable(variableToken)
	switch {
	case s.tokenIn == "" && fixed == "":
		return nil, usage(fmt.Errorf("no Buildkite token: set %s or give --buildkite-token-file", variableToken))
	case s.tokenIn == "":
		return func() (string, error) { return fixed, nil }, nil
	}
	read := func() (string, error) {
		text, err := os.ReadFile(s.tokenIn)
		if err != nil {
			return "", fmt.Errorf("reading Buildkite's token: %w", err)
		}
		if token := strings.TrimSpace(string(text)); token != "" {
			return token, nil
		}
		return "", fmt.Errorf("reading Buildkite's token: %s is empty", s.tokenIn)
	}
	_, err := read()
	return read, usage(err)
}

// generator wires the tick.
func (s *settings) generator(dryRun bool) (*generator.Generator, error) {
	log, err := s.logger()
	if err != nil {
		return nil, err
	}
	repository, err := s.repository(log)
	if err != nil {
		return nil, err
	}
	client, err := s.client(log)
	if err != nil {
		return nil, err
	}
	return generator.New(generator.Config{
		Repository: gitops.Fleet{Writer: repository, Version: Version},
		Buildkite:  client,
		Clock:      s.program.clock,
		Overlays:   s.overlays,
		DryRun:     dryRun,
		Log:        log,
	}), nil
}

// held turns overlays that had to be left alone into one error, a line each.
func held(problems []generator.Problem) error {
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = p.Err.Error()
	}
	if len(lines) == 0 {
		return nil
	}
	return usage(errors.New(strings.Join(lines, "\nmuster: ")))
}
