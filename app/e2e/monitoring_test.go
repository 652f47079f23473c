// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/knadh/koanf/parsers/yaml"
)

const (
	alertsFile    = "../../deploy/prometheus/alerts.yaml"
	dashboardFile = "../../deploy/grafana/tenantry.json"
	runbooks      = "../../docs/runbooks"
	runbookURL    = "https://github.com/tenantry/tenantry/blob/main/docs/runbooks/"
)

// fileText is the content of a file of this repository.
func fileText(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// rules are the rules of Prometheus, of all groups.
func rules(t *testing.T) (all []object) {
	t.Helper()
	parsed, err := yaml.Parser().Unmarshal([]byte(fileText(t, alertsFile)))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(parsed)
	if err != nil {
		t.Fatal(err)
	}
	var file object
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	for _, group := range file.objects("groups") {
		all = append(all, group.objects("rules")...)
	}
	return all
}

// textAt is a text of a file, or "".
func textAt(o object, path string) string {
	text, _ := o.at(path).(string)
	return text
}

// objectAt is an object within another, or nil.
func objectAt(o object, path string) object {
	inner, _ := o.at(path).(map[string]any)
	return inner
}

func dashboard(t *testing.T) (d object) {
	t.Helper()
	if err := json.Unmarshal([]byte(fileText(t, dashboardFile)), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

var (
	alertLabel  = regexp.MustCompile(`\$labels\.(\w+)`)
	legendLabel = regexp.MustCompile(`\{\{ ?(\w+) ?\}\}`)
	linkLabel   = regexp.MustCompile(`__field\.labels\.(\w+)`)
	labelValues = regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
	promQL      = regexp.MustCompile("(?m)^- PromQL: (.*)$")
	codeSpan    = regexp.MustCompile("`([^`]+)`")
	panelNamed  = regexp.MustCompile(`\*\*([^*]+)\*\*`)
)

func matches(pattern *regexp.Regexp, text string) (found []string) {
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	return found
}

// eventful is a server at which everything happened once that makes a metric,
// and what it then exports.
func eventful(t *testing.T) scraped {
	t.Helper()
	r := newRig(t, binary(t, release))
	r.settings["credential_expires"] = "2099-01-31"
	_, h := inUse(t, r, limitsOn)
	h.synced()
	replaced(t, r.settings["client_secret_file"], nil)
	h.synced()
	for range 31 { // one too many
		h.do("GET", h.ready.APIURL+h.domain("unknown.example", "/dkim-status"), h.key, nil)
	}
	s := scrape(h.do("GET", h.ready.AdminURL+"/metrics", "", nil).raw)
	for name, labels := range lagSeries {
		s[name] = map[string][]string{"job": nil, "instance": nil}
		for _, label := range labels {
			s[name][label] = nil
		}
	}
	return s
}

// lagSeries are what a block adds to the metrics. Here nobody is blocked, which
// would take a sweep's minute; TestEnforcement sees that they are exported.
var lagSeries = map[string][]string{"tenantry_enforcement_lag_seconds_bucket": {"le"}, "tenantry_enforcement_lag_seconds_count": nil}

// TestQueriesNameWhatIsExported: a running service exports every metric and
// every label that alerts, dashboard and runbooks name.
func TestQueriesNameWhatIsExported(t *testing.T) {
	t.Parallel()
	s, checked := eventful(t), 0
	check := func(where, expression string, shown ...string) {
		checked++
		for _, wrong := range s.objections(expression, shown...) {
			t.Errorf("%s: %s\n%s", where, wrong, expression)
		}
	}
	for _, rule := range rules(t) {
		check(textAt(rule, "alert")+textAt(rule, "record"), textAt(rule, "expr"),
			matches(alertLabel, textAt(rule, "annotations.summary")+textAt(rule, "annotations.description"))...)
		if name := textAt(rule, "record"); name != "" {
			s.record(name, textAt(rule, "expr"))
		}
	}
	d := dashboard(t)
	for _, panel := range d.objects("panels") {
		raw, err := json.Marshal(panel["fieldConfig"])
		if err != nil {
			t.Fatal(err)
		}
		for _, target := range panel.objects("targets") {
			check(textAt(panel, "title"), textAt(target, "expr"), append(matches(legendLabel, textAt(target, "legendFormat")), matches(linkLabel, string(raw))...)...)
		}
	}
	for _, variable := range objectAt(d, "templating").objects("list") {
		if asked := labelValues.FindStringSubmatch(textAt(variable, "definition")); asked != nil {
			check(textAt(variable, "name"), asked[1], asked[2])
		} else if textAt(variable, "type") == "query" {
			t.Errorf("%s asks %q", textAt(variable, "name"), textAt(variable, "definition"))
		}
	}
	for _, annotation := range objectAt(d, "annotations").objects("list") {
		check(textAt(annotation, "name"), textAt(annotation, "expr"))
	}
	for path, page := range runbookPages(t) {
		for _, line := range matches(promQL, page) {
			for _, expression := range matches(codeSpan, line) {
				check(path, expression)
			}
		}
	}
	const least = 24 + 57 + 2 + 1 + 24 // rules, panels, variables, annotation, runbooks
	if checked < least {
		t.Errorf("only %d queries were found", checked)
	}
}

// runbookPages are the pages of alerts by their file's name.
func runbookPages(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(runbooks + "/*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]string{}
	for _, file := range files {
		if name := filepath.Base(file); name != "README.md" {
			pages[name] = fileText(t, file)
		}
	}
	return pages
}

// TestAlertsHaveRunbooks: an alert has a page and a page an alert; the page
// names panels that the dashboard has and leads to everything it promises.
func TestAlertsHaveRunbooks(t *testing.T) {
	t.Parallel()
	pages, index, tests := runbookPages(t), fileText(t, runbooks+"/README.md"), fileText(t, strings.Replace(alertsFile, ".yaml", "_test.yaml", 1))
	panels := map[string]bool{}
	for _, panel := range dashboard(t).objects("panels") {
		panels[textAt(panel, "title")] = textAt(panel, "type") != "row"
	}
	alerts := map[string]bool{}
	for _, rule := range rules(t) {
		name := textAt(rule, "alert")
		if name == "" {
			continue
		}
		url, ours := strings.CutPrefix(textAt(rule, "annotations.runbook_url"), runbookURL)
		alerts[url] = true
		page := pages[url]
		if !ours || !strings.HasPrefix(page, "<!-- SPDX-License-Identifier: Apache-2.0 -->\n# "+name+"\n") {
			t.Errorf("%s: %s is not its page", name, url)
		}
		severity := textAt(rule, "labels.severity")
		if !strings.Contains(index, "| ["+name+"]("+url+") | "+severity+" |") {
			t.Errorf("%s is not in the index", name)
		}
		if severity != "critical" && severity != "warning" || textAt(rule, "for") == "" || textAt(rule, "annotations.summary") == "" || textAt(rule, "annotations.description") == "" {
			t.Errorf("%s is not complete: %v", name, rule)
		}
		if !strings.Contains(tests, `alertname="`+name+`"`) {
			t.Errorf("no test of promtool has %s fire", name)
		}
	}
	for file, page := range pages {
		if !alerts[file] {
			t.Errorf("%s: no alert leads here", file)
		}
		for _, heading := range []string{"Who is affected", "How to see it", "What to do", "When it is over"} {
			if !strings.Contains(page, "\n## "+heading+"\n") {
				t.Errorf("%s lacks %q", file, heading)
			}
		}
		named := matches(panelNamed, page)
		if len(named) == 0 {
			t.Errorf("%s names no panel", file)
		}
		for _, title := range named {
			if !panels[title] {
				t.Errorf("%s: the dashboard has no panel %q", file, title)
			}
		}
	}
	for _, file := range matches(regexp.MustCompile(regexp.QuoteMeta(runbookURL)+`([^"#?]+)`), fileText(t, dashboardFile)) {
		if _, err := os.Stat(filepath.Join(runbooks, file)); err != nil {
			t.Errorf("the dashboard leads to %s, which does not exist", file)
		}
	}
}
