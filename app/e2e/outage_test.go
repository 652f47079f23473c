// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/app/doctor"
)

// TestOutageIsFound goes the way of an SRE: the mail platform stops, an alert
// fires, and its labels lead over the dashboard to the log line, the trace and
// the page of what to do; doctor names the platform.
func TestOutageIsFound(t *testing.T) {
	t.Parallel()
	o, r := newReceiver(t), newRig(t, binary(t, release))
	env := r.env(t.TempDir(), testserver.Database(t))
	operate(t, env, "migrate")
	_, key := r.account(env, "owner@example.com", "complete", 0)
	// Without background jobs, so that the first call that fails belongs to a request.
	p, c := r.serve(append(append(env, "TENANTRY_WORKER=false"), o.env()...))
	c.ready.APIKey = key
	guid, admin := r.tenant(c)
	newAdministrator(t, admin).connects(c, key)
	h := holding{caller: caller{c, "", "owner@example.com", key}, guid: guid}
	h.synced()

	counts := []map[string]float64{providerCalls(c)}
	r.stop()
	for range 2 {
		for range 3 {
			unavailable(t, h)
		}
		counts = append(counts, providerCalls(c))
	}
	if got := c.do("GET", c.ready.AdminURL+"/readyz", "", nil); got.status != http.StatusOK {
		t.Errorf("a broken vendor makes the service unready: %d %s", got.status, got.raw)
	}
	if _, checks := examined(t, env); checks["mail_platform"].text("status") != doctor.Failed {
		t.Errorf("doctor: %v", checks["mail_platform"])
	}
	if err := p.stop(); err != nil { // which sends the last spans
		t.Fatal(err)
	}

	line := lineOfFailure(t, p.logs.String())
	firing(t, counts, line.text("provider"), line.text("operation"))
	spans, _ := o.all(t)
	failingSpan(t, spans, line)
	pageOf(t, "TenantryProviderFailing", line)
}

// unavailable asks for something that needs the platform, and for something
// that does not.
func unavailable(t *testing.T, h holding) {
	t.Helper()
	got := h.call("POST", h.path("/sync"), nil)
	if !slices.Contains([]int{502, 503, 504}, got.status) {
		t.Errorf("a sync without the platform: %d %s", got.status, got.raw)
	}
	h.get(h.path("/domains"))
}

// providerCalls are the counters of provider calls by their labels.
func providerCalls(c client) map[string]float64 {
	c.t.Helper()
	counts, metrics := map[string]float64{}, c.do("GET", c.ready.AdminURL+"/metrics", "", nil).raw
	for _, sample := range regexp.MustCompile(`(?m)^tenantry_provider_call_duration_seconds_count\{(.*)\} (\S+)$`).FindAllSubmatch(metrics, -1) {
		value, err := strconv.ParseFloat(string(sample[2]), 64)
		if err != nil {
			c.t.Fatal(err)
		}
		counts[string(sample[1])] = value
	}
	return counts
}

// firing has promtool evaluate the alerts over what was scraped: quiet for ten
// minutes, then an outage that goes on as it began.
func firing(t *testing.T, counts []map[string]float64, provider, operation string) {
	t.Helper()
	before, first, second := counts[0], counts[1], counts[2]
	series := []object{{"series": `up{job="tenantry"}`, "values": "1x30"}}
	for _, labels := range slices.Sorted(maps.Keys(second)) {
		early := "_x9"
		if value, ok := before[labels]; ok {
			early = fmt.Sprintf("%gx9", value)
		}
		series = append(series, object{
			"series": `tenantry_provider_call_duration_seconds_count{job="tenantry",` + labels + "}",
			"values": fmt.Sprintf("%s %g+%gx20", early, first[labels], second[labels]-first[labels]),
		})
	}
	expression := fmt.Sprintf(`count(ALERTS{alertname="TenantryProviderFailing",alertstate="firing",provider=%q,operation=%q})`, provider, operation)
	alerts, err := filepath.Abs(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(object{"rule_files": []string{alerts}, "evaluation_interval": "1m", "tests": []object{{
		"interval": "1m", "input_series": series, "promql_expr_test": []object{
			{"expr": expression, "eval_time": "9m", "exp_samples": []object{}},
			{"expr": expression, "eval_time": "17m", "exp_samples": []object{{"labels": "{}", "value": 1}}},
		},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "outage.yaml") // JSON is YAML
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "promtool", "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s\n%s", err, out, raw)
	}
}

// lineOfFailure is the first line of a call that was tried and brought no answer.
func lineOfFailure(t *testing.T, logs string) object {
	t.Helper()
	for line := range strings.Lines(logs) {
		var o object
		if json.Unmarshal([]byte(line), &o) != nil || o.text("msg") != "provider call brought no answer" || o.text("cause") == "circuit_open" {
			continue
		}
		for _, field := range strings.Fields("provider operation outcome cause trace_id request_id") {
			if textAt(o, field) == "" {
				t.Errorf("the line lacks %s: %s", field, line)
			}
		}
		return o
	}
	t.Fatalf("no line of a failed call in: %s", logs)
	return nil
}

// failingSpan looks for the line's call in its trace: an error of ours, and
// below it an error of the plugin.
func failingSpan(t *testing.T, spans []exported, line object) {
	t.Helper()
	services := map[string]bool{}
	var call exported
	for _, s := range spans {
		if s.trace() != line.text("trace_id") || s.GetStatus().GetCode() != tracepb.Status_STATUS_CODE_ERROR {
			continue
		}
		services[s.service] = true
		if s.GetName() == line.text("provider")+" "+line.text("operation") {
			call = s
		}
	}
	if call.Span == nil || !services["tenantry-plugin-microsoft365"] {
		t.Fatalf("trace %s has errors in %v, and not of %s", line.text("trace_id"), services, line.text("operation"))
	}
	attributes := map[string]string{}
	for _, a := range call.GetAttributes() {
		attributes[a.GetKey()] = a.GetValue().GetStringValue()
	}
	for _, name := range strings.Fields("provider operation outcome cause") {
		if attributes["tenantry."+name] != line.text(name) {
			t.Errorf("the span's %s is %q, the line's %q", name, attributes["tenantry."+name], line.text(name))
		}
	}
}

// pageOf checks that the alert's page knows what was found, and that its panel
// links to traces and log lines of the call.
func pageOf(t *testing.T, alert string, line object) {
	t.Helper()
	for _, rule := range rules(t) {
		if textAt(rule, "alert") != alert {
			continue
		}
		page := fileText(t, filepath.Join(runbooks, filepath.Base(textAt(rule, "annotations.runbook_url"))))
		for _, word := range []string{
			"tenantry_provider_call_duration_seconds_count", line.text("msg"), "`" + line.text("outcome") + "`", "`tenantry doctor`: check `mail_platform`", "**Failing provider calls**",
		} {
			if !strings.Contains(page, word) {
				t.Errorf("the page lacks %s", word)
			}
		}
	}
	for _, panel := range dashboard(t).objects("panels") {
		if textAt(panel, "title") != "Failing provider calls" {
			continue
		}
		raw, err := json.Marshal(panel)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"${traces}", "${logs}", "${__field.labels.operation}", runbookURL} {
			if !bytes.Contains(raw, []byte(part)) {
				t.Errorf("the panel does not lead on with %s", part)
			}
		}
	}
}
