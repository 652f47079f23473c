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

// collectTelemetry runs the onboarding and a platform call that fails. collectTelemetry returns
// values that identify the customer, and the spans, metrics and log lines of the service.
func collectTelemetry(t *testing.T, env ...string) (customer map[string]string, spans, metrics, logs []byte) {
	t.Helper()
	receiver, fixture := newSpanReceiver(t), newServiceFixture(t, requirePrograms(t, releaseBuild))
	const token = "not-a-token-of-anybody"
	env = append(append(fixture.env(t.TempDir(), ""), receiver.env()...), env...)
	env = append(env, "TENANTRY_PROVIDERS_CLOUDFLARE_API_URL="+testserver.StartCloudflare(t, "told.test"))
	id, key := fixture.newAccount(env, "owner@example.com", "complete", 0)
	fixture.runCommand(env, "dns-connection", "add", "--account", id, "--provider", "cloudflare", "--credential-file", writeTempFile(t, token, 0o600))
	p, c := fixture.serve(env)
	c.ready.APIKey = key
	guid, admin := fixture.newTenant(c)
	newAdministrator(t, admin).connect(c, key)
	tenant := accountTenant{caller: caller{c, "", "owner@example.com", key}, guid: guid}
	tenant.mustSync()
	must(t, fixture.zones.Add("told.test", "manual"))
	tenant.post(tenant.path("/domains"), object{"domain": "told.test"})
	tenant.publishRecords("told.test")
	tenant.post(tenant.domainPath("told.test", "/verify"), nil)
	tenant.get("/v1/domains/" + tenant.get(tenant.path("/domains")).objects("domains")[0].text("id") + "/dns/plan")
	tenant.post(tenant.path("/mailboxes"), mailboxesBody("told.test", "ada", "max"))
	c.control("POST", "/faults", object{"provider": mailPlatform, "kind": "status", "status": 500, "times": 100})
	tenant.expect("POST", tenant.path("/sync"), nil, http.StatusBadGateway, "provider_error")
	metrics = c.do("GET", c.ready.AdminURL+"/metrics", "", nil).raw
	if err := p.stop(); err != nil { // flushes the last spans
		t.Fatal(err)
	}
	_, raw := receiver.received(t)
	for signal, output := range map[string][]byte{"spans": bytes.Join(raw, nil), "metrics": metrics, "logs": []byte(p.logs.String())} {
		if bytes.Contains(output, []byte(token)) {
			t.Errorf("the credential of a DNS provider is in the %s", signal)
		}
	}
	return map[string]string{"domain": "told.test", "address": "ada@told.test", "tenant": guid}, bytes.Join(raw, nil), metrics, []byte(p.logs.String())
}

// TestSpansCarryCustomerDataWhenEnabled checks that spans carry customer data if the operator
// enables this, and that metrics and logs do not. TestTraceReachesTheMailPlatform checks the
// default.
func TestSpansCarryCustomerDataWhenEnabled(t *testing.T) {
	t.Parallel()
	customer, spans, metrics, logs := collectTelemetry(t, "TENANTRY_TRACE_CUSTOMER_DATA=true")
	for name, value := range customer {
		if !bytes.Contains(spans, []byte(value)) {
			t.Errorf("no span carries the %s", name)
		}
	}
	for signal, data := range map[string][]byte{"metrics": metrics, "logs": logs} {
		if found := findLeaks(data, customer); len(found) > 0 {
			t.Errorf("the %s contain customer data: %v", signal, found)
		}
	}
}

// TestFailedCallsAreLoggedAndCounted checks that a failed call has a log line with the fields that
// an SRE needs, and a metric by outcome. Spans, metrics and log lines contain no customer data.
func TestFailedCallsAreLoggedAndCounted(t *testing.T) {
	t.Parallel()
	customer, spans, metrics, logs := collectTelemetry(t)
	for signal, data := range map[string][]byte{"spans": spans, "metrics": metrics, "logs": logs} {
		if found := findLeaks(data, customer); len(found) > 0 {
			t.Errorf("the %s contain customer data: %v", signal, found)
		}
	}
	line := regexp.MustCompile(`"level":"WARN","msg":"provider call failed","provider":"microsoft365","operation":"\w+","outcome":"\w+",` +
		`"cause":"\w+","duration_ms":[0-9.e-]+,"request_id":"[^"]+","trace_id":"[0-9a-f]{32}"`)
	if !line.Match(logs) {
		t.Errorf("the log has no line of a failed call: %s", logs)
	}
	for _, series := range []string{
		`tenantry_provider_call_duration_seconds_count{operation="create_mailbox",outcome="done",provider="microsoft365"} 2`,
		`http_server_request_duration_seconds_count{http_request_method="POST",http_response_status_code="502",http_route="/v1/tenants/{tenant_id}/sync"} 1`,
		`tenantry_circuits{domain="tenant",provider="microsoft365",state="closed"} `,
		`tenantry_provider_call_duration_seconds_count{operation="zone",outcome="done",provider="cloudflare"} `,
		`tenantry_circuits{domain="credential",provider="cloudflare",state="closed"} 1`,
		`tenantry_circuits{domain="credential",provider="powerdns",state="open"} 0`,
		`tenantry_plugin_state{plugin="microsoft365",state="running"} 1`, `tenantry_plugin_restarts_total{plugin="microsoft365"} 0`,
		`tenantry_database_up 1`, `db_client_operation_duration_seconds_count{db_operation_name="SELECT",db_system_name="sqlite"} `,
		`tenantry_build_info{commit="`, `go_goroutines `, `process_resident_memory_bytes `, `go_sql_connections_in_use{db_system="sqlite"} `,
	} {
		if !bytes.Contains(metrics, []byte("\n"+series)) {
			t.Errorf("the metrics lack %s", series)
		}
	}
	if !bytes.Contains(spans, []byte("cloudflare zone")) {
		t.Error("the spans lack a call of the DNS provider")
	}
	if failedCalls := regexp.MustCompile(`outcome="(broken|down|unknown)",provider="microsoft365"} [1-9]`); !failedCalls.Match(metrics) {
		t.Error("the metrics lack a failed call")
	}
	if bytes.Contains(metrics, []byte("otel_scope")) || bytes.Contains(metrics, []byte("plugin-dir")) {
		t.Error("the metrics have labels that create an unlimited number of series")
	}
}

// TestReadyzListsItsChecks checks that /readyz?verbose reports an open circuit, and that the
// service stays ready.
func TestReadyzListsItsChecks(t *testing.T) {
	t.Parallel()
	fixture := newServiceFixture(t, requirePrograms(t, releaseBuild))
	_, tenant := newConnectedService(t, fixture, "TENANTRY_CIRCUIT_OPEN=5m")
	c := tenant.client
	readVerbose := func() (int, string) {
		got := c.do("GET", c.ready.AdminURL+"/readyz?verbose", "", nil)
		return got.status, string(got.raw)
	}
	if status, body := readVerbose(); status != 200 || body != strings.Join([]string{
		"[+] stop: ok", "[+] database: ok", "[+] plugin cloudflare: ok", "[+] plugin emailbison: ok", "[+] plugin instantly: ok",
		"[+] plugin microsoft365: ok", "[+] plugin plusvibe: ok", "[+] plugin powerdns: ok", "[+] plugin rfc2136: ok",
		"[+] plugin salesblink: ok", "[+] plugin smartlead: ok", "[+] circuits of microsoft365: ok", "readyz: ready\n",
	}, "\n") {
		t.Errorf("/readyz?verbose answers %d %s, want 200 with each check ok", status, body)
	}
	c.control("POST", "/faults", object{"provider": mailPlatform, "kind": "status", "status": 500, "times": 1000})
	for range 4 {
		c.callAPI("POST", tenant.path("/sync"))
	}
	status, body := readVerbose()
	if status != 200 || !strings.Contains(body, "[!] circuits of microsoft365: open for ") || !strings.HasSuffix(body, "readyz: ready\n") {
		t.Errorf("/readyz?verbose answers %d %s, want 200 with an open circuit", status, body)
	}
	if got := c.do("GET", c.ready.AdminURL+"/readyz", "", nil); got.status != 200 || string(got.raw) != "ok\n" {
		t.Errorf("/readyz answers %d %s, want 200 with ok", got.status, got.raw)
	}
	for _, call := range []string{"POST /readyz", "DELETE /metrics"} {
		method, path, _ := strings.Cut(call, " ")
		if got := c.do(method, c.ready.AdminURL+path, "", nil); got.status != http.StatusMethodNotAllowed {
			t.Errorf("%s is answered %d, want 405", call, got.status)
		}
	}
}

// TestOutageLeadsFromAlertToTrace follows an outage of the mail platform as an SRE would. An alert
// fires for the provider and the operation in the log line of the failed call. The log line has the
// id of the trace, and the runbook of the alert mentions the log line. doctor reports that the
// check of the mail platform failed.
func TestOutageLeadsFromAlertToTrace(t *testing.T) {
	t.Parallel()
	receiver, fixture := newSpanReceiver(t), newServiceFixture(t, requirePrograms(t, releaseBuild))
	env := fixture.env(t.TempDir(), testserver.Database(t))
	runTenantry(t, env, "migrate")
	_, key := fixture.newAccount(env, "owner@example.com", "complete", 0)
	// The service has no background jobs, so the first failed call belongs to a request.
	p, c := fixture.serve(append(append(env, "TENANTRY_WORKER=false"), receiver.env()...))
	c.ready.APIKey = key
	guid, admin := fixture.newTenant(c)
	newAdministrator(t, admin).connect(c, key)
	tenant := accountTenant{caller: caller{c, "", "owner@example.com", key}, guid: guid}
	tenant.mustSync()

	counts := []map[string]float64{providerCalls(c)}
	fixture.stopPlatform()
	for range 2 {
		for range 3 {
			sendWithoutPlatform(t, tenant)
		}
		counts = append(counts, providerCalls(c))
	}
	if got := c.do("GET", c.ready.AdminURL+"/readyz", "", nil); got.status != http.StatusOK {
		t.Errorf("a broken mail platform makes the service unready: %d %s", got.status, got.raw)
	}
	if _, checks := runDoctor(t, env); checks["mail_platform"].text("status") != doctor.Failed {
		t.Errorf("the check mail_platform of doctor is %v, want failed", checks["mail_platform"])
	}
	if err := p.stop(); err != nil { // flushes the last spans
		t.Fatal(err)
	}

	logLine := failedCallLine(t, p.logs.String())
	checkAlertFires(t, counts, logLine.text("provider"), logLine.text("operation"))
	spans, _ := receiver.received(t)
	checkFailedSpan(t, spans, logLine)
	checkRunbook(t, "TenantryProviderFailing", logLine)
}

// sendWithoutPlatform sends a request that needs the platform, which is down, and a request that
// does not need it.
func sendWithoutPlatform(t *testing.T, tenant accountTenant) {
	t.Helper()
	got := tenant.call("POST", tenant.path("/sync"), nil)
	if !slices.Contains([]int{502, 503, 504}, got.status) {
		t.Errorf("a sync without the platform is answered %d %s, want 502, 503 or 504", got.status, got.raw)
	}
	tenant.get(tenant.path("/domains"))
}

// providerCalls returns the counters of provider calls, keyed by their labels.
func providerCalls(c client) map[string]float64 {
	c.t.Helper()
	counts, metrics := map[string]float64{}, c.do("GET", c.ready.AdminURL+"/metrics", "", nil).raw
	for _, sample := range regexp.MustCompile(`(?m)^tenantry_provider_call_duration_seconds_count\{(.*)\} (\S+)$`).FindAllSubmatch(metrics, -1) {
		value, err := strconv.ParseFloat(string(sample[2]), 64)
		must(c.t, err)
		counts[string(sample[1])] = value
	}
	return counts
}

// checkAlertFires lets promtool evaluate the alerts over the scraped counters: ten quiet minutes,
// then an outage at a constant rate.
func checkAlertFires(t *testing.T, counts []map[string]float64, provider, operation string) {
	t.Helper()
	quiet, outageBegin, outageLater := counts[0], counts[1], counts[2]
	series := []object{{"series": `up{job="tenantry"}`, "values": "1x30"}}
	for _, labels := range slices.Sorted(maps.Keys(outageLater)) {
		quietValues := "_x9"
		if value, ok := quiet[labels]; ok {
			quietValues = fmt.Sprintf("%gx9", value)
		}
		series = append(series, object{
			"series": `tenantry_provider_call_duration_seconds_count{job="tenantry",` + labels + "}",
			"values": fmt.Sprintf("%s %g+%gx20", quietValues, outageBegin[labels], outageLater[labels]-outageBegin[labels]),
		})
	}
	expression := fmt.Sprintf(`count(ALERTS{alertname="TenantryProviderFailing",alertstate="firing",provider=%q,operation=%q})`, provider, operation)
	alerts, err := filepath.Abs(alertsFile)
	must(t, err)
	raw, err := json.Marshal(object{"rule_files": []string{alerts}, "evaluation_interval": "1m", "tests": []object{{
		"interval": "1m", "input_series": series, "promql_expr_test": []object{
			{"expr": expression, "eval_time": "9m", "exp_samples": []object{}},
			{"expr": expression, "eval_time": "17m", "exp_samples": []object{{"labels": "{}", "value": 1}}},
		},
	}}})
	must(t, err)
	file := filepath.Join(t.TempDir(), "outage.yaml") // JSON is valid YAML
	must(t, os.WriteFile(file, raw, 0o600))
	if out, err := exec.CommandContext(t.Context(), "promtool", "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("promtool does not find the alert firing as expected: %v\n%s\n%s", err, out, raw)
	}
}

// failedCallLine returns the first log line of a call that was made and failed. Calls that an open
// circuit refused do not count.
func failedCallLine(t *testing.T, logs string) object {
	t.Helper()
	for line := range strings.Lines(logs) {
		var entry object
		if json.Unmarshal([]byte(line), &entry) != nil || entry.text("msg") != "provider call failed" || entry.text("cause") == "circuit_open" {
			continue
		}
		for _, field := range strings.Fields("provider operation outcome cause trace_id request_id") {
			if textAt(entry, field) == "" {
				t.Errorf("the log line of the failed call lacks %s: %s", field, line)
			}
		}
		return entry
	}
	t.Fatalf("the log has no line of a failed call: %s", logs)
	return nil
}

// checkFailedSpan checks that the trace of the log line has an error span of the plugin, and an
// error span of the call with the same attributes as the line.
func checkFailedSpan(t *testing.T, spans []receivedSpan, logLine object) {
	t.Helper()
	services := map[string]bool{}
	var call receivedSpan
	for _, span := range spans {
		if span.trace() != logLine.text("trace_id") || span.GetStatus().GetCode() != tracepb.Status_STATUS_CODE_ERROR {
			continue
		}
		services[span.service] = true
		if span.GetName() == logLine.text("provider")+" "+logLine.text("operation") {
			call = span
		}
	}
	if call.Span == nil || !services["tenantry-plugin-microsoft365"] {
		t.Fatalf("trace %s has error spans of the services %v, want a span of the plugin and a span of the call %s", logLine.text("trace_id"), services, logLine.text("operation"))
	}
	attributes := map[string]string{}
	for _, attribute := range call.GetAttributes() {
		attributes[attribute.GetKey()] = attribute.GetValue().GetStringValue()
	}
	for _, name := range strings.Fields("provider operation outcome cause") {
		if attributes["tenantry."+name] != logLine.text(name) {
			t.Errorf("the span's %s is %q, want %q as in the log line", name, attributes["tenantry."+name], logLine.text(name))
		}
	}
}

// checkRunbook checks that the runbook of the alert mentions the log line and its outcome. It also
// checks that the panel "Failing provider calls" links to traces and logs.
func checkRunbook(t *testing.T, alert string, logLine object) {
	t.Helper()
	foundAlert, foundPanel := false, false
	for _, rule := range prometheusRules(t) {
		if textAt(rule, "alert") != alert {
			continue
		}
		foundAlert = true
		page := fileText(t, filepath.Join(runbookFolder, filepath.Base(textAt(rule, "annotations.runbook_url"))))
		for _, word := range []string{
			"tenantry_provider_call_duration_seconds_count", logLine.text("msg"), "`" + logLine.text("outcome") + "`", "`tenantry doctor`. The check `mail_platform`", "**Failing provider calls**",
		} {
			if !strings.Contains(page, word) {
				t.Errorf("the runbook lacks %s", word)
			}
		}
	}
	for _, panel := range dashboard(t).objects("panels") {
		if textAt(panel, "title") != "Failing provider calls" {
			continue
		}
		foundPanel = true
		raw, err := json.Marshal(panel)
		must(t, err)
		for _, part := range []string{"${traces}", "${logs}", "${__field.labels.operation}", runbookURL} {
			if !bytes.Contains(raw, []byte(part)) {
				t.Errorf("the panel has no link with %s", part)
			}
		}
	}
	if !foundAlert || !foundPanel {
		t.Errorf("the alert %s exists: %v, the panel exists: %v, want both", alert, foundAlert, foundPanel)
	}
}
