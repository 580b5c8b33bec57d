package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"muster/generator/verification"
)

// signatures asks the git of a clone for the signatures of commits, as git verify-commit
// finds them: with the keys, and the settings, of whoever asks.
func (s *settings) signatures(ctx context.Context, commits []string) (map[string]verification.Signature, error) {
	program, err := exec.LookPath("git")
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, program, "-c", "safe.bareRepository=all", "log", "--no-walk=unsorted", "--stdin", "--no-show-signature", "--format=%H %G?")
	c.Dir = strings.TrimPrefix(s.git.repo, "file://")
	c.Env = append(s.program.childEnviron(), "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1")
	c.Stdin = strings.NewReader(strings.Join(commits, "\n") + "\n")
	out, err := c.Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(failed.Stderr)))
		}
		return nil, fmt.Errorf("asking git for signatures: %w", err)
	}
	letters := map[string]verification.Signature{ // git-log(1), %G?
		"G": verification.Good, "U": verification.Untrusted, "B": verification.Bad, "X": verification.Expired, "Y": verification.Expired,
		"R": verification.Revoked, "E": verification.NoKey, "N": verification.Unsigned,
	}
	all := map[string]verification.Signature{}
	for line := range strings.Lines(string(out)) {
		id, letter, _ := strings.Cut(strings.TrimSpace(line), " ")
		all[id] = letters[letter]
	}
	for _, id := range commits {
		if all[id] == "" { // nothing is taken for good that git does not say so of
			all[id] = verification.NoKey
		}
	}
	return all, nil
}
