package kustomize

import (
	"context"
	"io"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const (
	// exitMemory is the exit code of a process that needed more memory than it may.
	exitMemory = 86
	// exitCrash is that of the Go runtime.
	exitCrash = 2
)

// Serve is the main function of the other process: it reads the directories to build from in,
// requests files on out, and ends when in ends, even during a build. It ends the process when
// it needs more than memory bytes.
func Serve(in io.Reader, out io.Writer, memory int64) {
	debug.SetMemoryLimit(memory * 3 / 4)
	debug.SetGCPercent(400) // what a build leaves behind is small compared with the limit
	debug.SetMaxStack(int(memory / 4))
	go watchMemory(memory)
	// The end of in is noticed only while somebody reads from it.
	answers, sent := io.Pipe()
	go func() {
		_, _ = io.Copy(sent, in)
		os.Exit(0)
	}()
	parent := newLine(answers, out)
	for {
		m, err := parent.receive()
		if err != nil {
			return
		}
		done := message{Done: true}
		if done.Objects, err = (Here{}).Build(context.Background(), asking{parent: parent}, m.Build); err != nil {
			done.Err = err.Error()
		}
		if parent.send(done) != nil {
			return
		}
	}
}

// watchMemory ends the process when it has more memory than it may.
func watchMemory(most int64) {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	for {
		metrics.Read(sample)
		var used uint64
		for _, s := range sample {
			used += s.Value.Uint64()
		}
		if used > uint64(most) {
			os.Exit(exitMemory)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// asking is a file system that requests its files from the other process.
type asking struct {
	filesys.FileSystem // nil: kustomize calls no other methods
	parent             *line
}

// ask sends a request and returns the response. It exits if the other process has ended.
func (a asking) ask(method, path string) message {
	err := a.parent.send(message{Ask: method, Path: path})
	if err == nil {
		var m message
		if m, err = a.parent.receive(); err == nil {
			return m
		}
	}
	os.Exit(1)
	return message{}
}

// IsDir implements filesys.FileSystem.
func (a asking) IsDir(path string) bool { return a.ask("IsDir", path).Yes }

// Exists implements filesys.FileSystem.
func (a asking) Exists(path string) bool { return a.ask("Exists", path).Yes }

// CleanedAbs implements filesys.FileSystem.
func (a asking) CleanedAbs(path string) (filesys.ConfirmedDir, string, error) {
	m := a.ask("CleanedAbs", path)
	return filesys.ConfirmedDir(m.Dir), m.Name, m.failed()
}

// ReadFile implements filesys.FileSystem.
func (a asking) ReadFile(path string) ([]byte, error) {
	m := a.ask("ReadFile", path)
	return m.Data, m.failed()
}
