package main

import (
	"context"
	"fmt"
	"strings"

	"muster/generator/verification"
	"muster/gitops/git/remote"
)

// signatures returns the signatures of commits, as git verify-commit reports them in the
// clone: with the keys, the settings and the programs of the user who runs muster. It runs
// no program that the clone's own configuration names.
func (s *settings) signatures(ctx context.Context, commits []string) (map[string]verification.Signature, error) {
	args := append(s.program.signaturePrograms(), "log", "--no-walk=unsorted", "--stdin", "--no-show-signature", "--format=%H %G?")
	c, err := remote.Command(ctx, strings.TrimPrefix(s.git.repo, "file://"), s.program.childEnviron(), args...)
	if err != nil {
		return nil, err
	}
	c.Stdin = strings.NewReader(strings.Join(commits, "\n") + "\n")
	out, err := printed(c)
	if err != nil {
		return nil, fmt.Errorf("asking git for signatures: %w", err)
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
		if all[id] == "" { // nothing is taken for good that git does not say so of
			all[id] = verification.NoKey
		}
	}
	return all, nil
}
