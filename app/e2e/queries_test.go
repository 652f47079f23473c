// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/core/outcome"
)

// scraped is what /metrics shows: the values of labels by the name of the
// metric and of the label.
type scraped map[string]map[string][]string

var (
	sampleLine = regexp.MustCompile(`(?m)^([a-zA-Z_:]\w*)(?:\{(.*)\})? \S+$`)
	labelPair  = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
)

// scrape reads an exposition and adds what Prometheus makes by itself.
func scrape(metrics []byte) scraped {
	found := scraped{"up": {}, "ALERTS": {"alertname": nil, "alertstate": nil}}
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

// enumerated are labels of which all values are known: those that a metric
// always shows, and outcomes.
func (s scraped) enumerated(metric, label string) []string {
	switch {
	case label == "outcome":
		all := []string{"failed", "cancelled"}
		for kind := range outcome.Unknown + 1 {
			all = append(all, kind.String())
		}
		return all
	case (label == "state" || label == "domain") && s[metric] != nil:
		return s[metric][label]
	}
	return nil
}

var (
	queryToken = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\[[^\]]*\]|[a-zA-Z_:][\w:]*|\d[\w.]*|[=!~<>]+|\S`)
	identifier = regexp.MustCompile(`^[a-zA-Z_:]`)
	grouping   = strings.Fields("by without on ignoring group_left group_right")
	operators  = strings.Fields("and or unless offset bool sum min max avg count topk bottomk")
)

// promQuery is what a PromQL expression names.
type promQuery struct {
	metrics  []string
	grouped  []string   // labels that it groups by
	matchers [][]string // metric, label and value
}

// read finds the names of an expression. It knows as much of PromQL as that takes.
func read(expression string) promQuery {
	var q promQuery
	tokens := append(queryToken.FindAllString(expression, -1), "")
	for i := 0; i < len(tokens)-1; i++ {
		token, next := tokens[i], tokens[i+1]
		switch {
		case !identifier.MatchString(token), slices.Contains(operators, token):
		case slices.Contains(grouping, token):
			for i++; i < len(tokens)-1 && tokens[i] != ")"; i++ {
				if identifier.MatchString(tokens[i]) {
					q.grouped = append(q.grouped, tokens[i])
				}
			}
		case next == "(": // a function
		case next == "{":
			q.metrics = append(q.metrics, token)
			for i += 2; i+2 < len(tokens) && tokens[i] != "}"; i++ {
				if identifier.MatchString(tokens[i]) {
					q.matchers = append(q.matchers, []string{token, tokens[i], strings.Trim(tokens[i+2], `"`)})
					i += 2
				}
			}
		default:
			q.metrics = append(q.metrics, token)
		}
	}
	return q
}

// objections says what an expression, and a text about its result that shows
// these labels, name that is not exported.
func (s scraped) objections(expression string, shown ...string) (wrong []string) {
	q, labels := read(expression), map[string]bool{}
	for _, metric := range q.metrics {
		if s[metric] == nil {
			wrong = append(wrong, "no metric "+metric)
		}
		for label := range s[metric] {
			labels[label] = true
		}
	}
	if len(q.metrics) == 0 {
		wrong = append(wrong, "no metric at all")
	}
	for _, m := range q.matchers {
		if _, ok := s[m[0]][m[1]]; !ok {
			wrong = append(wrong, m[0]+" has no label "+m[1])
		}
		if all := s.enumerated(m[0], m[1]); all != nil {
			for value := range strings.SplitSeq(m[2], "|") {
				if !slices.Contains(all, value) {
					wrong = append(wrong, m[0]+" has no "+m[1]+" "+value)
				}
			}
		}
	}
	for _, label := range append(q.grouped, shown...) {
		if !labels[label] && label != "le" {
			wrong = append(wrong, "none of "+strings.Join(q.metrics, ", ")+" has a label "+label)
		}
	}
	return wrong
}

// record adds what a recording rule makes.
func (s scraped) record(name, expression string) {
	s[name] = map[string][]string{}
	for _, metric := range read(expression).metrics {
		maps.Copy(s[name], s[metric])
	}
}

// TestObjections: a wrong name is noticed wherever it stands.
func TestObjections(t *testing.T) {
	t.Parallel()
	s := scrape([]byte("# HELP calls_total x\n" + `calls_total{outcome="done",provider="p"} 1` + "\n" +
		`circuits{domain="login",state="open"} 0` + "\n" + `took_bucket{le="+Inf",route="/a}b"} 3` + "\nplain 1e+09\n"))
	s.record("kept:calls", `increase(calls_total[5m])`)
	for _, good := range []string{
		`calls_total`, `sum by (provider) (rate(calls_total{outcome=~"done|down",job="x"}[$__rate_interval])) / 5 > 0.1`, `plain - time() < 30 * 86400`,
		`histogram_quantile(0.95, sum by (le, route) (rate(took_bucket{instance=~"$instance"}[5m])))`, `calls_total unless calls_total offset 5m`,
		`up{job=~"x"} == 0 or absent(up{job=~"x"})`, `max by (job) (plain) and on (job) circuits{state="open"}`, `kept:calls{provider="p"}`,
	} {
		if wrong := s.objections(good, "job"); len(wrong) > 0 {
			t.Errorf("%s: %v", good, wrong)
		}
	}
	for _, bad := range []string{
		`call_total`, `rate(calls[5m])`, `sum by (operation) (calls_total)`, `calls_total{operation="x"}`, `calls_total{outcome="dwon"}`, `5 + 5`,
		`calls_total and on (operation) calls_total`, `circuits{state=~"open|ajar"}`, `kept:calls{route="x"}`, `kept:call`, `plain unless plan offset 5m`,
	} {
		if wrong := s.objections(bad); len(wrong) != 1 {
			t.Errorf("%s: %v", bad, wrong)
		}
	}
	if wrong := s.objections("plain", "provider"); len(wrong) != 1 {
		t.Errorf("a shown label: %v", wrong)
	}
}
