// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	wire "github.com/miekg/dns"

	"github.com/tenantry/tenantry/adapters/sandbox"
)

// cloudflareFixture is a sandbox with the real simulator of Cloudflare.
type cloudflareFixture struct {
	t           *testing.T
	environment *sandbox.Environment
	service     *service
	ready       sandbox.Ready
}

// apiRecord is a record as Cloudflare's API lists it.
type apiRecord struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Name     string `json:"name"`
	Content  string `json:"content"`
	TTL      int    `json:"ttl"`
	Proxied  bool   `json:"proxied"`
	Comment  string `json:"comment"`
	Settings struct {
		Flatten bool `json:"flatten_cname"`
	} `json:"settings"`
}

func openCloudflare(t *testing.T, plugins, data string) *cloudflareFixture {
	t.Helper()
	environment, err := sandbox.Start(t.Context(), sandbox.Options{DataDir: data, PluginDir: plugins, Seed: true})
	must(t, err)
	fixture := &cloudflareFixture{t: t, environment: environment, service: newService(t)}
	if fixture.ready, err = environment.Open(t.Context(), fixture.service.services(environment)); err != nil {
		t.Fatal(err)
	}
	return fixture
}

// callAPI calls Cloudflare's API with the operator's token and decodes the result. It returns the
// code of the first error, or 0 if the call succeeded.
func (fixture *cloudflareFixture) callAPI(method, path, body string, result any) (code int) {
	fixture.t.Helper()
	return fixture.callAPIWithToken(fixture.environment.Secrets()["cloudflare"]["api_token"].Reveal(), method, path, body, result)
}

func (fixture *cloudflareFixture) callAPIWithToken(token, method, path, body string, result any) (code int) {
	fixture.t.Helper()
	req, err := http.NewRequestWithContext(fixture.t.Context(), method, fixture.environment.Settings()["cloudflare"]["api_url"]+path, strings.NewReader(body))
	must(fixture.t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	must(fixture.t, err)
	defer func() { _ = resp.Body.Close() }()
	content, err := io.ReadAll(resp.Body)
	must(fixture.t, err)
	answer := struct {
		Errors []struct{ Code int }
		Result any
	}{Result: result}
	if err := json.Unmarshal(content, &answer); err != nil {
		fixture.t.Fatalf("%s: %v", content, err)
	}
	if len(answer.Errors) > 0 {
		return answer.Errors[0].Code
	}
	return 0
}

// zoneID returns the id of a zone. It checks that the zone has the name servers of Cloudflare.
func (fixture *cloudflareFixture) zoneID(name string) string {
	fixture.t.Helper()
	var found []struct {
		ID      string   `json:"id"`
		Servers []string `json:"name_servers"`
	}
	fixture.callAPI("GET", "/zones?name="+name, "", &found)
	if len(found) != 1 || !slices.Equal(found[0].Servers, []string{"ada.ns.cloudflare.com", "bob.ns.cloudflare.com"}) {
		fixture.t.Fatalf("zone %s: got %+v, want one zone with the name servers of Cloudflare", name, found)
	}
	return found[0].ID
}

func (fixture *cloudflareFixture) records(zone string) []apiRecord {
	fixture.t.Helper()
	var records []apiRecord
	fixture.callAPI("GET", "/zones/"+zone+"/dns_records", "", &records)
	return records
}

func (fixture *cloudflareFixture) sendBatch(zone, body string) int {
	fixture.t.Helper()
	return fixture.callAPI("POST", "/zones/"+zone+"/dns_records/batch", body, nil)
}

// putRecords replaces the records of a zone through the control interface.
func (fixture *cloudflareFixture) putRecords(name, records string) {
	fixture.t.Helper()
	if status, body := sendRequest(fixture.t, "PUT", fixture.ready.ControlURL+"/zones/"+name+"/records", records); status != http.StatusOK {
		fixture.t.Fatalf("replace the records of %s: got %d %s, want 200", name, status, body)
	}
}

// servedValues returns the values of the records in the answer of the DNS server, separated by "|".
func (fixture *cloudflareFixture) servedValues(name, qtype string) string {
	fixture.t.Helper()
	client := wire.Client{Timeout: hangTimeout} // the default is 2 s
	msg, _, err := client.Exchange(new(wire.Msg).SetQuestion(name+".", wire.StringToType[qtype]), fixture.ready.DNSAddr)
	must(fixture.t, err)
	var lines []string
	for _, rr := range msg.Answer {
		lines = append(lines, strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	return strings.Join(lines, "|")
}

func (fixture *cloudflareFixture) control(method, path, body string) string {
	fixture.t.Helper()
	status, answer := sendRequest(fixture.t, method, fixture.ready.ControlURL+path, body)
	if status != http.StatusOK {
		fixture.t.Fatalf("%s %s: got %d %s, want 200", method, path, status, answer)
	}
	return answer
}

// TestCloudflareEditsReachTheDNS checks that the API and the control interface edit the same zone.
// The fields of a record that only the API has, such as its id and comment, stay until the record
// changes, even after a restart.
func TestCloudflareEditsReachTheDNS(t *testing.T) {
	plugins, data := bundledPlugin(t, "dns", "cloudflare"), t.TempDir()
	fixture := openCloudflare(t, plugins, data)
	seeded := dnsConnection{fixture.ready.AccountID, "cloudflare", fixture.service.token(fixture.ready.AccountID)}
	if !slices.Equal(fixture.service.dnsConnections, []dnsConnection{seeded}) {
		t.Errorf("seeded connections: got %v, want only %v", fixture.service.dnsConnections, seeded)
	}
	fixture.control("POST", "/accounts/"+fixture.ready.AccountID+"/dns-connections", `{"provider":"cloudflare"}`)
	if !slices.Equal(fixture.service.dnsConnections, []dnsConnection{seeded, seeded}) {
		t.Errorf("connections after one more call: got %v, want twice %v", fixture.service.dnsConnections, seeded)
	}
	fixture.checkTokensPerAccount()
	zone := fixture.zoneID("example-one.test")
	if code := fixture.sendBatch(zone, `{"posts":[
		{"type":"TXT","name":"example-one.test","content":"\"v=spf1 -all\"","ttl":1,"comment":"ours"},
		{"type":"MX","name":"example-one.test","content":"mail.example.net","priority":5,"ttl":600}]}`); code != 0 {
		t.Fatalf("the batch was refused with the code %d", code)
	}
	if got := fixture.servedValues("example-one.test", "TXT") + fixture.servedValues("example-one.test", "MX"); got != `"v=spf1 -all"5 mail.example.net.` {
		t.Fatalf("the DNS server answers %s, want the TXT and the MX record of the batch", got)
	}
	created := fixture.records(zone)
	fixture.putRecords("example-one.test", `[{"type":"TXT","name":"example-one.test","content":"v=spf1 -all","ttl":300},
		{"type":"MX","name":"example-one.test","content":"other.example.net","ttl":600,"priority":5}]`)
	replaced := fixture.records(zone)
	if len(replaced) != 2 || replaced[0] != created[0] || replaced[0].Comment != "ours" || replaced[0].TTL != 1 || replaced[1].ID == created[1].ID || replaced[1].Content != "other.example.net" {
		t.Fatalf("created  %v\nreplaced %v\nwant the same TXT record and a new MX record", created, replaced)
	}
	if code := fixture.sendBatch(zone, fmt.Sprintf(`{"deletes":[{"id":%q}]}`, created[1].ID)); code != 81044 {
		t.Errorf("deleting a changed record by its old id returned the code %d, want 81044", code)
	}
	must(t, fixture.environment.Close())
	fixture = openCloudflare(t, plugins, data)
	defer closeEnvironment(t, fixture.environment)
	if got := fixture.records(fixture.zoneID("example-one.test")); fixture.zoneID("example-one.test") != zone || !slices.Equal(got, replaced) {
		t.Errorf("after a restart the records are %v, want %v", got, replaced)
	}
	if calls := fixture.control("GET", "/calls?provider=cloudflare", ""); !strings.Contains(calls, "recordBatch") {
		t.Errorf("the list of calls does not survive a restart: %s", calls)
	}
}

// checkTokensPerAccount checks that two accounts have different tokens, and that both tokens give
// access to the same zone.
func (fixture *cloudflareFixture) checkTokensPerAccount() {
	fixture.t.Helper()
	var secondAccount struct {
		ID string `json:"account_id"`
	}
	must(fixture.t, json.Unmarshal([]byte(fixture.control("POST", "/accounts", `{"email":"second@example.com","plan":"complete"}`)), &secondAccount))
	fixture.control("POST", "/accounts/"+secondAccount.ID+"/dns-connections", `{"provider":"cloudflare"}`)
	tokens := map[string]bool{}
	for _, owner := range []string{fixture.ready.AccountID, secondAccount.ID} {
		token := fixture.service.token(owner)
		tokens[token] = true
		var zones []any
		if code := fixture.callAPIWithToken(token, "GET", "/zones?name=example-one.test", "", &zones); code != 0 || len(zones) != 1 {
			fixture.t.Errorf("with the token of %s: code %d, zones %v, want one zone", owner, code, zones)
		}
	}
	if len(tokens) != 2 {
		fixture.t.Errorf("the accounts have the tokens %v, want two different tokens", tokens)
	}
}

// TestCloudflareBatchIsOneTransaction checks that a refused batch changes no record. It also checks
// the error codes of the API, and a fault that was set through the control interface.
func TestCloudflareBatchIsOneTransaction(t *testing.T) {
	fixture := openCloudflare(t, bundledPlugin(t, "dns", "cloudflare"), t.TempDir())
	defer closeEnvironment(t, fixture.environment)
	zone := fixture.zoneID("example-two.test")
	fixture.putRecords("example-two.test", `[{"type":"A","name":"www.example-two.test","content":"192.0.2.1","ttl":300},{"type":"CNAME","name":"app.example-two.test","content":"a.example.net","ttl":300}]`)
	addressRecord := `{"type":"A","name":"%s.example-two.test","content":"192.0.2.1","ttl":%d}`
	cname := `{"type":"CNAME","name":"www.example-two.test","content":"b.example.net","ttl":300}`
	for _, tc := range []struct {
		body     string
		wantCode int
	}{
		{`{"posts":[` + fmt.Sprintf(addressRecord, "new", 300) + `,` + cname + `]}`, 81053}, // a CNAME where an A record exists
		{`{"posts":[` + fmt.Sprintf(addressRecord, "app", 300) + `]}`, 81054},               // an A record where a CNAME exists
		{`{"posts":[` + fmt.Sprintf(addressRecord, "www", 600) + `]}`, 81057},               // the same record with a different TTL
		{`{"posts":[` + fmt.Sprintf(addressRecord, "www", 300) + `]}`, 81058},               // an identical record
		{`{"posts":[` + strings.Repeat(cname+",", 200) + cname + `]}`, 9207},                // 201 changes, and the limit is 200
	} {
		if code := fixture.sendBatch(zone, tc.body); code != tc.wantCode {
			t.Errorf("%.80s: code %d, want %d", tc.body, code, tc.wantCode)
		}
	}
	if got := fixture.servedValues("new.example-two.test", "A"); got != "" {
		t.Errorf("after a refused batch the DNS server answers %s, want no record", got)
	}
	addressID := fixture.records(zone)[slices.IndexFunc(fixture.records(zone), func(r apiRecord) bool { return r.Type == "A" })].ID
	if code := fixture.sendBatch(zone, fmt.Sprintf(`{"posts":[%s],"deletes":[{"id":%q}]}`, cname, addressID)); code != 0 {
		t.Errorf("a batch that deletes a record before it creates a CNAME was refused with the code %d", code)
	}
	fixture.control("POST", "/faults", `{"provider":"cloudflare","kind":"status","status":429,"retry_after":7,"times":1,"writes_only":true}`)
	if code := fixture.sendBatch(zone, `{"posts":[`+fmt.Sprintf(addressRecord, "late", 300)+`]}`); code != 10429 || fixture.servedValues("late.example-two.test", "A") != "" {
		t.Errorf("a throttled batch returned the code %d, want 10429 and no new record", code)
	}
}

// TestCloudflareProxiesAndFlattens checks proxied and flattened records. The API lists the records
// as they were created, but the DNS server answers with different records.
func TestCloudflareProxiesAndFlattens(t *testing.T) {
	fixture := openCloudflare(t, bundledPlugin(t, "dns", "cloudflare"), t.TempDir())
	defer closeEnvironment(t, fixture.environment)
	fixture.putRecords("example-four.test", `[{"type":"A","name":"web.example-four.test","content":"192.0.2.9","ttl":60},{"type":"TXT","name":"key.example-four.test","content":"v=DKIM1; p=","ttl":60}]`)
	zone := fixture.zoneID("example-three.test")
	if code := fixture.sendBatch(zone, `{"posts":[
		{"type":"CNAME","name":"example-three.test","content":"web.example-four.test","ttl":300},
		{"type":"TXT","name":"example-three.test","content":"\"beside it\"","ttl":300},
		{"type":"CNAME","name":"www.example-three.test","content":"web.example-four.test","ttl":1,"proxied":true},
		{"type":"CNAME","name":"s1._domainkey.example-three.test","content":"key.example-four.test","ttl":300,"settings":{"flatten_cname":true}}]}`); code != 0 {
		t.Fatalf("the batch was refused with the code %d", code)
	}
	for question, want := range map[string]string{
		"example-three.test A": "192.0.2.9", "example-three.test CNAME": "", "example-three.test TXT": `"beside it"`,
		"www.example-three.test A": "198.51.100.80", "www.example-three.test AAAA": "2001:db8::80", "www.example-three.test CNAME": "",
		"s1._domainkey.example-three.test CNAME": "", "s1._domainkey.example-three.test TXT": `"v=DKIM1; p="`,
	} {
		name, qtype, _ := strings.Cut(question, " ")
		if got := fixture.servedValues(name, qtype); got != want {
			t.Errorf("%s: the answer is %q, want %q", question, got, want)
		}
	}
	aliases := 0
	for _, r := range fixture.records(zone) {
		if r.Type == "CNAME" {
			aliases++
		}
	}
	if aliases != 3 {
		t.Errorf("the API lists %v, want three CNAME records", fixture.records(zone))
	}
	served := fixture.control("GET", "/zones/example-three.test/records", "")
	if strings.Contains(served, "CNAME") || !strings.Contains(served, "198.51.100.80") {
		t.Errorf("the control interface lists %s, want the proxy's address and no CNAME", served)
	}
	fixture.putRecords("example-three.test", served)
	if got := fixture.records(zone); slices.ContainsFunc(got, func(r apiRecord) bool { return r.Type == "CNAME" || r.Proxied }) {
		t.Errorf("after a replacement through the control interface: got %v, want no CNAME and no proxied record", got)
	}
}
