// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/knadh/koanf/parsers/yaml"

	"github.com/tenantry/tenantry/core/outcome"
)

const (
	alertsFile    = "../../deploy/prometheus/alerts.yaml"
	dashboardFile = "../../deploy/grafana/tenantry.json"
	runbookFolder = "../../docs/runbooks"
	runbookURL    = "https://github.com/tenantry/tenantry/blob/main/docs/runbooks/"
)

func prometheusRules(t *testing.T) (rules []object) {
	t.Helper()
	parsed, err := yaml.Parser().Unmarshal([]byte(fileText(t, alertsFile)))
	must(t, err)
	raw, err := json.Marshal(parsed)
	must(t, err)
	var file object
	must(t, json.Unmarshal(raw, &file))
	for _, group := range file.objects("groups") {
		rules = append(rules, group.objects("rules")...)
	}
	return rules
}

// textAt returns the string at a path in nested objects, or "".
func textAt(o object, path string) string {
	text, _ := o.valueAt(path).(string)
	return text
}

// objectAt returns the object at a path in nested objects, or nil.
func objectAt(o object, path string) object {
	inner, _ := o.valueAt(path).(map[string]any)
	return inner
}

func dashboard(t *testing.T) (d object) {
	t.Helper()
	must(t, json.Unmarshal([]byte(fileText(t, dashboardFile)), &d))
	return d
}

var (
	alertLabel  = regexp.MustCompile(`\$labels\.(\w+)`)
	legendLabel = regexp.MustCompile(`\{\{ ?(\w+) ?\}\}`)
	linkLabel   = regexp.MustCompile(`__field\.labels\.(\w+)`)
	labelValues = regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
	promQL      = regexp.MustCompile(`(?m)^- PromQL: (.*(?:\n  \S.*)*)$`) // an item can have several lines
	codeSpan    = regexp.MustCompile("`([^`]+)`")
	jqCommand   = regexp.MustCompile(`(?m)^ *(jq .*)$`)
	boldTitle   = regexp.MustCompile(`\*\*([^*]+)\*\*`)
)

// submatches returns the first group of each match of a pattern.
func submatches(pattern *regexp.Regexp, text string) (found []string) {
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	return found
}

// metricsOfBusyService returns the metrics of a service after requests, platform calls and refusals
// have created them. It adds metricsOfOtherTests, because nothing in this test creates these
// metrics.
func metricsOfBusyService(t *testing.T) exposedMetrics {
	t.Helper()
	fixture := newServiceFixture(t, requirePrograms(t, releaseBuild))
	fixture.settings["credential_expires"] = "2099-01-31"
	_, tenant := newConnectedService(t, fixture, limitsOn)
	tenant.mustSync()
	for range 13 { // one more than the bucket provider_heavy_writes allows in 10 minutes
		tenant.do("POST", tenant.ready.APIURL+"/v1/integrations", tenant.key, object{"provider": 1})
	}
	metrics := parseMetrics(tenant.do("GET", tenant.ready.AdminURL+"/metrics", "", nil).raw)
	for name, labels := range metricsOfOtherTests {
		metrics[name] = map[string][]string{"job": nil, "instance": nil}
		for _, label := range labels {
			metrics[name][label] = nil
		}
	}
	return metrics
}

// metricsOfOtherTests are the metrics that first appear with a blocked mailbox or a message to a
// webhook, and their labels. TestMailboxOverItsLimitIsBlocked and TestWebhookMetricsAreExported
// check that they are exported.
var metricsOfOtherTests = map[string][]string{
	"tenantry_enforcement_lag_seconds_bucket": {"le"}, "tenantry_enforcement_lag_seconds_count": nil,
	"tenantry_webhook_lag_seconds_bucket": {"le"}, "tenantry_webhook_attempts_total": {"result"},
}

// TestQueriesNameExportedMetrics checks that a running service exports every metric and label that
// alerts, dashboard and runbooks use. Other tests check that metricsOfOtherTests are exported.
func TestQueriesNameExportedMetrics(t *testing.T) {
	t.Parallel()
	exported, queryCount := metricsOfBusyService(t), 0
	checkQuery := func(where, expression string, shown ...string) {
		queryCount++
		for _, wrong := range exported.unknownNames(expression, shown...) {
			t.Errorf("the query of %s has a wrong name: %s\n%s", where, wrong, expression)
		}
	}
	for _, rule := range prometheusRules(t) {
		checkQuery(textAt(rule, "alert")+textAt(rule, "record"), textAt(rule, "expr"),
			submatches(alertLabel, textAt(rule, "annotations.summary")+textAt(rule, "annotations.description"))...)
		if name := textAt(rule, "record"); name != "" {
			exported.addRecordingRule(name, textAt(rule, "expr"))
		}
	}
	board := dashboard(t)
	for _, panel := range board.objects("panels") {
		raw, err := json.Marshal(panel["fieldConfig"])
		must(t, err)
		for _, target := range panel.objects("targets") {
			checkQuery(textAt(panel, "title"), textAt(target, "expr"), append(submatches(legendLabel, textAt(target, "legendFormat")), submatches(linkLabel, string(raw))...)...)
		}
	}
	for _, variable := range objectAt(board, "templating").objects("list") {
		if match := labelValues.FindStringSubmatch(textAt(variable, "definition")); match != nil {
			checkQuery(textAt(variable, "name"), match[1], match[2])
		} else if textAt(variable, "type") == "query" {
			t.Errorf("the dashboard variable %s has the unsupported query %q", textAt(variable, "name"), textAt(variable, "definition"))
		}
	}
	for _, annotation := range objectAt(board, "annotations").objects("list") {
		checkQuery(textAt(annotation, "name"), textAt(annotation, "expr"))
	}
	for path, page := range runbookPages(t) {
		for _, item := range submatches(promQL, page) {
			if strings.Count(item, "`")%2 != 0 {
				t.Errorf("%s: a code span is not closed: %s", path, item)
			}
			for _, expression := range submatches(codeSpan, item) {
				checkQuery(path, expression)
			}
		}
	}
	if queryCount < 120 {
		t.Errorf("only %d queries were found, want at least 120", queryCount)
	}
}

// runbookPages returns the text of each runbook by file name.
func runbookPages(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(runbookFolder + "/*.md")
	must(t, err)
	pages := map[string]string{}
	for _, file := range files {
		if name := filepath.Base(file); name != "README.md" {
			pages[name] = fileText(t, file)
		}
	}
	return pages
}

// TestAlertsHaveRunbooks checks that each alert is complete, has a promtool test, and has a runbook
// page that the index lists. Each page belongs to an alert and has all headings. The jq commands of
// a page skip lines that are not JSON. The dashboard has every panel that a page names, and every
// runbook linked from the dashboard exists.
func TestAlertsHaveRunbooks(t *testing.T) {
	t.Parallel()
	pages, index, promtoolTests := runbookPages(t), fileText(t, runbookFolder+"/README.md"), fileText(t, strings.Replace(alertsFile, ".yaml", "_test.yaml", 1))
	panels := map[string]bool{}
	for _, panel := range dashboard(t).objects("panels") {
		panels[textAt(panel, "title")] = textAt(panel, "type") != "row"
	}
	pagesOfAlerts := map[string]bool{}
	for _, rule := range prometheusRules(t) {
		name := textAt(rule, "alert")
		if name == "" {
			continue
		}
		file, hasRunbook := strings.CutPrefix(textAt(rule, "annotations.runbook_url"), runbookURL)
		pagesOfAlerts[file] = true
		page := pages[file]
		if !hasRunbook || !strings.HasPrefix(page, "<!-- SPDX-License-Identifier: Apache-2.0 -->\n# "+name+"\n") {
			t.Errorf("alert %s: the runbook page %q does not exist or has a different title", name, file)
		}
		severity := textAt(rule, "labels.severity")
		if !strings.Contains(index, "| ["+name+"]("+file+") | "+severity+" |") {
			t.Errorf("the index of the runbooks lacks the alert %s with its severity", name)
		}
		if severity != "critical" && severity != "warning" || textAt(rule, "for") == "" || textAt(rule, "annotations.summary") == "" || textAt(rule, "annotations.description") == "" {
			t.Errorf("alert %s lacks a severity, a duration, a summary or a description: %v", name, rule)
		}
		if !strings.Contains(promtoolTests, `alertname="`+name+`"`) {
			t.Errorf("no promtool test covers %s", name)
		}
	}
	for file, page := range pages {
		if !pagesOfAlerts[file] {
			t.Errorf("no alert links to the page %s", file)
		}
		for _, heading := range []string{"Who is affected", "How to see it", "What to do", "When it is over"} {
			if !strings.Contains(page, "\n## "+heading+"\n") {
				t.Errorf("the runbook %s lacks the heading %q", file, heading)
			}
		}
		for _, command := range submatches(jqCommand, page) {
			if !strings.HasPrefix(command, "jq -R 'fromjson? | ") {
				t.Errorf("%s: the command stops at a line that is not JSON: %s", file, command)
			}
		}
		namedPanels := submatches(boldTitle, page)
		if len(namedPanels) == 0 {
			t.Errorf("the runbook %s names no panel", file)
		}
		for _, title := range namedPanels {
			if !panels[title] {
				t.Errorf("%s: the dashboard has no panel %q", file, title)
			}
		}
	}
	for _, file := range submatches(regexp.MustCompile(regexp.QuoteMeta(runbookURL)+`([^"#?]+)`), fileText(t, dashboardFile)) {
		if _, err := os.Stat(filepath.Join(runbookFolder, file)); err != nil {
			t.Errorf("the dashboard leads to %s, which does not exist", file)
		}
	}
}

// exposedMetrics is the output of /metrics: label values, keyed by metric name and label name.
type exposedMetrics map[string]map[string][]string

var (
	sampleLine = regexp.MustCompile(`(?m)^([a-zA-Z_:]\w*)(?:\{(.*)\})? \S+$`)
	labelPair  = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
)

// parseMetrics parses the output of /metrics and adds the metrics and labels that Prometheus
// creates.
func parseMetrics(metrics []byte) exposedMetrics {
	found := exposedMetrics{"up": {}, "ALERTS": {"alertname": nil, "alertstate": nil}}
	for _, line := range sampleLine.FindAllSubmatch(metrics, -1) {
		name := string(line[1])
		if found[name] == nil {
			found[name] = map[string][]string{}
		}
		for _, pair := range labelPair.FindAllSubmatch(line[2], -1) {
			label := string(pair[1])
			found[name][label] = append(found[name][label], string(pair[2]))
		}
	}
	for _, labels := range found {
		labels["job"], labels["instance"] = nil, nil
	}
	return found
}

// counterValues returns the sums of a counter at /metrics, keyed by the value of a label.
func (c client) counterValues(metric, label string) map[string]int {
	c.t.Helper()
	values := map[string]int{}
	sample := regexp.MustCompile(`(?m)^` + metric + `\{(?:.*,)?` + label + `="([^"]*)".*\} (\d+)$`)
	for _, found := range sample.FindAllSubmatch(c.do("GET", c.ready.AdminURL+"/metrics", "", nil).raw, -1) {
		n, err := strconv.Atoi(string(found[2]))
		must(c.t, err)
		values[string(found[1])] += n
	}
	return values
}

// knownValues returns all values that a label of a metric can have, or nil if the test does not
// know them. It knows the values of outcome. It also knows the values of state and domain, because
// /metrics always shows all of them.
func (metrics exposedMetrics) knownValues(metric, label string) []string {
	switch {
	case label == "outcome":
		values := []string{"failed", "cancelled"}
		for kind := range outcome.Unknown + 1 {
			values = append(values, kind.String())
		}
		return values
	case (label == "state" || label == "domain") && metrics[metric] != nil:
		return metrics[metric][label]
	}
	return nil
}

var (
	queryToken = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\[[^\]]*\]|[a-zA-Z_:][\w:]*|\d[\w.]*|[=!~<>]+|\S`)
	identifier = regexp.MustCompile(`^[a-zA-Z_:]`)
	grouping   = strings.Fields("by without on ignoring group_left group_right")
	operators  = strings.Fields("and or unless offset bool sum min max avg count topk bottomk")
)

// promQuery has the names in a PromQL expression.
type promQuery struct {
	metrics  []string
	grouped  []string // labels in grouping clauses
	matchers []labelMatcher
}

// labelMatcher is a condition such as metric{label="value"}. value can have alternatives, separated
// by "|".
type labelMatcher struct{ metric, label, value string }

// parsePromQuery finds the names in an expression. It parses only as much PromQL as that needs.
func parsePromQuery(expression string) promQuery {
	var query promQuery
	tokens := append(queryToken.FindAllString(expression, -1), "")
	for i := 0; i < len(tokens)-1; i++ {
		token, next := tokens[i], tokens[i+1]
		switch {
		case !identifier.MatchString(token), slices.Contains(operators, token):
		case slices.Contains(grouping, token):
			for i++; i < len(tokens)-1 && tokens[i] != ")"; i++ {
				if identifier.MatchString(tokens[i]) {
					query.grouped = append(query.grouped, tokens[i])
				}
			}
		case next == "(": // a function
		case next == "{":
			query.metrics = append(query.metrics, token)
			for i += 2; i+2 < len(tokens) && tokens[i] != "}"; i++ {
				if identifier.MatchString(tokens[i]) {
					query.matchers = append(query.matchers, labelMatcher{token, tokens[i], strings.Trim(tokens[i+2], `"`)})
					i += 2
				}
			}
		default:
			query.metrics = append(query.metrics, token)
		}
	}
	return query
}

// unknownNames describes the names in an expression that are not exported. shown are the labels
// that an annotation, a legend or a link shows for the result of the expression.
func (metrics exposedMetrics) unknownNames(expression string, shown ...string) (wrong []string) {
	query, labels := parsePromQuery(expression), map[string]bool{}
	for _, metric := range query.metrics {
		if metrics[metric] == nil {
			wrong = append(wrong, "no metric "+metric)
		}
		for label := range metrics[metric] {
			labels[label] = true
		}
	}
	if len(query.metrics) == 0 {
		wrong = append(wrong, "no metric at all")
	}
	for _, m := range query.matchers {
		if _, ok := metrics[m.metric][m.label]; !ok {
			wrong = append(wrong, m.metric+" has no label "+m.label)
		}
		if known := metrics.knownValues(m.metric, m.label); known != nil {
			for value := range strings.SplitSeq(m.value, "|") {
				if !slices.Contains(known, value) {
					wrong = append(wrong, m.metric+" has no "+m.label+" "+value)
				}
			}
		}
	}
	for _, label := range append(query.grouped, shown...) {
		if !labels[label] && label != "le" {
			wrong = append(wrong, "none of "+strings.Join(query.metrics, ", ")+" has a label "+label)
		}
	}
	return wrong
}

func (metrics exposedMetrics) addRecordingRule(name, expression string) {
	metrics[name] = map[string][]string{}
	for _, metric := range parsePromQuery(expression).metrics {
		maps.Copy(metrics[name], metrics[metric])
	}
}

// TestWrongQueryNamesAreNoticed checks that wrong names in different parts of a query are found.
func TestWrongQueryNamesAreNoticed(t *testing.T) {
	t.Parallel()
	exported := parseMetrics([]byte("# HELP calls_total x\n" + `calls_total{outcome="done",provider="p"} 1` + "\n" +
		`circuits{domain="login",state="open"} 0` + "\n" + `took_bucket{le="+Inf",route="/a}b"} 3` + "\nplain 1e+09\n"))
	exported.addRecordingRule("kept:calls", `increase(calls_total[5m])`)
	for _, correctQuery := range []string{
		`calls_total`, `sum by (provider) (rate(calls_total{outcome=~"done|down",job="x"}[$__rate_interval])) / 5 > 0.1`, `plain - time() < 30 * 86400`,
		`histogram_quantile(0.95, sum by (le, route) (rate(took_bucket{instance=~"$instance"}[5m])))`, `calls_total unless calls_total offset 5m`,
		`up{job=~"x"} == 0 or absent(up{job=~"x"})`, `max by (job) (plain) and on (job) circuits{state="open"}`, `kept:calls{provider="p"}`,
	} {
		if wrong := exported.unknownNames(correctQuery, "job"); len(wrong) > 0 {
			t.Errorf("%s: the wrong names are %v, want none", correctQuery, wrong)
		}
	}
	for _, wrongQuery := range []string{
		`call_total`, `rate(calls[5m])`, `sum by (operation) (calls_total)`, `calls_total{operation="x"}`, `calls_total{outcome="dwon"}`, `5 + 5`,
		`calls_total and on (operation) calls_total`, `circuits{state=~"open|ajar"}`, `kept:calls{route="x"}`, `kept:call`, `plain unless plan offset 5m`,
	} {
		if wrong := exported.unknownNames(wrongQuery); len(wrong) != 1 {
			t.Errorf("%s: the wrong names are %v, want one", wrongQuery, wrong)
		}
	}
	if wrong := exported.unknownNames("plain", "provider"); len(wrong) != 1 {
		t.Errorf("for a shown label that is not exported the wrong names are %v, want one", wrong)
	}
}
