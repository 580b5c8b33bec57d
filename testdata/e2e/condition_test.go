package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
)

// condition is a log line of muster about a condition of an overlay.
type condition struct {
	Text    string `json:"msg"`
	Overlay string `json:"overlay"`
	Type    string `json:"condition"`
	Reason  string `json:"reason"`
	Remedy  string `json:"remedy"`
}

// conditions are the log lines about the overlay, the oldest first.
func (v *overlay) conditions() []condition {
	v.t.Helper()
	text, err := os.ReadFile(v.muster.Log)
	v.must(err)
	var all []condition
	for line := range bytes.Lines(text) {
		var c condition
		if json.Unmarshal(line, &c) == nil && c.Overlay == v.name && c.Type != "" {
			all = append(all, c)
		}
	}
	return all
}

// hasLogged waits until muster has logged a condition with a reason and a text, and returns the line.
func (v *overlay) hasLogged(reason, text string) (line condition) {
	v.t.Helper()
	v.until(fmt.Sprintf("muster logs %s, %q", reason, text), func() error {
		all := v.conditions()
		i := slices.IndexFunc(all, func(c condition) bool { return c.Reason == reason && c.Text == text })
		if i < 0 {
			return fmt.Errorf("it has logged %+v", all)
		}
		line = all[i]
		return nil
	})
	return line
}

// neverLogged fails if muster has logged a condition with a reason.
func (v *overlay) neverLogged(reason string) {
	v.t.Helper()
	for _, c := range v.conditions() {
		if c.Reason == reason {
			v.t.Errorf("%s: muster has logged %+v", v.name, c)
		}
	}
}
