// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/app/dnsconnections"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
)

const planned = "planned.example"

var cloud = dns.Provider{ID: "cloudflare", Title: "Cloudflare", NameServers: []string{"*.fake.test"}}

// newPlan is a world in which one account has a domain to be planned, with the
// path of its DNS.
func newPlan(t *testing.T) (w *world, a *api, path string) {
	t.Helper()
	w = newWorld(t)
	w.providers.Know(cloud)
	a, path = w.domain(t)
	return w, a, path
}

// domain serves the world, with a domain of one account.
func (w *world) domain(t *testing.T) (a *api, path string) {
	t.Helper()
	a = serve(t, w.handler(t))
	own := "/v1/tenants/" + string(w.a.tenant) + "/domains"
	a.expect(call{method: "POST", path: own, body: `{"domain":"` + planned + `"}`, key: w.a.key}, 200, "")
	list := a.expect(call{method: "GET", path: own, key: w.a.key}, 200, "").body["domains"].([]any)
	return a, "/v1/domains/" + list[0].(map[string]any)["id"].(string) + "/dns"
}

func (w *world) get(a *api, path string) map[string]any {
	a.t.Helper()
	return a.expect(call{method: "GET", path: path, key: w.a.key}, 200, "").body
}

func deep(o map[string]any, path string) any {
	var v any = o
	for name := range strings.SplitSeq(path, ".") {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

// Every answer fits the document, whatever the zone holds and however the read
// goes.
func TestPlansFitTheDocument(t *testing.T) {
	w, a, path := newPlan(t)
	text := func(name, content string) dns.Record {
		return dns.Record{Type: dns.TXT, Name: name, Content: content, TTL: 60}
	}
	for _, tt := range []struct {
		name     string
		records  []dns.Record
		trouble  string
		reliable bool
		safe     bool
		says     []string
	}{
		{name: "an empty zone", reliable: true, safe: true, says: []string{`"reason":"missing"`, `"observed":[]`, `"blocking_changes":[]`}},
		{name: "octets that are no text", records: []dns.Record{text(planned, "v=spf1 \xff\x00<a>&\u2028 -all"), text("_dmarc."+planned, "\xfe\"\\")}, reliable: true, safe: true,
			says: []string{`v=spf1 \\255\\000`, `\\254\"\\`}},
		{name: "nobody answers", trouble: "no_authoritative_answer", says: []string{`"reason":"no_authoritative_answer"`, `"nameservers":[]`}},
		{name: "a foreign MX before verification", records: []dns.Record{{Type: dns.MX, Name: planned, Content: "mx.other.test", Preference: 10}}, reliable: true,
			says: []string{`"desired":null`, `"observed":["10 mx.other.test"]`, `"mx_other_provider"`}},
		{name: "an alias at the domain", records: []dns.Record{{Type: dns.CNAME, Name: planned, Content: "web.other.test"}}, reliable: true, says: []string{`"cname_at_domain"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := &api{t: t, server: a.server, check: a.check}
			w.platform.DNS.Publish(planned, tt.records...)
			w.platform.DNS.Trouble(tt.trouble)
			got := a.expect(call{method: "GET", path: path + "/plan", key: w.a.key}, 200, "")
			if deep(got.body, "read.reliable") != tt.reliable || got.body["safe_to_apply"] != tt.safe {
				t.Errorf("got %s", got.raw)
			}
			for _, words := range tt.says {
				if !strings.Contains(got.raw, words) {
					t.Errorf("no %s in %s", words, got.raw)
				}
			}
			ready := w.get(a, path+"/automation")
			if deep(ready, "automation.safe_to_apply") != tt.safe || deep(ready, "automation.manual_action_required") != true {
				t.Errorf("got %v", ready)
			}
		})
	}
}

// What the account's connection can do shows in both answers.
func TestReadinessFollowsTheConnection(t *testing.T) {
	w, a, path := newPlan(t)
	w.platform.DNS.Publish(planned)
	at := &fake.DNSProvider{}
	at.AddZone(planned)
	at.Put(planned, dns.RRSet{Name: planned, Type: dns.NS, Values: []string{"ns1.fake.test", "ns2.fake.test"}})
	w.providers.Hold("cloudflare", "one", at)
	see := func(name string, present bool, code any) {
		t.Helper()
		ready := w.get(a, path+"/automation")
		if deep(ready, "automation.connection_present") != present || deep(ready, "automation.action_required_code") != code ||
			deep(ready, "automation.manual_action_required") != (code != nil) || deep(ready, "automation.message") == "" || deep(ready, "automation.provider") != "cloudflare" {
			t.Errorf("%s: got %v", name, ready)
		}
		w.get(a, path+"/plan")
	}
	see("no connection", false, "dns_connection_required")
	_, err := w.options.Domains.Connections.Add(t.Context(), dnsconnections.New{Account: w.a.account.ID, Provider: "cloudflare",
		Credential: secret.Credential{Secrets: map[string]secret.Text{"token": secret.New("one")}}})
	if err != nil {
		t.Fatal(err)
	}
	see("connected", true, nil)
	w.providers.Hold("cloudflare", "one", fake.Refusing{DNSProvider: at})
	see("the credential is refused", true, "dns_credential_rejected")
	w.providers.Hold("cloudflare", "one", &fake.DNSProvider{})
	see("another account's zones", true, "dns_connection_required")
	at.Put(planned, dns.RRSet{Name: planned, Type: dns.MX, Values: []string{"0 ."}})
	w.providers.Hold("cloudflare", "one", at)
	see("a conflict that only the provider's list shows", true, "dns_conflict")
	if w.providers.Writes() != 0 {
		t.Error("something was written")
	}
}

// Only while the mail platform has never said what the domain needs is its
// trouble the plan's.
func TestAPlanWithoutThePlatform(t *testing.T) {
	w, a, path := newPlan(t)
	w.platform.DNS.Publish(planned)
	w.platform.Fail(fake.Fault{Kind: outcome.Down})
	w.get(a, path+"/plan")
	d, err := w.store.DomainByID(t.Context(), w.a.account.ID, strings.Split(path, "/")[3])
	if err != nil {
		t.Fatal(err)
	}
	d.Verification, d.Service = nil, nil
	if err := w.store.SaveDomain(t.Context(), w.a.account.ID, d); err != nil {
		t.Fatal(err)
	}
	for _, end := range []string{"/plan", "/automation"} {
		got := a.expect(call{method: "GET", path: path + end, key: w.a.key}, 503, "provider_unavailable")
		if got.header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	}
}

// Times have microseconds at most, as in every other answer.
func TestThePlansTimeIsInMicroseconds(t *testing.T) {
	w, a, path := newPlan(t)
	w.platform.Advance(123_456_789 * time.Nanosecond)
	at, _ := w.get(a, path+"/plan")["checked_at"].(string)
	if !strings.HasSuffix(at, ".123456Z") {
		t.Errorf("checked at %s", at)
	}
}
