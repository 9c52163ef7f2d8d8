package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/daybookq/daybook/internal/testkit"
)

// These tests compare deploy/prometheus and deploy/grafana with the metrics of a real server.

const deployed = "../../deploy"

// served returns the labels of each metric that a server with a job has, by the name that queries use.
func served(t *testing.T) map[string][]string {
	t.Helper()
	s := serving(t, filepath.Join(t.TempDir(), "data"))
	s.post(t, "/jobs/create", `{"payload":"x"}`)
	s.post(t, "/jobs/claim", `{"runner_id":"r"}`) // by now the create is applied
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families := testkit.Must(parser.TextToMetricFamilies(strings.NewReader(get(t, s.url+"/metrics"))))(t)
	labels := map[string][]string{"up": nil}
	for name, f := range families {
		of := []string{}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				of = append(of, l.GetName())
			}
		}
		slices.Sort(of)
		of = slices.Compact(of)
		kind := f.GetType().String()
		if kind != "HISTOGRAM" {
			labels[name] = of
		}
		if kind == "SUMMARY" {
			labels[name] = append(of, "quantile")
		}
		if kind == "HISTOGRAM" || kind == "SUMMARY" {
			labels[name+"_sum"], labels[name+"_count"] = of, of
		}
		if kind == "HISTOGRAM" {
			labels[name+"_bucket"] = append(slices.Clone(of), "le")
		}
	}
	return labels
}

var (
	// A selector is the name of a metric, and perhaps its matchers.
	selector = regexp.MustCompile(`\b((?:daybook|process|go)_[a-z0-9_]+|up)\b(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
	grouping = regexp.MustCompile(`\b(?:by|on) \(([^)]*)\)`)
)

// checkQuery checks that the metrics of a query exist and have the labels that it names.
func checkQuery(t *testing.T, labels map[string][]string, where, query string) {
	t.Helper()
	var all []string
	found := selector.FindAllStringSubmatch(query, -1)
	for _, m := range found {
		of, known := labels[m[1]]
		testkit.Holds(t, known, where, "no server has the metric", m[1], query)
		of = append(slices.Clone(of), "job", "instance") // Prometheus adds these
		all = append(all, of...)
		for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
			testkit.Holds(t, slices.Contains(of, l[1]), where, m[1], "has no label", l[1], query)
		}
	}
	testkit.Holds(t, len(found) != 0, where, "a query without a metric", query)
	for _, g := range grouping.FindAllStringSubmatch(query, -1) {
		for l := range strings.SplitSeq(g[1], ",") {
			l = strings.TrimSpace(l)
			testkit.Holds(t, slices.Contains(all, l), where, "none of its metrics has the label", l, query)
		}
	}
}

// TestDeployedQueries: a server has each metric and label in the rules of Prometheus and the dashboard of Grafana.
func TestDeployedQueries(t *testing.T) {
	labels := served(t)
	rules := read(t, filepath.Join(deployed, "prometheus", "daybook.rules.yml"))
	expr := regexp.MustCompile(`(?m)^        expr: (?:\|\n((?:          .*\n)+)|(.*)\n)`)
	queries := expr.FindAllStringSubmatch(rules, -1)
	alerts := strings.Count(rules, "- alert:")
	testkit.MustHold(t, len(queries) == alerts && alerts >= 20, len(queries), "queries of", alerts, "alerts")
	for _, q := range queries {
		checkQuery(t, labels, "daybook.rules.yml", strings.TrimSpace(q[1]+q[2]))
	}
	dashboard := parsed[any](t, read(t, filepath.Join(deployed, "grafana", "daybook.json")))
	n := 0
	var walk func(key string, v any)
	walk = func(key string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, v := range v {
				walk(k, v)
			}
		case []any:
			for _, v := range v {
				walk(key, v)
			}
		case string:
			if values, ok := strings.CutPrefix(v, "label_values("); ok {
				comma := strings.LastIndex(values, ", ")
				v = "max by (" + strings.TrimSuffix(values[comma+2:], ")") + ") (" + values[:comma] + ")"
			} else if key != "expr" {
				return
			}
			n++
			checkQuery(t, labels, "daybook.json", v)
		}
	}
	walk("", dashboard)
	testkit.Holds(t, n >= 40, "the dashboard has only", n, "queries")
}

// TestAlertsAreDescribed: docs/how-to/alerts.md has exactly the alerts of the rules, each with how long its condition
// must hold.
func TestAlertsAreDescribed(t *testing.T) {
	described := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(Daybook[A-Za-z]+)` \\| [^|]+ \\| ([^|]+) \\|").FindAllStringSubmatch(read(t, "../../docs/how-to/alerts.md"), -1) {
		described[m[1]] = m[2]
	}
	tests := read(t, filepath.Join(deployed, "prometheus", "daybook.rules.test.yml"))
	rules := strings.Split(read(t, filepath.Join(deployed, "prometheus", "daybook.rules.yml")), "- alert: ")[1:]
	for _, rule := range rules {
		name, rule, _ := strings.Cut(rule, "\n")
		held, ok := described[name]
		testkit.Holds(t, ok, "docs/how-to/alerts.md does not describe the alert", name)
		delete(described, name)
		want := "at once"
		if m := regexp.MustCompile(`(?m)^ +for: (\d+)([mh])$`).FindStringSubmatch(rule); m != nil {
			want = m[1] + map[string]string{"m": " min", "h": " h"}[m[2]]
		}
		testkit.Holds(t, !ok || held == want,
			"docs/how-to/alerts.md says that", name, "fires when its condition has held for", held, "and the rule", want)
		for _, how := range []string{" fires", " does not fire"} {
			testkit.Contains(t, tests, "name: "+name+how+"\n")
		}
	}
	for name := range described {
		t.Errorf("docs/how-to/alerts.md describes the alert %s, which does not exist", name)
	}
}

// TestAlertRules runs the tests of the rules, and checks the example of a configuration, with promtool, as
// docs/how-to/alerts.md describes.
func TestAlertRules(t *testing.T) {
	const needed = "TESTS_NEED_PROMTOOL" // set where `scripts/tools` has succeeded
	promtool := testkit.Must(filepath.Abs("../../bin/promtool"))(t)
	if _, err := os.Stat(promtool); err != nil {
		if promtool, err = exec.LookPath("promtool"); err != nil {
			testkit.MustEqual(t, os.Getenv(needed), "")
			t.Skipf("no promtool: %v; `scripts/tools` installs it", err)
		}
	}
	for _, args := range [][]string{{"test", "rules", "daybook.rules.test.yml"}, {"check", "rules", "daybook.rules.yml"}, {"check", "config", "prometheus.yml"}} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir, cmd.WaitDelay = filepath.Join(deployed, "prometheus"), 5*time.Second
		out, err := cmd.CombinedOutput()
		testkit.Check(t, err, "promtool", args, out)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text := testkit.Must(os.ReadFile(name))(t)
	return string(text)
}
