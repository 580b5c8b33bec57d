package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"muster/cmd/muster/terminal"
	"muster/generator/verification"
)

// verifyPrinter prints findings as they come, and keeps none.
type verifyPrinter interface {
	finding(f verification.Finding) error
	end(c verification.Config, count verification.Count) error
}

// verifyPrinters are the values of verify's --output.
func verifyPrinters(out terminal.Output) map[string]verifyPrinter {
	return map[string]verifyPrinter{
		"text": &verifyText{out: out, stream: terminal.Stream{Out: out, Head: []string{"COMMIT", "TIME", "AUTHOR", "OVERLAY", "ACT", "VERDICT", "WHY"}}},
		"json": &verifyJSON{out: out.Text},
	}
}

// verifyText prints a table, and under it how many there were.
type verifyText struct {
	out    terminal.Output
	stream terminal.Stream
	rows   int
}

func (p *verifyText) finding(f verification.Finding) error {
	p.rows++
	style := terminal.Plain
	if f.Failed() {
		style = terminal.Bad
	} else if !f.Verdict.Confirmed() {
		style = terminal.Warning
	}
	why := append(slices.Clone(f.Why), f.Notes...)
	if f.Signature != "" {
		why = append(why, "signature: "+string(f.Signature))
	}
	if f.Verdict == verification.OtherVersion {
		why = append([]string{"made by " + f.Version}, why...)
	}
	dash := func(s string) string {
		if s == "" {
			return "-"
		}
		return s
	}
	return p.stream.Row([]terminal.Cell{
		{Text: f.Commit[:min(7, len(f.Commit))]}, {Text: f.At.UTC().Format(time.RFC3339)}, {Text: dash(oneRow(f.Author))}, {Text: dash(f.Overlay)},
		{Text: dash(string(f.Act))}, {Text: string(f.Verdict), Style: style}, {Text: oneRow(strings.Join(why, "; "))},
	})
}

func (p *verifyText) end(c verification.Config, count verification.Count) error {
	if err := p.stream.Flush(); err != nil {
		return err
	}
	if p.rows > 0 {
		fmt.Fprintln(p.out.Text)
	}
	var kinds []string
	for _, v := range []verification.Verdict{verification.Follows, verification.Repair, verification.ByHand, verification.Forged, verification.Damaged, verification.OtherVersion, verification.Unknown} {
		if n := count.Verdicts[v]; n > 0 || v == verification.Follows {
			kinds = append(kinds, fmt.Sprintf("%d %s", n, v))
		}
	}
	_, err := fmt.Fprintf(p.out.Text, "%s, %d of them muster's: %s\n", commits(count.Commits, "", ""), count.Muster, strings.Join(kinds, ", "))
	for _, note := range verifyNotes(c, count) {
		fmt.Fprintln(p.out.Text, note)
	}
	return err
}

// verifyNotes are sentences about all findings.
func verifyNotes(c verification.Config, count verification.Count) []string {
	var notes []string
	add := func(n int, format string, args ...any) {
		if n > 0 {
			notes = append(notes, fmt.Sprintf(format, args...))
		}
	}
	add(count.Verdicts[verification.Repair], "repair: it puts back what was ordered, and changes muster's own files alone")
	add(count.OtherWords, "%d of those that follow have notes, as reasons in other words: --all shows them", count.OtherWords)
	add(count.Verdicts[verification.OtherVersion], "other-version: this is %s, and makes them otherwise; that is no failure unless --strict is given", c.Version)
	add(count.Unproven, "%d of muster's commits have no good signature", count.Unproven)
	if len(count.Fleets) > 1 {
		var tags []string
		for _, tag := range slices.Sorted(maps.Keys(count.Fleets)) {
			tags = append(tags, fmt.Sprintf("%q (%d)", tag, count.Fleets[tag]))
		}
		add(1, "the agents of these orders carry different fleet tags, %s: the repository has moved, or another muster wrote them", strings.Join(tags, ", "))
	}
	return notes
}

// verifyJSON prints one document, finding by finding.
type verifyJSON struct {
	out  io.Writer
	rows int
}

const verifyHead = "{\n  \"apiVersion\": \"muster.dev/v1alpha1\",\n  \"kind\": \"Verification\",\n  \"findings\": ["

func (p *verifyJSON) finding(f verification.Finding) error {
	before := ",\n    "
	if p.rows++; p.rows == 1 {
		before = verifyHead + "\n    "
	}
	text, err := json.MarshalIndent(f, "    ", "  ")
	if err != nil {
		return err
	}
	_, err = p.out.Write([]byte(before + string(text)))
	return err
}

func (p *verifyJSON) end(c verification.Config, count verification.Count) error {
	before := "\n  ],\n"
	if p.rows == 0 {
		before = verifyHead + "],\n"
	}
	version, err := json.Marshal(c.Version)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(count, "  ", "  ")
	if err != nil {
		return err
	}
	_, err = p.out.Write([]byte(before + "  \"version\": " + string(version) + ",\n  \"count\": " + string(text) + "\n}\n"))
	return err
}
