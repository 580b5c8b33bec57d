package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"muster/testdata/e2e/kube"
	"muster/testdata/e2e/process"
)

// syncer is one that applies what is in git: Flux or Argo CD.
type syncer interface {
	// name is what init --syncer takes.
	name() string
	// notify is what muster run --notify is told.
	notify() string
	// status is what the syncer says of an overlay: whether it is as it should be,
	// and its words.
	status(ctx context.Context, overlay string) (ok bool, words string, err error)
	// applied is the commit of which an overlay was applied last.
	applied(ctx context.Context, overlay string) (string, error)
	// refresh has it look at an overlay now, as the git host's own webhook does.
	refresh(ctx context.Context, overlay string) error
	// object is the path of what the syncer was told of an overlay.
	object(overlay string) string
	// parts are its processes.
	parts() map[string]*process.Process
	// versions are those of its parts, as a table says them.
	versions() string
}

// part starts a process of a syncer.
func (s *suite) part(t tb, parts map[string]*process.Process, name, program string, env []string, args ...string) {
	dir := filepath.Join(s.dir, name)
	must(t, os.MkdirAll(filepath.Join(dir, "tmp"), 0o755))
	p, err := process.Start(s.logs, process.Command{
		Name: name, Path: program, Args: args, Dir: dir,
		Env: append(append(os.Environ(), "HOME="+dir, "TMPDIR="+filepath.Join(dir, "tmp"), "GIT_CONFIG_NOSYSTEM=1"), env...),
	})
	parts[name] = p
	must(t, err)
}

const tellSecret = "e2e-told"

// flux is source-controller, kustomize-controller and notification-controller.
type flux struct {
	suite     *suite
	cluster   *cluster
	processes map[string]*process.Process
	receiver  string
}

func (f *flux) name() string                       { return "flux" }
func (f *flux) parts() map[string]*process.Process { return f.processes }
func (f *flux) versions() string {
	p := f.suite.programs
	return fmt.Sprintf("kustomize-controller %s, source-controller %s, notification-controller %s",
		p["kustomize-controller"].Version, p["source-controller"].Version, p["notification-controller"].Version)
}

func (f *flux) object(overlay string) string {
	return kube.Path("kustomize.toolkit.fluxcd.io/v1", "kustomizations", "flux-system", "agents-"+overlay)
}

// fluxObject contains the fields of a Flux object that the tests read.
type fluxObject struct {
	Metadata struct{ Generation int } `json:"metadata"`
	Status   struct {
		Conditions          []fluxCondition           `json:"conditions"`
		LastAppliedRevision string                    `json:"lastAppliedRevision"`
		Artifact            struct{ Revision string } `json:"artifact"`
	} `json:"status"`
}

// fluxCondition is a metav1.Condition.
type fluxCondition struct {
	Type, Status, Reason, Message string
	ObservedGeneration            int
}

// ready is the condition Ready, or nil while Flux has set none.
func (o fluxObject) ready() *fluxCondition {
	i := slices.IndexFunc(o.Status.Conditions, func(c fluxCondition) bool { return c.Type == "Ready" })
	if i < 0 {
		return nil
	}
	return &o.Status.Conditions[i]
}

// startFlux starts the three; the prefix tells their logs and folders from others'.
func startFlux(ctx context.Context, t tb, s *suite, c *cluster, prefix string) *flux {
	f := &flux{suite: s, cluster: c, processes: map[string]*process.Process{}}
	programs := []string{"source-controller", "kustomize-controller", "notification-controller"}
	var kinds []string
	for _, program := range programs {
		kinds = append(kinds, filepath.Join(s.programs[program].Dir, "crds", "*.yaml"))
	}
	c.define(ctx, t, kinds...)
	must(t, c.addPlainNamespace(ctx, "flux-system"))
	ports := freePorts(t, 9)
	at := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	kubeconfig := filepath.Join(c.dir, "kubeconfig-flux")
	must(t, writeKubeconfig(kubeconfig, c.URL, "flux-system"))
	env := []string{"RUNTIME_NAMESPACE=flux-system", "KUBECONFIG=" + kubeconfig}
	storage := filepath.Join(s.dir, prefix+"flux-archives")
	must(t, os.MkdirAll(storage, 0o755))
	for i, more := range [][]string{
		{"--storage-path=" + storage, "--storage-addr=" + at(6), "--storage-adv-addr=" + at(6)},
		nil,
		{"--receiverAddr=" + at(7), "--events-addr=" + at(8)},
	} {
		args := []string{
			"--metrics-addr=" + at(2*i), "--health-addr=" + at(2*i+1),
			"--enable-leader-election=false", "--watch-all-namespaces",
		}
		s.part(t, f.processes, prefix+programs[i], s.programs[programs[i]].Path, env, append(args, more...)...)
	}
	f.receiver = "http://" + at(7)
	return f
}

// introduce applies what all overlays share, and waits for the Receiver's path, which muster derives.
func (f *flux) introduce(ctx context.Context, t tb, fleet string) {
	secret := map[string]any{"metadata": map[string]any{"name": "muster-receiver"}, "stringData": map[string]string{"token": tellSecret}}
	must(t, f.cluster.Post(ctx, kube.Path("v1", "secrets", "flux-system", ""), secret))
	must(t, f.cluster.applyFiles(ctx, filepath.Join(fleet, "syncer", "fleet.yaml")))
	var receiver struct {
		Status struct {
			WebhookPath string `json:"webhookPath"`
		} `json:"status"`
	}
	must(t, eventually(ctx, 5*time.Minute, "the Receiver has a path", func() error {
		path := kube.Path("notification.toolkit.fluxcd.io/v1", "receivers", "flux-system", "muster")
		if err := f.cluster.Get(ctx, path, &receiver); err != nil || receiver.Status.WebhookPath == "" {
			return errors.Join(errors.New("no path"), err)
		}
		return nil
	}))
}

func (f *flux) notify() string {
	return "kind=flux,name=flux,url=" + f.receiver + ",secret-file=" + f.suite.secretFile()
}

func (f *flux) status(ctx context.Context, overlay string) (bool, string, error) {
	var object fluxObject
	if err := f.cluster.Get(ctx, f.object(overlay), &object); err != nil {
		return false, "", err
	}
	if c := object.ready(); c != nil {
		return c.Status == "True", c.Reason + ": " + c.Message, nil
	}
	return false, "no condition Ready", nil
}

func (f *flux) applied(ctx context.Context, overlay string) (string, error) {
	var object fluxObject
	err := f.cluster.Get(ctx, f.object(overlay), &object)
	_, commit, _ := strings.Cut(object.Status.LastAppliedRevision, "sha1:")
	return commit, err
}

func (f *flux) refresh(ctx context.Context, _ string) error {
	return f.cluster.Merge(ctx, source("fleet"), annotated("reconcile.fluxcd.io/requestedAt", time.Now().Format(time.RFC3339Nano)))
}

// has waits until Flux has fetched what is newest in git: a Kustomization of a
// directory that it does not have waits for a minute.
func (f *flux) has(w *world) error {
	if err := f.refresh(w.ctx, ""); err != nil {
		return err
	}
	return f.fetched(w, "fleet")
}

// fetched waits until a GitRepository has what is newest in git.
func (f *flux) fetched(w *world, name string) error {
	head, err := w.git.Head()
	if err != nil {
		return err
	}
	return eventually(w.ctx, 5*time.Minute, "the GitRepository "+name+" has "+head, func() error {
		var object fluxObject
		if err := f.cluster.Get(w.ctx, source(name), &object); err != nil {
			return err
		}
		return w.git.has(object.Status.Artifact.Revision, head)
	})
}

// source is the path of a GitRepository, or of all if the name is empty.
func source(name string) string {
	return kube.Path("source.toolkit.fluxcd.io/v1", "gitrepositories", "flux-system", name)
}

// freeze has Flux apply an overlay from a suspended GitRepository of its own, and waits until that has failed
// once: then only retryInterval makes Flux try again, and no commit to the fleet.
func (f *flux) freeze(w *world, overlay string) error {
	var fleet struct {
		Spec map[string]any `json:"spec"`
	}
	if err := f.cluster.Get(w.ctx, source("fleet"), &fleet); err != nil {
		return err
	}
	own := map[string]any{
		"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
		"metadata": map[string]string{"name": overlay}, "spec": fleet.Spec,
	}
	if err := f.cluster.Post(w.ctx, source(""), own); err != nil {
		return err
	}
	if err := f.fetched(w, overlay); err != nil {
		return err
	}
	if err := f.cluster.Merge(w.ctx, source(overlay), map[string]any{"spec": map[string]any{"suspend": true}}); err != nil {
		return err
	}
	if err := f.cluster.Merge(w.ctx, f.object(overlay), map[string]any{"spec": map[string]any{"sourceRef": map[string]string{"name": overlay}}}); err != nil {
		return err
	}
	return eventually(w.ctx, 5*time.Minute, "Flux has failed to apply "+overlay+" from its own source", func() error {
		var object fluxObject
		if err := f.cluster.Get(w.ctx, f.object(overlay), &object); err != nil {
			return err
		}
		if c := object.ready(); c == nil || c.Status != "False" || c.ObservedGeneration != object.Metadata.Generation {
			return fmt.Errorf("generation %d, conditions %+v", object.Metadata.Generation, object.Status.Conditions)
		}
		return nil
	})
}

func annotated(name, value string) map[string]any {
	return map[string]any{"metadata": map[string]any{"annotations": map[string]string{name: value}}}
}

// addPlainNamespace makes a namespace without anything in it.
func (c *cluster) addPlainNamespace(ctx context.Context, name string) error {
	return c.ensure(ctx, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": name}})
}

// secretFile is where muster reads what syncers know too.
func (s *suite) secretFile() string { return filepath.Join(s.dir, "tell-secret") }

// startSyncers starts those that are chosen.
func startSyncers(ctx context.Context, t tb, s *suite, c *cluster) map[string]syncer {
	must(t, os.WriteFile(s.secretFile(), []byte(tellSecret), 0o600))
	all := map[string]syncer{}
	if slices.Contains(syncers(), "flux") {
		all["flux"] = startFlux(ctx, t, s, c, "")
	}
	if slices.Contains(syncers(), "argocd") {
		all["argocd"] = startArgoCD(ctx, t, s, c)
	}
	return all
}
