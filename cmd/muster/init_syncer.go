package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"muster/deploy"
	"muster/generator/plan"
)

// knownSyncers are those that --syncer knows, by their directories of deploy/syncers.
var knownSyncers = []string{"argocd", "flux"}

// syncerDirectory is where a fleet repository has what its syncer is told.
const syncerDirectory = "syncer"

// syncerHints say what is left to be done by hand; NAME stands for the overlay.
var syncerHints = map[string]string{
	"argocd": "\nTo let Argo CD apply it: create the agents' namespace, edit sourceRepos in\n" +
		"syncer/project.yaml and repoURL in syncer/agents-NAME.yaml, push, and run\n" +
		"kubectl apply -f syncer. muster run --notify kind=argocd,... notifies Argo CD of each\n" +
		"push. Otherwise Argo CD polls git every few minutes.\n",
	"flux": "\nTo let Flux apply it: create the agents' namespace, edit url in syncer/fleet.yaml, make\n" +
		"the Receiver's Secret as that file says, push, and run kubectl apply -f syncer.\n" +
		"muster run --notify kind=flux,... notifies Flux of each push. Otherwise Flux polls\n" +
		"git every minute.\n",
}

// syncerFiles are what a syncer is told of an overlay, by their path in the fleet
// repository.
func syncerFiles(syncer, overlay string) (map[string][]byte, error) {
	from := path.Join("syncers", syncer)
	content, err := deploy.Syncers.ReadFile(path.Join(from, "overlay.yaml"))
	if err != nil {
		return nil, err
	}
	slug := plan.Slug(overlay)
	content = bytes.ReplaceAll(content, []byte("agents-default"), []byte("agents-"+slug))
	content = bytes.ReplaceAll(content, []byte("overlays/default"), []byte("overlays/"+overlay))
	files := map[string][]byte{path.Join(syncerDirectory, "agents-"+slug+".yaml"): content}
	shared, err := embedded(deploy.Syncers, from)
	delete(shared, "overlay.yaml")
	for name, content := range shared {
		files[path.Join(syncerDirectory, name)] = content
	}
	return files, err
}

// writeSyncer writes what is missing of the files that tell a syncer of an overlay.
func writeSyncer(out io.Writer, dir, syncer, overlay string) error {
	files, err := syncerFiles(syncer, overlay)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		switch err := writeNewFile(filepath.Join(dir, filepath.FromSlash(name)), files[name]); {
		case errors.Is(err, fs.ErrExist):
			fmt.Fprintf(out, "%s is there already: left as it is\n", name)
		case err != nil:
			return usage(err)
		default:
			fmt.Fprintf(out, "wrote %s\n", name)
		}
	}
	return nil
}

// writeNewFile writes a file that is not there yet; one that is there is
// [fs.ErrExist].
func writeNewFile(name string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}
