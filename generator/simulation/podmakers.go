package simulation

import (
	"time"

	"golang.org/x/time/rate"
)

// Maker is a controller on the way from an order to its pods. Its client of the Kubernetes
// API holds itself to a rate, whatever the API server could bear: a token bucket, for which
// client-go has the library that is used here (k8s.io/client-go/util/flowcontrol).
type Maker struct {
	// PerSecond is how many requests it makes a second, and Burst how many at once after a
	// rest.
	PerSecond float64
	Burst     int
	// PerPod is how many of them a pod takes until it is there.
	PerPod int
}

// The controllers, as they are installed.

// jobController makes the pods of Kubernetes Jobs. Its flags --kube-api-qps and
// --kube-api-burst: k8s.io/kubernetes pkg/controller/apis/config/v1alpha1/defaults.go. A Job of
// many pods is written once, so that a pod takes one request; where each pod has a Job of its
// own, that Job's status is written too (pkg/controller/job/job_controller.go,
// flushUncountedAndRemoveFinalizers).
func jobController(perPod int) Maker { return Maker{20, 30, perPod} }

var (
	// agentStackController makes a Job for each pod: buildkite/agent-stack-k8s 0.47.0
	// internal/controller/config/config.go, DefaultK8sClientRateLimiterQPS and -Burst.
	agentStackController = Maker{10, 20, 1}
	// kedaOperator makes a Job for each pod: kedacore/keda 2.20.2 cmd/operator/main.go, kube-api-qps and
	// kube-api-burst.
	kedaOperator = Maker{20, 30, 1}
	// runnerSetController makes runners, and writes each five times until its pod is there: it
	// creates the EphemeralRunner, its finalizers, its Secret, its status and its pod
	// (actions/actions-runner-controller gha-runner-scale-set-0.14.2 controllers/actions.github.com,
	// ephemeralrunnerset_controller.go and ephemeralrunner_controller.go; main.go,
	// k8s-client-rate-limiter-qps and -burst).
	runnerSetController = Maker{20, 30, 5}
)

// making returns how long it takes the makers, one after the other, to make the next pod of
// what is ordered at a time. Times must not go back.
func making(makers []Maker) func(at time.Time) time.Duration {
	limiters := make([]*rate.Limiter, len(makers))
	for i, m := range makers {
		limiters[i] = rate.NewLimiter(rate.Limit(m.PerSecond), m.Burst)
	}
	return func(at time.Time) time.Duration {
		made := at
		for i, m := range makers {
			made = made.Add(limiters[i].ReserveN(made, m.PerPod).DelayFrom(made))
		}
		return made.Sub(at)
	}
}
