package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/cmd/invocation"
	"muster/cmd/output"
	"muster/generator/status"
	"muster/gitops/branch"
)

// liveTime limits the time that a running muster takes to answer, and liveSize the size of its answer.
const (
	liveTime = 10 * time.Second
	liveSize = 64 << 20
)

// liveAddress returns the address of /status.json of the muster run --listen at an address.
func liveAddress(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, output.Usage(fmt.Errorf("--live: must be the address of muster run --listen, as in http://127.0.0.1:8080, got %q", branch.OneLine(text, 100)))
	}
	return u.JoinPath("status.json"), nil
}

// readLive returns the status of a running muster, and its JSON.
func readLive(ctx context.Context, u *url.URL) (s status.Snapshot, text []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, liveTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return s, nil, output.Usage(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err == nil {
		defer response.Body.Close()
		text, err = io.ReadAll(io.LimitReader(response.Body, liveSize))
	}
	if err != nil {
		if problem := branch.NetworkProblem(err, u.Host, branch.SystemAuthorities); problem != "" {
			err = errors.New(problem)
		}
		return s, nil, fmt.Errorf("reading %s: %w; muster run --listen must serve it (in a cluster: kubectl port-forward)", u.Redacted(), err)
	}
	if response.StatusCode != http.StatusOK {
		return s, nil, fmt.Errorf("reading %s: the answer is %s: check the address and what is between it and muster", u.Redacted(), branch.OneLine(response.Status, 100))
	}
	if err := json.Unmarshal(text, &s); err != nil || s.Started.IsZero() {
		return s, nil, fmt.Errorf("reading %s: the answer is not of muster run --listen: check the address", u.Redacted())
	}
	return s, text, nil
}

// showLive prints the status of a running muster.
func showLive(out output.Output, format string, s status.Snapshot, text []byte, names []string, now time.Time) error {
	known := invocation.Map(s.Overlays, func(o status.Overlay) string { return o.Name })
	chosen, err := output.ChooseOverlays(names, known, s.Muster.Overlays)
	if err != nil {
		return err
	}
	s.Overlays = slices.DeleteFunc(s.Overlays, func(o status.Overlay) bool { return !slices.Contains(chosen, o.Name) })
	switch format {
	case "json", "yaml":
		var document map[string]any
		if err := json.NewDecoder(bytes.NewReader(text)).Decode(&document); err != nil {
			return err
		}
		if all, ok := document["overlays"].([]any); ok {
			document["overlays"] = slices.DeleteFunc(all, func(x any) bool {
				o, _ := x.(map[string]any)
				name, _ := o["name"].(string)
				return !slices.Contains(chosen, name)
			})
		}
		if format == "json" {
			return output.WriteJSON(out.Text, document)
		}
		return output.WriteYAML(out.Text, document)
	case "name":
		for _, name := range chosen {
			fmt.Fprintln(out.Text, s.Muster.Overlays+"/"+name)
		}
		return nil
	}
	tick := "no tick has ended"
	if !s.Tick.Ended.IsZero() {
		tick = fmt.Sprintf("the last tick ended %s ago (%s)", output.ShortAge(now.Sub(s.Tick.Ended)), s.Tick.Outcome)
	}
	fmt.Fprintf(out.Text, "muster %s, branch %s of %s: %s\n\n", s.Muster.Version, s.Muster.Branch, s.Muster.Repository, tick)
	if err := liveTable(s, now).Write(out); err != nil {
		return err
	}
	gap := "\n"
	for _, c := range s.Problems() {
		fmt.Fprint(out.Text, gap)
		output.PrintCondition(out.Text, c)
		gap = ""
	}
	return nil
}

// liveTable has a row for each overlay.
func liveTable(s status.Snapshot, now time.Time) output.Table {
	t := output.Table{Head: []string{"OVERLAY", "QUEUE", "STATE", "DISPATCHES", "IN-FLIGHT", "PENDING", "OLDEST", "IDLE", "BUSY", "DESIRED"}}
	for _, o := range s.Overlays {
		row := []output.Cell{{Text: o.Name}, {Text: cmp.Or(o.Queue, output.Unknown)}, output.StateCell(o.Conditions), {Text: strconv.Itoa(o.Dispatches)}}
		oldest := output.Unknown
		if !o.Oldest.IsZero() {
			oldest = output.ShortAge(now.Sub(o.Oldest))
		}
		for _, text := range []string{strconv.Itoa(o.Sum.InFlight), strconv.Itoa(o.Sum.Pending), oldest, strconv.Itoa(o.Sum.Idle), strconv.Itoa(o.Sum.Busy), strconv.Itoa(o.Sum.Desired)} {
			if !o.Known {
				text = output.Unknown
			}
			row = append(row, output.Cell{Text: text})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// runLive shows the status of a running muster, once or continuously.
func (p program) runLive(ctx context.Context, w watch, address, format string, names []string) error {
	u, err := liveAddress(strings.TrimSuffix(address, "/status.json"))
	if err != nil {
		return err
	}
	return w.run(ctx, p, p.Output(), func(ctx context.Context, out output.Output) error {
		p.Progress.Doing("reading " + u.Redacted())
		s, text, err := readLive(ctx, u)
		p.Progress.Done()
		if err != nil {
			return err
		}
		return showLive(out, format, s, text, names, p.Clock.Now())
	})
}
