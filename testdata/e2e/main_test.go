package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/testdata/e2e/programs"
	"muster/testdata/e2e/record"
)

var (
	withSyncers  = flag.String("syncers", "flux,argocd", "the syncers to try")
	versionsFlag = flag.String("versions", "", "the set of versions: NAME.mod beside each go.mod of build/; empty: the current ones")
	buildOnly    = flag.Bool("build-only", false, "build what is missing, and run nothing")
	tableFlag    = flag.String("table", "", "the section of docs/reference/syncers.md, tried, previous or long, to write from what was seen, if all of it held; or trace, of docs/explanation/performance.md")
	patience     = flag.Duration("patience", 20*time.Minute, "how long a test waits for what must come")
	keepFlag     = flag.Bool("keep", false, "keep the folder of logs and data, also where all passed")
)

// suite is what all tests share: one machine, one cluster, one fleet.
type suite struct {
	root     string // of the repository
	dir      string // temporary, with logs
	logs     string
	programs map[string]programs.Built
	muster   string
	agent    string
	world    *world
}

var shared *suite

func syncers() []string { return strings.Split(*withSyncers, ",") }

func TestMain(m *testing.M) {
	flag.Parse()
	// Scenarios wait for others' intervals, more than for processors. With 24 of them, pods start minutes late on two
	// processors, after short leases.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	began := time.Now()
	must(beginning{}, hasSection())
	s := prepare(ctx, beginning{})
	say("built, or found, in %s", time.Since(began).Round(time.Second))
	if *buildOnly {
		return 0
	}
	say("logs are in %s", s.logs)
	s.world = newWorld(ctx, beginning{}, s)
	shared = s
	say("cluster, %s, git, Buildkite and muster are up", *withSyncers)
	began = time.Now()
	code := m.Run()
	s.world.close()
	say("tests took %s", time.Since(began).Round(time.Second))
	if code != 0 || *keepFlag {
		say("logs of every process are in %s", s.logs)
	} else {
		os.RemoveAll(s.dir)
	}
	if code == 0 && *tableFlag != "" {
		if err := results.write(s); err != nil {
			fmt.Fprintln(os.Stderr, "e2e:", err)
			return 1
		}
	}
	return code
}

// hasSection is an error where the section that is to be written has no place.
func hasSection() error {
	if *tableFlag == "" {
		return nil
	}
	of := record.Page
	if *tableFlag == record.Trace {
		of = record.TracePage
	}
	page, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(of)))
	if err != nil {
		return err
	}
	_, err = record.Replace(page, *tableFlag, "")
	return err
}

// needed are the programs that the chosen syncers need.
func needed() []string {
	names := []string{"controlplane"}
	if slices.Contains(syncers(), "flux") {
		names = append(names, "kustomize-controller", "source-controller", "notification-controller")
	}
	if slices.Contains(syncers(), "argocd") {
		names = append(names, "argocd", "kustomize")
	}
	if noContainers() == nil {
		names = append(names, "kubelet")
	}
	return names
}

// prepare builds what is missing: muster, the agent, the cluster's programs.
func prepare(ctx context.Context, t tb) *suite {
	here, err := os.Getwd()
	must(t, err)
	s := &suite{root: filepath.Dir(filepath.Dir(here))}
	builder := programs.Builder{
		Suite: here, Cache: filepath.Join(s.root, "bin", "e2e"), Versions: *versionsFlag,
		Say: os.Stderr, Now: time.Now, Environ: os.Environ(),
	}
	s.programs, err = builder.Build(ctx, needed()...)
	must(t, err)
	s.dir, err = os.MkdirTemp("", "muster-e2e-")
	must(t, err)
	s.logs = filepath.Join(s.dir, "logs")
	must(t, os.MkdirAll(s.logs, 0o755))
	s.muster = filepath.Join(s.dir, "muster")
	_, err = goRun(ctx, s.root, "build", "-trimpath", "-o", s.muster, "./cmd/muster")
	must(t, err)
	out, err := goRun(ctx, filepath.Join(s.root, "testdata", "agent"), "run", "./build")
	must(t, err)
	s.agent = strings.TrimSpace(out)
	return s
}

func goRun(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		var said []byte
		if exit, ok := err.(*exec.ExitError); ok {
			said = exit.Stderr
		}
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, said)
	}
	return string(out), nil
}

func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s e2e: "+format+"\n", append([]any{time.Now().UTC().Format("15:04:05")}, args...)...)
}
