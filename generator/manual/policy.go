package manual

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/generator/finding"
	"muster/generator/fleet"
	"muster/generator/history"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/generator/policy"
	"muster/gitops/branch"
)

// policyFile is an overlay's policy.
const policyFile = "scaling.yaml"

// Set changes settings of an overlay's policy, given as YAML by name. If until is set, it adds an
// override until then; otherwise it changes the policy and ends overrides of the same settings. The
// error names an unknown setting or an invalid value.
func Set(tree fs.FS, o *fleet.Overlay, values map[string]string, until, now time.Time) (Edit, error) {
	if len(values) == 0 {
		return Edit{}, errors.New("nothing is set: give NAME=VALUE, as in max=40")
	}
	names := slices.Sorted(maps.Keys(values))
	var words []string
	for _, name := range names {
		words = append(words, name+" "+values[name])
	}
	subject := "set " + strings.Join(words, ", ")
	if until.IsZero() {
		return change(tree, o, subject, policy.Edit{Set: values, Override: len(o.Policy.Overrides) > 0, Overrides: without(o.Policy.Overrides, now, names)}, now)
	}
	mine, overridable := plan.Override{Until: until}, policy.Overridable()
	for _, name := range names {
		at := slices.IndexFunc(overridable, func(f policy.Field) bool { return f.Name == name })
		if at < 0 {
			return Edit{}, fmt.Errorf("%s: cannot be set until a time: only %s can", name, finding.Or(policy.Names(overridable)))
		}
		n, err := strconv.Atoi(values[name])
		if err != nil {
			return Edit{}, fmt.Errorf("%s=%s: %q is not a whole number", name, values[name], values[name])
		}
		*overridable[at].Override(&mine) = &n
	}
	subject += " until " + until.UTC().Format(time.RFC3339)
	return change(tree, o, subject, policy.Edit{Override: true, Overrides: append(without(o.Policy.Overrides, now, names), mine)}, now)
}

// pausing is the name of the setting that pauses an overlay.
const pausing = "paused"

// Pause stops ordering for an overlay until a time; a zero time means permanently.
func Pause(tree fs.FS, o *fleet.Overlay, until, now time.Time) (Edit, error) {
	edit := policy.Edit{Set: map[string]string{pausing: "true"}}
	subject := "pause"
	if !until.IsZero() {
		edit = policy.Edit{Override: true, Overrides: append(without(o.Policy.Overrides, now, []string{pausing}), plan.Override{Until: until, Paused: true})}
		subject += " until " + until.UTC().Format(time.RFC3339)
	}
	e, err := change(tree, o, subject, edit, now)
	if err == nil && len(e.Changes) > 0 {
		inFlight := 0
		for _, d := range o.Dispatches {
			if !d.Expired(now) {
				inFlight += d.Agents
			}
		}
		e.Notes = append(e.Notes, "muster orders no more agents here. Busy, idle and in-flight agents continue: muster cancel withdraws an order in flight.")
		if inFlight > 0 {
			e.Notes = append(e.Notes, fmt.Sprintf("%s %s in flight.", ledger.Count(inFlight, "agent"), ledger.Pick(inFlight, "is", "are")))
		}
	}
	return e, err
}

// Resume ends all pauses of an overlay.
func Resume(tree fs.FS, o *fleet.Overlay, now time.Time) (Edit, error) {
	if during, _ := o.Policy.During(now); !during.Paused {
		return Edit{Notes: []string{o.Name + " is not paused in git."}}, nil
	}
	edit := policy.Edit{Override: true, Overrides: without(o.Policy.Overrides, now, []string{pausing})}
	if o.Policy.Paused {
		edit.Set = map[string]string{pausing: "false"}
	}
	return change(tree, o, "resume", edit, now)
}

// without returns the present and future overrides without the named settings.
func without(all []plan.Override, now time.Time, names []string) []plan.Override {
	var kept []plan.Override
	for _, o := range all {
		if !now.Before(o.Until) {
			continue
		}
		o.Paused = o.Paused && !slices.Contains(names, pausing)
		rest := o.Paused
		for _, f := range policy.Overridable() {
			if slices.Contains(names, f.Name) {
				*f.Override(&o) = nil
			}
			rest = rest || *f.Override(&o) != nil
		}
		if rest {
			kept = append(kept, o)
		}
	}
	return kept
}

// change edits the policy of an overlay.
func change(tree fs.FS, o *fleet.Overlay, subject string, edit policy.Edit, now time.Time) (Edit, error) {
	file := path.Join(o.Path, policyFile)
	before, err := fs.ReadFile(tree, file)
	if err != nil {
		return Edit{}, err
	}
	after, err := policy.Apply(file, before, edit)
	if err != nil {
		return Edit{}, err
	}
	was, err := policy.Parse(file, before)
	if err != nil {
		return Edit{}, err
	}
	is, err := policy.Parse(file, after)
	if err != nil {
		return Edit{}, err
	}
	changes := history.Changes(was, is)
	if len(changes) == 0 {
		return Edit{Notes: []string{file + " has these values already."}}, nil
	}
	e := Edit{Subject: o.Name + ": " + subject, Changes: []branch.Change{{Path: file, Content: after}}}
	for _, c := range changes {
		e.Says = append(e.Says, c.String())
	}
	if _, name := is.During(now); name != "" && !edit.Override {
		e.Notes = append(e.Notes, fmt.Sprintf("The schedule %q is in force: its min, max and buffer take precedence.", name))
	}
	return e, nil
}
