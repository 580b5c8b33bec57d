package explanation_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/tools/txtar"

	"muster/generator/explanation"
	"muster/generator/fleet"
	"muster/gitops/branch"
)

// messages are those of every kind that muster writes.
func messages(t testing.TB) []string {
	t.Helper()
	var all []string
	files, err := filepath.Glob("../../generator/ledger/testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no messages", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range txtar.Parse(text).Files {
			all = append(all, string(f.Data))
		}
		all = append(all, string(text))
	}
	return all
}

// anybody is a repository in which anybody has written anything.
type anybody struct {
	commits []branch.Commit // the newest first
	tree    fs.FS
	before  []byte
}

// Commits implements explanation.Repository.
func (r anybody) Commits(_ context.Context, from string, _ branch.Limit) iter.Seq2[branch.Commit, error] {
	return func(yield func(branch.Commit, error) bool) {
		begun := from == ""
		for _, c := range r.commits {
			begun = begun || c.ID == from
			if begun && !yield(c, nil) {
				return
			}
		}
	}
}

// Edits implements explanation.Repository.
func (r anybody) Edits(_ context.Context, commits []branch.Commit, _ map[string]string, look branch.Selection) ([]branch.Edits, error) {
	all := make([]branch.Edits, len(commits))
	for i, c := range commits {
		text, _ := fs.ReadFile(r.tree, "overlays/default/scaling.yaml")
		all[i].Files = []branch.Edit{{Path: look.Below[0] + "/scaling.yaml", Before: r.before, After: text, Added: i%3 == 1}}
		if len(c.Parents) == 0 {
			all[i].Unknown = errors.New("it is not here")
		}
	}
	return all, nil
}

// Past implements explanation.Repository.
func (r anybody) Past(_ context.Context, commit string, _ []string) (branch.Head, error) {
	if strings.HasSuffix(commit, "3") {
		return branch.Head{}, errors.New("it is not here")
	}
	return branch.Head{Commit: commit, Tree: r.tree}, nil
}

const policyText = "apiVersion: muster.dev/v1alpha1\nkind: ScalingPolicy\nspec:\n  queue: default\n  max: 10\n"

const kustomization = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [%s]\n"

// FuzzExplain asks anything about commits that anybody may have written, above files that
// are as good: it is answered, or a mistake is named, and nothing panics.
func FuzzExplain(f *testing.F) {
	for i, m := range messages(f) {
		f.Add([]string{"", "HEAD", "default", "0000", "default-x3vyrzrm", "https://buildkite.com/acme/a/builds/1/list?jid=d0000000-0000-4000-8000-000000000009", "default-x3vyrzrm-0", "https://git.example.com/c/commit/0000"}[i%8], m, policyText, i*37)
	}
	f.Add("../../etc", "x", "a: [", -1)
	f.Add("overlays/default/", "", "", 0)
	at := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, name, message, policy string, minutes int) {
		var commits []branch.Commit
		for i, m := range []string{message, strings.ReplaceAll(message, ": retire ", ": dispatch "), "Raise max\n", strings.ReplaceAll(message, "default", "linux"), message} {
			c := branch.Commit{ID: fmt.Sprintf("%040x", 9-i), Author: "A", At: at.Add(-time.Duration(i/2) * time.Minute), Message: m}
			if i < 4 {
				c.Parents = []string{fmt.Sprintf("%040x", 8-i)}
			}
			commits = append(commits, c)
		}
		r := anybody{commits: commits, before: []byte(message), tree: fstest.MapFS{
			"base/kustomization.yaml":                        {Data: fmt.Appendf(nil, kustomization, "job.yaml")},
			"base/job.yaml":                                  {Data: []byte(message)},
			"overlays/default/scaling.yaml":                  {Data: []byte(policy)},
			"overlays/default/kustomization.yaml":            {Data: fmt.Appendf(nil, kustomization, "dispatches")},
			"overlays/default/template/kustomization.yaml":   {Data: fmt.Appendf(nil, kustomization, "../../../base")},
			"overlays/default/dispatches/kustomization.yaml": {Data: fmt.Appendf(nil, kustomization, "")},
		}}
		config := explanation.Config{Repository: r, Overlays: "overlays", Loader: fleet.NewLoader("overlays"), Now: at}
		for _, q := range []explanation.Question{{Name: name}, {Name: name, At: at.Add(time.Duration(minutes%4096) * time.Minute)}} {
			all, err := config.Explain(t.Context(), q)
			if (err == nil) == (len(all) == 0) {
				t.Errorf("%+v: %d explanations, %v", q, len(all), err)
			}
			for _, x := range all {
				if x.Subject == "" || len(x.Why) == 0 && len(x.Steps) == 0 {
					t.Errorf("%+v: an explanation that says nothing: %+v", q, x)
				}
			}
		}
	})
}
