package generator_test

import (
	"fmt"
	"path"
	"strings"
	"testing"

	"muster/generator/ledger"
	"muster/generator/verification"
	"muster/gitops/branch"
)

// takenLog is a log in which a person takes a dispatch away that was ordered just before.
type takenLog struct {
	anyLog
	own, id string // own is muster's directory
	// text is the order, and list what names it; without does not.
	text, list, without string
	message             string // a repair's
}

func takenAway(t *testing.T) takenLog {
	t.Helper()
	l := plainLog(t)
	order, before := l.order(t)
	before.commits = append([]branch.Commit{order}, before.commits...)
	e, err := ledger.Parse(order.Message)
	if err != nil {
		t.Fatal(err)
	}
	x := takenLog{own: path.Join(e.Overlay, "dispatches"), id: e.Dispatches[0]}
	files := l.trees[order.ID].files
	file, list := x.own+"/"+x.id+".yaml", x.own+"/kustomization.yaml"
	if x.text, x.list = string(files[file]), string(files[list]); x.text == "" || !strings.Contains(x.list, x.id) {
		t.Fatalf("the order has %q and the list %q", x.text, x.list)
	}
	x.without = strings.Replace(x.list, "- "+x.id+".yaml\n", "", 1)
	if !strings.Contains(x.without, "- ") {
		x.without = strings.Replace(x.without, "resources:\n", "resources: []\n", 1)
	}
	x.message = fmt.Sprintf("%s: repair dispatches/\n\nOverlay: %s\nOperation: repair\n%s", path.Base(e.Overlay), e.Overlay, order.Message[strings.Index(order.Message, "Observation: "):])
	x.anyLog = before.then(branch.Commit{Message: "Less\n", At: order.At}, branch.Change{Path: file}, branch.Change{Path: list, Content: []byte(x.without)})
	return x
}

// repaired is what is found of a repair that writes files; nothing: it deletes one.
func (x takenLog) repaired(t *testing.T, files map[string]string) (last verification.Finding, count verification.Count) {
	t.Helper()
	var changes []branch.Change
	for file, content := range files {
		change := branch.Change{Path: file}
		if content != "" {
			change.Content = []byte(content)
		}
		changes = append(changes, change)
	}
	log := x.then(branch.Commit{Message: x.message, At: x.commits[0].At}, changes...)
	log.each(t, nil, &count, func(f verification.Finding) {
		if f.Commit == log.commits[0].ID {
			last = f
		}
	})
	return last, count
}

// TestForgedRepair: a repair writes what was ordered, and leaves a directory as muster
// leaves it. What a person did before it is not looked at.
func TestForgedRepair(t *testing.T) {
	t.Parallel()
	x := takenAway(t)
	id, text, list, without := x.id, x.text, x.list, x.without
	mine := id + "0" // in the list it stands where the other does
	inPlace, withdrawn, named := x.own+"/"+id+".yaml", x.own+"/withdrawn/"+id+".yaml", x.own+"/kustomization.yaml"
	more := strings.ReplaceAll(strings.ReplaceAll(text, "completions: ", "completions: 1"), "parallelism: ", "parallelism: 1")
	if more == text {
		t.Fatal("the order has no number of agents")
	}
	for name, c := range map[string]struct {
		changes map[string]string // nothing: the file is deleted
		want    verification.Verdict
		why     string
	}{
		"put back as it was":          {map[string]string{inPlace: text, named: list}, verification.Repair, ""},
		"withdrawn as it was":         {map[string]string{inPlace: "", withdrawn: text, named: without}, verification.Repair, ""},
		"put back with more agents":   {map[string]string{inPlace: more, named: list}, verification.Forged, "it writes " + id + " otherwise than commit"},
		"withdrawn with more, forged": {map[string]string{inPlace: "", withdrawn: more, named: without}, verification.Forged, "it writes " + id + " otherwise than commit"},
		"what nobody ordered": {map[string]string{x.own + "/" + mine + ".yaml": strings.ReplaceAll(text, id, mine),
			named: strings.Replace(list, id, mine, 1)}, verification.Forged, "it writes " + mine + ", which no commit before it has ordered"},
		"a list with patches": {map[string]string{inPlace: text, named: list + "patches: []\n"}, verification.Forged, "it leaves kustomization.yaml as muster does not"},
		"a list without it":   {map[string]string{inPlace: text, named: without}, verification.Forged, "it leaves kustomization.yaml as muster does not: it did not name " + id},
		"the circuit breaker": {map[string]string{x.own + "/state.yaml": "a: 1\n"}, verification.Forged, "which a repair only deletes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			last, count := x.repaired(t, c.changes)
			failed := 0
			if c.want == verification.Forged {
				failed = 1
			}
			if last.Verdict != c.want || !strings.Contains(strings.Join(last.Why, "; "), c.why) || count.Failed != failed || count.Verdicts[verification.Repair] != 1-failed {
				t.Errorf("got %s, %q, %+v; want %s, %q", last.Verdict, last.Why, count, c.want, c.why)
			}
		})
	}
}
