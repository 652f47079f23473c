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
	c := &cloudflareFixture{t: t, environment: environment, service: newService(t)}
	if c.ready, err = environment.Open(t.Context(), c.service.services(environment)); err != nil {
		t.Fatal(err)
	}
	return c
}

// api calls Cloudflare's API with the operator's token. It decodes the result, or returns the code
// of the first error.
func (c *cloudflareFixture) api(method, path, body string, result any) (code int) {
	c.t.Helper()
	return c.apiAs(c.environment.Secrets()["cloudflare"]["api_token"].Reveal(), method, path, body, result)
}

func (c *cloudflareFixture) apiAs(token, method, path, body string, result any) (code int) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.environment.Settings()["cloudflare"]["api_url"]+path, strings.NewReader(body))
	must(c.t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	must(c.t, err)
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	must(c.t, err)
	answer := struct {
		Errors []struct{ Code int }
		Result any
	}{Result: result}
	if err := json.Unmarshal(raw, &answer); err != nil {
		c.t.Fatalf("%s: %v", raw, err)
	}
	if len(answer.Errors) > 0 {
		return answer.Errors[0].Code
	}
	return 0
}

func (c *cloudflareFixture) zone(name string) string {
	c.t.Helper()
	var found []struct {
		ID      string   `json:"id"`
		Servers []string `json:"name_servers"`
	}
	c.api("GET", "/zones?name="+name, "", &found)
	if len(found) != 1 || !slices.Equal(found[0].Servers, []string{"ada.ns.cloudflare.com", "bob.ns.cloudflare.com"}) {
		c.t.Fatalf("zone %s: %v", name, found)
	}
	return found[0].ID
}

func (c *cloudflareFixture) records(zone string) []apiRecord {
	c.t.Helper()
	var all []apiRecord
	c.api("GET", "/zones/"+zone+"/dns_records", "", &all)
	return all
}

func (c *cloudflareFixture) batch(zone, body string) int {
	c.t.Helper()
	return c.api("POST", "/zones/"+zone+"/dns_records/batch", body, nil)
}

// put replaces the records of a zone through the control interface.
func (c *cloudflareFixture) put(name, records string) {
	c.t.Helper()
	if status, body := ask(c.t, "PUT", c.ready.ControlURL+"/zones/"+name+"/records", records); status != http.StatusOK {
		c.t.Fatal(status, body)
	}
}

// served returns the answer of the DNS server, one record after the other.
func (c *cloudflareFixture) served(name, qtype string) string {
	c.t.Helper()
	m, err := wire.Exchange(new(wire.Msg).SetQuestion(name+".", wire.StringToType[qtype]), c.ready.DNSAddr)
	must(c.t, err)
	var out []string
	for _, rr := range m.Answer {
		out = append(out, strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	return strings.Join(out, "|")
}

func (c *cloudflareFixture) control(method, path, body string) string {
	c.t.Helper()
	status, answer := ask(c.t, method, c.ready.ControlURL+path, body)
	if status != http.StatusOK {
		c.t.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
	return answer
}

// TestCloudflareEditsReachTheDNS checks that the API and the control interface edit the same zone.
// The members that Cloudflare adds to a record stay until the record changes, even after a restart.
func TestCloudflareEditsReachTheDNS(t *testing.T) {
	plugins, data := bundledPlugin(t, "dns", "cloudflare"), t.TempDir()
	c := openCloudflare(t, plugins, data)
	seeded := dnsConnection{c.ready.AccountID, "cloudflare", c.service.token(c.ready.AccountID)}
	if !slices.Equal(c.service.dnsConnections, []dnsConnection{seeded}) {
		t.Errorf("seeded connections: %v", c.service.dnsConnections)
	}
	c.control("POST", "/accounts/"+c.ready.AccountID+"/dns-connections", `{"provider":"cloudflare"}`)
	if !slices.Equal(c.service.dnsConnections, []dnsConnection{seeded, seeded}) {
		t.Errorf("connections: %v", c.service.dnsConnections)
	}
	c.checkTokensPerAccount()
	zone := c.zone("example-one.test")
	if code := c.batch(zone, `{"posts":[
		{"type":"TXT","name":"example-one.test","content":"\"v=spf1 -all\"","ttl":1,"comment":"ours"},
		{"type":"MX","name":"example-one.test","content":"mail.example.net","priority":5,"ttl":600}]}`); code != 0 {
		t.Fatal(code)
	}
	if got := c.served("example-one.test", "TXT") + c.served("example-one.test", "MX"); got != `"v=spf1 -all"5 mail.example.net.` {
		t.Fatal(got)
	}
	before := c.records(zone)
	c.put("example-one.test", `[{"type":"TXT","name":"example-one.test","content":"v=spf1 -all","ttl":300},
		{"type":"MX","name":"example-one.test","content":"other.example.net","ttl":600,"priority":5}]`)
	after := c.records(zone)
	if len(after) != 2 || after[0] != before[0] || after[0].Comment != "ours" || after[0].TTL != 1 || after[1].ID == before[1].ID || after[1].Content != "other.example.net" {
		t.Fatalf("before %v\nafter  %v", before, after)
	}
	if code := c.batch(zone, fmt.Sprintf(`{"deletes":[{"id":%q}]}`, before[1].ID)); code != 81044 {
		t.Errorf("a record that was changed through the control interface keeps its id: %d", code)
	}
	must(t, c.environment.Close())
	c = openCloudflare(t, plugins, data)
	defer closeEnvironment(t, c.environment)
	if got := c.records(c.zone("example-one.test")); c.zone("example-one.test") != zone || !slices.Equal(got, after) {
		t.Errorf("after a restart %v", got)
	}
	if calls := c.control("GET", "/calls?provider=cloudflare", ""); !strings.Contains(calls, "recordBatch") {
		t.Errorf("the list of calls does not survive a restart: %s", calls)
	}
}

// checkTokensPerAccount checks that each account has its own token and that all tokens reach the
// same zones.
func (c *cloudflareFixture) checkTokensPerAccount() {
	c.t.Helper()
	var other struct {
		ID string `json:"account_id"`
	}
	must(c.t, json.Unmarshal([]byte(c.control("POST", "/accounts", `{"email":"other@example.com","plan":"complete"}`)), &other))
	c.control("POST", "/accounts/"+other.ID+"/dns-connections", `{"provider":"cloudflare"}`)
	tokens := map[string]bool{}
	for _, owner := range []string{c.ready.AccountID, other.ID} {
		token := c.service.token(owner)
		tokens[token] = true
		var zones []any
		if code := c.apiAs(token, "GET", "/zones?name=example-one.test", "", &zones); code != 0 || len(zones) != 1 {
			c.t.Errorf("the token of %s: code %d, %v", owner, code, zones)
		}
	}
	if len(tokens) != 2 {
		c.t.Errorf("the accounts share %v", tokens)
	}
}

// TestCloudflareBatchIsOneTransaction also checks the error codes of the API, and a fault that was
// set through the control interface.
func TestCloudflareBatchIsOneTransaction(t *testing.T) {
	c := openCloudflare(t, bundledPlugin(t, "dns", "cloudflare"), t.TempDir())
	defer closeEnvironment(t, c.environment)
	zone := c.zone("example-two.test")
	c.put("example-two.test", `[{"type":"A","name":"www.example-two.test","content":"192.0.2.1","ttl":300},{"type":"CNAME","name":"app.example-two.test","content":"a.example.net","ttl":300}]`)
	a := `{"type":"A","name":"%s.example-two.test","content":"192.0.2.1","ttl":%d}`
	cname := `{"type":"CNAME","name":"www.example-two.test","content":"b.example.net","ttl":300}`
	for _, tt := range []struct {
		body string
		code int
	}{
		{`{"posts":[` + fmt.Sprintf(a, "new", 300) + `,` + cname + `]}`, 81053},
		{`{"posts":[` + fmt.Sprintf(a, "app", 300) + `]}`, 81054},
		{`{"posts":[` + fmt.Sprintf(a, "www", 600) + `]}`, 81057},
		{`{"posts":[` + fmt.Sprintf(a, "www", 300) + `]}`, 81058},
		{`{"posts":[` + strings.Repeat(cname+",", 200) + cname + `]}`, 9207},
	} {
		if code := c.batch(zone, tt.body); code != tt.code {
			t.Errorf("%.80s: %d, want %d", tt.body, code, tt.code)
		}
	}
	if got := c.served("new.example-two.test", "A"); got != "" {
		t.Errorf("a refused batch left %s", got)
	}
	www := c.records(zone)[slices.IndexFunc(c.records(zone), func(r apiRecord) bool { return r.Type == "A" })].ID
	if code := c.batch(zone, fmt.Sprintf(`{"posts":[%s],"deletes":[{"id":%q}]}`, cname, www)); code != 0 {
		t.Errorf("a batch that deletes a record before it creates a CNAME: %d", code)
	}
	c.control("POST", "/faults", `{"provider":"cloudflare","kind":"status","status":429,"retry_after":7,"times":1,"writes_only":true}`)
	if code := c.batch(zone, `{"posts":[`+fmt.Sprintf(a, "late", 300)+`]}`); code != 10429 || c.served("late.example-two.test", "A") != "" {
		t.Errorf("throttled: %d", code)
	}
}

// TestCloudflareProxiesAndFlattens checks proxied and flattened records. The API lists them as they
// were created, but the DNS server answers with other records.
func TestCloudflareProxiesAndFlattens(t *testing.T) {
	c := openCloudflare(t, bundledPlugin(t, "dns", "cloudflare"), t.TempDir())
	defer closeEnvironment(t, c.environment)
	c.put("example-four.test", `[{"type":"A","name":"web.example-four.test","content":"192.0.2.9","ttl":60},{"type":"TXT","name":"key.example-four.test","content":"v=DKIM1; p=","ttl":60}]`)
	zone := c.zone("example-three.test")
	if code := c.batch(zone, `{"posts":[
		{"type":"CNAME","name":"example-three.test","content":"web.example-four.test","ttl":300},
		{"type":"TXT","name":"example-three.test","content":"\"beside it\"","ttl":300},
		{"type":"CNAME","name":"www.example-three.test","content":"web.example-four.test","ttl":1,"proxied":true},
		{"type":"CNAME","name":"s1._domainkey.example-three.test","content":"key.example-four.test","ttl":300,"settings":{"flatten_cname":true}}]}`); code != 0 {
		t.Fatal(code)
	}
	for question, want := range map[string]string{
		"example-three.test A": "192.0.2.9", "example-three.test CNAME": "", "example-three.test TXT": `"beside it"`,
		"www.example-three.test A": "198.51.100.80", "www.example-three.test AAAA": "2001:db8::80", "www.example-three.test CNAME": "",
		"s1._domainkey.example-three.test CNAME": "", "s1._domainkey.example-three.test TXT": `"v=DKIM1; p="`,
	} {
		name, qtype, _ := strings.Cut(question, " ")
		if got := c.served(name, qtype); got != want {
			t.Errorf("%s: %s, want %s", question, got, want)
		}
	}
	aliases := 0
	for _, r := range c.records(zone) {
		if r.Type == "CNAME" {
			aliases++
		}
	}
	if aliases != 3 {
		t.Errorf("the API lists %v", c.records(zone))
	}
	served := c.control("GET", "/zones/example-three.test/records", "")
	if strings.Contains(served, "CNAME") || !strings.Contains(served, "198.51.100.80") {
		t.Errorf("served: %s", served)
	}
	c.put("example-three.test", served)
	if got := c.records(zone); slices.ContainsFunc(got, func(r apiRecord) bool { return r.Type == "CNAME" || r.Proxied }) {
		t.Errorf("after a replacement through the control interface: %v", got)
	}
}
