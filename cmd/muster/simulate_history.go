package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/memory"

	"muster/generator/manifest"
	"muster/generator/plan"
	"muster/generator/simulation"
)

// recorded is what the history of a fleet repository tells of one overlay.
type recorded struct {
	observed []plan.Observation
	policy   *plan.Policy // as it is at the head; nil when there is none
}

// readHistory reads every commit that the head of the repository stands on. A
// path is read in place, a URL is cloned into memory.
func readHistory(ctx context.Context, from, overlay string) (recorded, error) {
	var h recorded
	repository, err := openHistory(ctx, from)
	if err != nil {
		return h, err
	}
	head, err := repository.Head()
	if err != nil {
		return h, usage(fmt.Errorf("%s has no commits: %w", from, err))
	}
	commits, err := repository.Log(&git.LogOptions{From: head.Hash()})
	if err != nil {
		return h, fmt.Errorf("reading the history of %s: %w", from, err)
	}
	err = commits.ForEach(func(c *object.Commit) error {
		if c.Hash == head.Hash() {
			if err := h.readPolicy(c, overlay); err != nil {
				return err
			}
		}
		o, ok, err := simulation.ReadMessage(c.Message, overlay)
		if err != nil {
			return fmt.Errorf("commit %s: %w", c.Hash, err)
		}
		if ok {
			h.observed = append(h.observed, o)
		}
		return ctx.Err()
	})
	if err != nil {
		return h, fmt.Errorf("reading the history of %s: %w", from, err)
	}
	return h, nil
}

func openHistory(ctx context.Context, from string) (*git.Repository, error) {
	_, err := os.Stat(from)
	if errors.Is(err, fs.ErrNotExist) {
		repository, err := git.CloneContext(ctx, memory.NewStorage(), nil, &git.CloneOptions{URL: from, NoCheckout: true, Tags: git.NoTags})
		if err != nil {
			return nil, fmt.Errorf("cloning %s: %w", from, err)
		}
		return repository, nil
	}
	repository, err := git.PlainOpen(from) // bare, or the top of a working tree
	if errors.Is(err, git.ErrRepositoryNotExists) {
		repository, err = git.PlainOpenWithOptions(from, &git.PlainOpenOptions{DetectDotGit: true})
	}
	if err != nil {
		return nil, usage(fmt.Errorf("opening %s: %w", from, err))
	}
	return repository, nil
}

// readPolicy reads the overlay's policy at a commit.
func (h *recorded) readPolicy(c *object.Commit, overlay string) error {
	name := overlay + "/scaling.yaml"
	f, err := c.File(name)
	if errors.Is(err, object.ErrFileNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	text, err := f.Contents()
	if err != nil {
		return err
	}
	p, err := manifest.ParsePolicy(name, []byte(text))
	if err == nil {
		h.policy = &p
	}
	return err
}
