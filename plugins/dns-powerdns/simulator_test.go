// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/dns-powerdns/simulator"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// newSimulated returns a conformance.DNSTest whose provider is the plugin with the simulator.
func newSimulated(t conformance.T) *conformance.DNSTest {
	state := newTestState() // concurrent writers of a process share the locks in state
	return conformance.SimulateDNS(t, simulator.New, func(connection sdk.Connection) sdk.DNSProvider {
		provider, err := state.provider(connection)
		if err != nil {
			t.Fatal(err)
		}
		return provider
	})
}

// TestContractOnSimulator runs the contract suite of a DNS provider with the simulator.
func TestContractOnSimulator(t *testing.T) {
	conformance.DNSInProcess(t, func(t conformance.T) conformance.DNSFixture { return newSimulated(t) })
}

// TestSimulatorAnswersLikePowerDNS sends the same requests to the simulator and to a real server.
// After each request it compares the statuses, the errors, and the zones. Of the zones it compares
// the contents of the record sets except SOA and NS, soa_edit_api, and the increase of the serial.
// It does not compare TTLs. Of the error for malformed content, it compares only the beginning.
func TestSimulatorAnswersLikePowerDNS(t *testing.T) {
	simulated, powerdns := newSimulated(t), newFixture(t)
	zone := powerdns.NewZone(t)
	if simulatedZone := simulated.NewZone(t); simulatedZone != zone {
		t.Fatalf("the zones are %s and %s, want equal names", zone, simulatedZone)
	}
	powerdns.callServer(t, http.MethodPut, "/zones/"+zone+".", map[string]any{"soa_edit_api": "INCREASE"})
	const server = "/api/v1/servers/localhost"
	pathOfZone := server + "/zones/" + zone + "."
	set := func(name, kind, change string, contents ...string) string {
		records := []map[string]any{}
		for _, content := range contents {
			records = append(records, map[string]any{"content": content, "disabled": false})
		}
		raw, err := json.Marshal(map[string]any{"name": strings.ReplaceAll(name, "@", zone), "type": kind, "ttl": 300, "changetype": change, "records": records})
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	patch := func(sets ...string) string { return `{"rrsets":[` + strings.Join(sets, ",") + `]}` }
	readZone := func(url, key string) apiAnswer {
		_, answer := request(t, http.MethodGet, url, key, "")
		return answer
	}
	for _, step := range []struct{ name, method, path, key, body string }{
		{"a list", http.MethodGet, server + "/zones", "", ""},
		{"a list with one zone", http.MethodGet, server + "/zones?zone=nobody.test.", "", ""},
		{"a different key", http.MethodGet, server + "/zones", "guessed", ""},
		{"a different server", http.MethodGet, "/api/v1/servers/other/zones", "", ""},
		{"no such zone", http.MethodGet, server + "/zones/nobody.test.", "", ""},
		{"a change of no such zone", http.MethodPatch, server + "/zones/nobody.test.", "", patch(set("x.nobody.test.", "TXT", "REPLACE", `"x"`))},
		{"no changes", http.MethodPatch, pathOfZone, "", patch()},
		{"no JSON", http.MethodPatch, pathOfZone, "", "{"},
		{"a set", http.MethodPatch, pathOfZone, "", patch(set("x.@.", "TXT", "REPLACE", `"x"`, `"y \"quoted\" \\ \228"`), set("@.", "MX", "REPLACE", "10 mx.example."))},
		{"a set again", http.MethodPatch, pathOfZone, "", patch(set("x.@.", "TXT", "REPLACE", `"x"`, `"y \"quoted\" \\ \228"`))},
		{"a CNAME beside a text", http.MethodPatch, pathOfZone, "", patch(set("x.@.", "CNAME", "REPLACE", "a.example."))},
		{"a CNAME instead of a text", http.MethodPatch, pathOfZone, "", patch(set("x.@.", "TXT", "DELETE"), set("x.@.", "CNAME", "REPLACE", "a.example."))},
		{"a text beside a CNAME", http.MethodPatch, pathOfZone, "", patch(set("x.@.", "TXT", "REPLACE", `"x"`))},
		{"a text before its CNAME is deleted", http.MethodPatch, pathOfZone, "", patch(set("x.@.", "TXT", "REPLACE", `"x"`), set("x.@.", "CNAME", "DELETE"))},
		{"a CNAME at the apex", http.MethodPatch, pathOfZone, "", patch(set("@.", "CNAME", "REPLACE", "a.example."))},
		{"two CNAMEs", http.MethodPatch, pathOfZone, "", patch(set("y.@.", "CNAME", "REPLACE", "a.example.", "b.example."))},
		{"a name outside the zone", http.MethodPatch, pathOfZone, "", patch(set("x.example.", "TXT", "REPLACE", `"x"`))},
		{"one of two is refused", http.MethodPatch, pathOfZone, "", patch(set("new.@.", "TXT", "REPLACE", `"x"`), set("x.example.", "TXT", "REPLACE", `"x"`))},
		{"a name without its dot", http.MethodPatch, pathOfZone, "", patch(set("y.@", "TXT", "REPLACE", `"x"`))},
		{"a name in upper case", http.MethodPatch, pathOfZone, "", patch(set("UPPER.@.", "TXT", "REPLACE", `"x"`))},
		{"a text without quotes", http.MethodPatch, pathOfZone, "", patch(set("y.@.", "TXT", "REPLACE", "x"))},
		{"a host without its dot", http.MethodPatch, pathOfZone, "", patch(set("y.@.", "CNAME", "REPLACE", "a.example"))},
		{"an MX without a preference", http.MethodPatch, pathOfZone, "", patch(set("y.@.", "MX", "REPLACE", "mx.example."))},
		{"no address", http.MethodPatch, pathOfZone, "", patch(set("y.@.", "A", "REPLACE", "here"))},
		{"the same record twice", http.MethodPatch, pathOfZone, "", patch(set("y.@.", "TXT", "REPLACE", `"x"`, `"x"`))},
		{"the same set twice", http.MethodPatch, pathOfZone, "", patch(set("y.@.", "TXT", "REPLACE", `"x"`), set("y.@.", "TXT", "REPLACE", `"y"`))},
		{"an unknown change", http.MethodPatch, pathOfZone, "", patch(set("y.@.", "TXT", "EXTEND", `"x"`))},
		{"no TTL", http.MethodPatch, pathOfZone, "", `{"rrsets":[{"name":"y.` + zone + `.","type":"TXT","changetype":"REPLACE","records":[]}]}`},
		{"a set without records", http.MethodPatch, pathOfZone, "", patch(set("upper.@.", "TXT", "REPLACE"))},
		{"a deletion of nothing", http.MethodPatch, pathOfZone, "", patch(set("nothing.@.", "TXT", "DELETE"))},
		{"some sets", http.MethodGet, pathOfZone + "?rrset_name=" + zone + ".&rrset_type=MX", "", ""},
		{"no sets", http.MethodGet, pathOfZone + "?rrsets=false", "", ""},
	} {
		beforeReal, beforeSimulated := readZone(powerdns.server.API+pathOfZone, powerdns.server.Key), readZone(simulated.URL+pathOfZone, simulator.Key)
		wantStatus, want := request(t, step.method, powerdns.server.API+step.path, cmp.Or(step.key, powerdns.server.Key), step.body)
		status, got := request(t, step.method, simulated.URL+step.path, cmp.Or(step.key, simulator.Key), step.body)
		wantError, _, _ := strings.Cut(want.Error, ": while")
		wantError, _, _ = strings.Cut(wantError, ": expected")
		if status != wantStatus || got.Error != wantError {
			t.Errorf("%s: the simulator answers %d %q, want the answer of PowerDNS, %d %q", step.name, status, got.Error, wantStatus, want.Error)
		}
		want, got = readZone(powerdns.server.API+pathOfZone, powerdns.server.Key), readZone(simulated.URL+pathOfZone, simulator.Key)
		if increase, wantIncrease := got.EditedSerial-beforeSimulated.EditedSerial, want.EditedSerial-beforeReal.EditedSerial; increase != wantIncrease {
			t.Errorf("%s: the serial of the simulator increased by %d, want %d like that of PowerDNS", step.name, increase, wantIncrease)
		}
		if diff := gocmp.Diff(want.sets(), got.sets()); diff != "" {
			t.Errorf("%s: the zones differ (-PowerDNS +simulator):\n%s", step.name, diff)
		}
	}
}

// apiAnswer has the members of an answer that the test compares.
type apiAnswer struct {
	Error        string
	SOAEditAPI   string     `json:"soa_edit_api"`
	EditedSerial int        `json:"edited_serial"`
	RRSets       []rrsetDoc `json:"rrsets"`
}

// sets returns the contents of the record sets, keyed by name and type, and the mode soa_edit_api.
// It omits SOA and NS sets.
func (a apiAnswer) sets() map[string][]string {
	contents := map[string][]string{"soa_edit_api": {a.SOAEditAPI}}
	for _, s := range a.RRSets {
		for _, r := range s.Records {
			if s.Type != "SOA" && s.Type != "NS" {
				contents[s.Name+" "+s.Type] = append(contents[s.Name+" "+s.Type], r.Content)
			}
		}
	}
	return contents
}

// request sends a request and returns the status and the answer. If the answer is an error without
// JSON, its text is in Error.
func request(t *testing.T, method, url, key, body string) (int, apiAnswer) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-Key", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer apiAnswer
	if json.Unmarshal(raw, &answer) != nil && resp.StatusCode >= http.StatusBadRequest {
		answer.Error = string(raw)
	}
	return resp.StatusCode, answer
}
