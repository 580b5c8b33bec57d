package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/deploy"
)

// incidentMetricsFile contains the samples of /metrics of all incidents, from which
// testdata/prometheus computes the alerts. Each incident is a comment that describes it, and the
// series that the alert rules use, in Prometheus' text format. A series is listed when its value
// changes, and with the value NaN when it ends.
const incidentMetricsFile = "testdata/incidents/metrics.txt.gz"

// metricsRecording is the recording of one incident.
type metricsRecording struct {
	mu    sync.Mutex
	names map[string]bool
	last  map[string]string
	text  strings.Builder
}

// metricName is the name of a metric in the alert rules.
var metricName = regexp.MustCompile(`\bmuster_\w+`)

// alertMetrics returns the names of the metrics that the alert rules use, sorted.
func alertMetrics(t *testing.T) []string {
	t.Helper()
	text, err := deploy.Files.ReadFile("components/alerts/prometheusrule.yaml")
	check(t, err)
	names := metricName.FindAllString(string(text), -1)
	slices.Sort(names)
	return slices.Compact(names)
}

// scrapeLater records the metrics at a time, and from then on at every interval of ticks.
func (w *incidentWorld) scrapeLater(at time.Time) {
	w.buildkite.At(at, func() {
		defer w.scrapeLater(at.Add(tickInterval))
		w.metrics.add(at, w.get("/metrics"))
	})
}

// add records the changes since the last sample.
func (m *metricsRecording) add(at time.Time, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := map[string]string{}
	for line := range strings.Lines(text) {
		i := strings.LastIndexByte(line, ' ')
		if i > 0 && m.names[metricName.FindString(line)] && strings.HasPrefix(line, "muster_") {
			now[line[:i]] = strings.TrimSpace(line[i:])
		}
	}
	for series := range m.last {
		if _, ok := now[series]; !ok {
			now[series] = "NaN"
		}
	}
	for _, series := range slices.Sorted(maps.Keys(now)) {
		if now[series] != m.last[series] {
			fmt.Fprintln(&m.text, series, now[series], at.UnixMilli())
		}
	}
	maps.DeleteFunc(now, func(_, value string) bool { return value == "NaN" })
	m.last = now
}

// recordedMetrics returns what is recorded of an incident.
func (w *incidentWorld) recordedMetrics(x incident) string {
	begins := w.begin.Add(incidentBegins)
	header, err := json.Marshal(map[string]any{
		"incident": x.name, "condition": x.want, "begins": begins, "ends": begins.Add(x.watched()), "interval": tickInterval.Seconds(),
		"metrics": slices.Sorted(maps.Keys(w.metrics.names)),
	})
	check(w.t, err)
	return "# " + string(header) + "\n" + w.metrics.text.String()
}

// writeIncidentMetrics writes the recordings of all incidents.
func writeIncidentMetrics(t *testing.T, text string) {
	t.Helper()
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	check(t, err)
	_, err = z.Write([]byte(text))
	check(t, err)
	check(t, z.Close())
	check(t, os.WriteFile(filepath.Join(top, incidentMetricsFile), b.Bytes(), 0o644))
}

// buildInfo is the series that differs between versions of muster and of Go.
var buildInfo = regexp.MustCompile(`(?m)^muster_build_info.*\n`)

// checkIncidentMetrics compares what is recorded of an incident with the file.
func checkIncidentMetrics(t *testing.T, text string) {
	t.Helper()
	z, err := gzip.NewReader(strings.NewReader(readText(t, incidentMetricsFile)))
	check(t, err)
	recorded, err := io.ReadAll(z)
	check(t, err)
	if !strings.Contains(buildInfo.ReplaceAllString(string(recorded), ""), buildInfo.ReplaceAllString(text, "")) {
		t.Errorf("%s is behind: run make incidents; got\n%s", incidentMetricsFile, text)
	}
}
