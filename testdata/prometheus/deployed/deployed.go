// Package deployed reads what deploy/ has for Prometheus and Grafana.
package deployed

import (
	"encoding/json"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"muster/deploy"
)

// Alert is an alerting rule.
type Alert struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

// Group is a group of them.
type Group struct {
	Name  string
	Rules []Alert
}

// Rules returns the groups of the PrometheusRule, and the same as a file of rules
// for Prometheus itself.
func Rules() ([]Group, []byte, error) {
	text, err := deploy.Files.ReadFile("components/alerts/prometheusrule.yaml")
	if err != nil {
		return nil, nil, err
	}
	var raw struct{ Spec map[string]any }
	var typed struct{ Spec struct{ Groups []Group } }
	if err := yaml.Unmarshal(text, &raw); err != nil {
		return nil, nil, err
	}
	if err := yaml.Unmarshal(text, &typed); err != nil {
		return nil, nil, err
	}
	file, err := yaml.Marshal(raw.Spec)
	return typed.Spec.Groups, file, err
}

// Query is one of the dashboard.
type Query struct{ Panel, Expr string }

// panel is a panel of the dashboard, or a row of them.
type panel struct {
	Title   string
	Targets []struct{ Expr string }
	Panels  []panel
}

// Queries returns all of the dashboard, as Grafana asks them with its variables at "All". Those of
// the variables and of the annotations are among them.
func Queries() ([]Query, error) {
	text, err := deploy.Files.ReadFile("components/dashboard/muster.json")
	if err != nil {
		return nil, err
	}
	var dashboard struct {
		Templating struct {
			List []struct{ Name, Type, Query string }
		}
		Annotations struct {
			List []struct{ Name, Expr string }
		}
		Panels []panel
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		return nil, err
	}
	var all []Query
	asked := func(text string) string {
		return strings.NewReplacer("$__rate_interval", "2m", "$namespace", ".*", "$queue", ".*", "$overlay", ".*").Replace(text)
	}
	for _, v := range dashboard.Templating.List {
		if v.Type != "query" {
			continue
		}
		inner, ok := strings.CutPrefix(v.Query, "label_values(")
		selector, label, ok2 := cutLast(strings.TrimSuffix(inner, ")"), ", ")
		if !ok || !ok2 {
			return nil, fmt.Errorf("the variable %s is of %q", v.Name, v.Query)
		}
		all = append(all, Query{"variable " + v.Name, fmt.Sprintf("count by (%s) (%s)", label, asked(selector))})
	}
	for _, a := range dashboard.Annotations.List {
		all = append(all, Query{"annotation " + a.Name, asked(a.Expr)})
	}
	var add func(panels []panel)
	add = func(panels []panel) {
		for _, p := range panels {
			for _, t := range p.Targets {
				all = append(all, Query{p.Title, asked(t.Expr)})
			}
			add(p.Panels)
		}
	}
	add(dashboard.Panels)
	return all, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
