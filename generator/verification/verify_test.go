package verification

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"muster/generator/ledger"
	"muster/gitops/branch"
)

// slowFiles are those of empty commits, and wait for a channel.
type slowFiles struct {
	Files
	wait <-chan struct{}
}

func (f slowFiles) Ahead(context.Context, []branch.Commit, []string) error {
	<-f.wait
	return nil
}

func (slowFiles) Differences(context.Context, string, string, string) ([]branch.Difference, error) {
	return nil, nil
}

func (slowFiles) Close() {}

// TestVerifyEndsWhenCanceled asserts that Verify ends if its context ends while a job waits for a
// worker.
func TestVerifyEndsWhenCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		busy := make(chan struct{})
		c := Config{Workers: 1, Together: 1, Count: &Count{}, Files: func(context.Context) (Files, error) { return slowFiles{wait: busy}, nil }}
		log := func(yield func(ledger.Operation, error) bool) {
			for range 2 {
				if !yield(ledger.Operation{Commit: branch.Commit{ID: "1111111", Parents: []string{"2222222"}}}, nil) {
					return
				}
			}
		}
		var last error
		go func() {
			for _, err := range c.Verify(ctx, log) {
				last = err
			}
		}()
		synctest.Wait() // the worker has the first job, and no worker receives the second
		cancel()
		synctest.Wait()
		close(busy)
		synctest.Wait()
		if !errors.Is(last, context.Canceled) {
			t.Errorf("the last error is %v", last)
		}
	})
}
