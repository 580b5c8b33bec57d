package hosts

import (
	"flag"
	"slices"
	"strings"
	"sync"
	"testing"

	"muster/gitops"
	"muster/gitops/branch"
	"muster/gitops/gitserver"
	"muster/gitops/writertest"
)

var without = flag.String("without", "", "hosts that are left out, separated by commas, as in JGit,gitolite; they are listed as not run")

// TestHosts runs the contract and the story against every host.
func TestHosts(t *testing.T) {
	for _, h := range hosts() {
		t.Run(h.name, func(t *testing.T) {
			row := &row{host: h.name, headFirst: h.headFirst, hidesLocks: h.hidesLocks}
			rows = append(rows, row)
			if h.leftOut() {
				row.notRun = "left out by -without"
				t.Skip(row.notRun)
			}
			if missing := h.needs(); missing != "" {
				row.notRun = "missing: " + missing
				t.Fatalf("%s cannot be run: %s is missing; make hosts installs or builds it, and -without '%s' leaves it out", h.name, missing, h.name)
			}
			s := h.start(t)
			row.version = s.version()
			t.Run("contract", func(t *testing.T) { contract(t, s) })
			t.Run("story", func(t *testing.T) { tell(t, s, row) })
			t.Run("program", func(t *testing.T) { runProgram(t, s) })
			row.passed = !t.Failed()
		})
	}
	if !t.Failed() {
		write(t)
		return
	}
	t.Log("\n" + table())
}

func (h host) leftOut() bool {
	return slices.ContainsFunc(strings.Split(*without, ","), func(name string) bool {
		return strings.EqualFold(strings.TrimSpace(name), h.name)
	})
}

// contract is what every writer must do.
func contract(t *testing.T, s server) {
	var places sync.Map
	find := func(r gitserver.Repository) place {
		p, _ := places.Load(r.Dir)
		return p.(place)
	}
	writertest.Run(t, writertest.Harness{
		Few: true, // it is the host that says who is first
		New: func(t *testing.T) gitserver.Repository {
			p := s.repository(t)
			places.Store(p.Dir, p)
			return p.Repository
		},
		Open: func(t *testing.T, r gitserver.Repository) branch.Writer {
			return open(t, find(r).config)
		},
		Refuse: func(t *testing.T, r gitserver.Repository, words string) { find(r).refuse(t, words) },
	})
}

func open(t *testing.T, c gitops.Config) *gitops.Repository {
	t.Helper()
	r, err := gitops.New(c)
	must(t, err)
	return r
}
