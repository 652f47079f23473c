// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/app/dnsconnections"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
)

const plannedDomain = "planned.example"

var cloudflare = dns.Provider{ID: "cloudflare", Title: "Cloudflare", NameServers: []string{"*.fake.test"}}

// newDNSPlanEnv returns an environment in which account A has plannedDomain, a client, and the path
// of the domain's DNS.
func newDNSPlanEnv(t *testing.T) (env *testEnv, client *apiClient, path string) {
	t.Helper()
	env = newTestEnv(t)
	env.dnsProviders.AddProvider(cloudflare)
	client, path = env.serveWithDomain(t)
	return env, client, path
}

// serveWithDomain adds plannedDomain to account A. It returns a client and the path of the domain's
// DNS.
func (env *testEnv) serveWithDomain(t *testing.T) (client *apiClient, path string) {
	t.Helper()
	client = serve(t, env.handler(t))
	domainsPath := "/v1/tenants/" + string(env.accountA.tenant) + "/domains"
	client.expect(call{method: "POST", path: domainsPath, body: `{"domain":"` + plannedDomain + `"}`, key: env.accountA.key}, 200, "")
	list := client.expect(call{method: "GET", path: domainsPath, key: env.accountA.key}, 200, "").body["domains"].([]any)
	return client, "/v1/domains/" + list[0].(map[string]any)["id"].(string) + "/dns"
}

// domainIDOf returns the id of the domain from the path of its DNS.
func domainIDOf(path string) string { return strings.Split(path, "/")[3] }

// get returns the body of a successful GET request of account A.
func (env *testEnv) get(client *apiClient, path string) map[string]any {
	client.t.Helper()
	return client.expect(call{method: "GET", path: path, key: env.accountA.key}, 200, "").body
}

// member returns the value at a path of dot-separated names in a JSON object, or nil if there is
// none.
func member(body map[string]any, path string) any {
	var value any = body
	for name := range strings.SplitSeq(path, ".") {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	return value
}

// TestDNSPlansMatchTheDocument checks that plans of unusual zones and of failed reads match the
// OpenAPI document. The client compares each answer with the document.
func TestDNSPlansMatchTheDocument(t *testing.T) {
	env, client, path := newDNSPlanEnv(t)
	txtRecord := func(name, content string) dns.Record {
		return dns.Record{Type: dns.TXT, Name: name, Content: content, TTL: 60}
	}
	for _, tc := range []struct {
		name         string
		records      []dns.Record
		readFailure  string
		wantReliable bool
		wantSafe     bool
		wantTexts    []string
	}{
		{name: "an empty zone", wantReliable: true, wantSafe: true, wantTexts: []string{`"reason":"missing"`, `"observed":[]`, `"blocking_changes":[]`}},
		{name: "octets that are not text", records: []dns.Record{txtRecord(plannedDomain, "v=spf1 \xff\x00<a>&\u2028 -all"), txtRecord("_dmarc."+plannedDomain, "\xfe\"\\")}, wantReliable: true,
			wantTexts: []string{`"spf_syntax"`, `v=spf1 \\255\\000`, `\\254\"\\`}},
		{name: "no authoritative answer", readFailure: "no_authoritative_answer", wantTexts: []string{`"reason":"no_authoritative_answer"`, `"nameservers":[]`}},
		{name: "an MX of a different provider before verification", records: []dns.Record{{Type: dns.MX, Name: plannedDomain, Content: "mx.other.test", Preference: 10}}, wantReliable: true,
			wantTexts: []string{`"desired":null`, `"observed":["10 mx.other.test"]`, `"mx_other_provider"`}},
		{name: "an alias at the domain", records: []dns.Record{{Type: dns.CNAME, Name: plannedDomain, Content: "web.other.test"}}, wantReliable: true, wantTexts: []string{`"cname_at_domain"`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			client := client.forTest(t)
			env.platform.DNS.Publish(plannedDomain, tc.records...)
			env.platform.DNS.FailReads(tc.readFailure)
			got := client.expect(call{method: "GET", path: path + "/plan", key: env.accountA.key}, 200, "")
			if member(got.body, "read.reliable") != tc.wantReliable || got.body["safe_to_apply"] != tc.wantSafe {
				t.Errorf("got %s, want reliable %v and safe_to_apply %v", got.raw, tc.wantReliable, tc.wantSafe)
			}
			for _, text := range tc.wantTexts {
				if !strings.Contains(got.raw, text) {
					t.Errorf("the plan does not contain %s: %s", text, got.raw)
				}
			}
			automation := env.get(client, path+"/automation")
			if member(automation, "automation.safe_to_apply") != tc.wantSafe || member(automation, "automation.manual_action_required") != true {
				t.Errorf("got %v, want safe_to_apply %v and a manual action", automation, tc.wantSafe)
			}
		})
	}
}

// TestAutomationReportsTheDNSConnection checks how the account's DNS connection changes the
// automation answer. In each case, the plan must match the OpenAPI document.
func TestAutomationReportsTheDNSConnection(t *testing.T) {
	env, client, path := newDNSPlanEnv(t)
	env.platform.DNS.Publish(plannedDomain)
	checkAutomation := func(name string, wantPresent bool, wantCode any) {
		t.Helper()
		automation := env.get(client, path+"/automation")
		if member(automation, "automation.connection_present") != wantPresent || member(automation, "automation.action_required_code") != wantCode ||
			member(automation, "automation.manual_action_required") != (wantCode != nil) || member(automation, "automation.message") == "" || member(automation, "automation.provider") != "cloudflare" {
			t.Errorf("%s: got %v, want connection_present %v and the code %v", name, automation, wantPresent, wantCode)
		}
		env.get(client, path+"/plan")
	}
	checkAutomation("no connection", false, "dns_connection_required")
	provider := env.connectDNS(t, env.accountA)
	checkAutomation("connected", true, nil)
	env.dnsProviders.AddAccount("cloudflare", "one", fake.RefusingDNSProvider{})
	checkAutomation("the provider refuses the credential", true, "dns_credential_rejected")
	env.dnsProviders.AddAccount("cloudflare", "one", &fake.DNSProvider{})
	checkAutomation("the connection has no access to the zone", true, "dns_connection_required")
	provider.Put(plannedDomain, dns.RRSet{Name: plannedDomain, Type: dns.MX, Values: []string{"0 ."}})
	env.dnsProviders.AddAccount("cloudflare", "one", provider)
	checkAutomation("a conflict that only the provider's list shows", true, "dns_conflict")
	if env.dnsProviders.Writes() != 0 {
		t.Errorf("the zones were written %d times, want 0", env.dnsProviders.Writes())
	}
}

// TestDNSPlanNeedsTheMailPlatformOnlyForItsRecords checks that a failure of the mail platform
// affects the plan only when the required records are not stored.
func TestDNSPlanNeedsTheMailPlatformOnlyForItsRecords(t *testing.T) {
	env, client, path := newDNSPlanEnv(t)
	env.platform.DNS.Publish(plannedDomain)
	env.platform.Fail(fake.Fault{Kind: outcome.Down})
	env.get(client, path+"/plan")
	d, err := env.store.DomainByID(t.Context(), env.accountA.account.ID, domainIDOf(path))
	must(t, err)
	d = d.WithRecords(domain.Records{}, time.Now())
	must(t, env.store.SaveDomain(t.Context(), env.accountA.account.ID, d, nil))
	for _, suffix := range []string{"/plan", "/automation"} {
		got := client.expect(call{method: "GET", path: path + suffix, key: env.accountA.key}, 503, "provider_unavailable")
		if got.header.Get("Retry-After") == "" {
			t.Errorf("the answer to %s has no Retry-After", suffix)
		}
	}
}

func TestDNSPlanTimeHasMicroseconds(t *testing.T) {
	env, client, path := newDNSPlanEnv(t)
	env.platform.Advance(123_456_789 * time.Nanosecond)
	checkedAt, _ := env.get(client, path+"/plan")["checked_at"].(string)
	if !strings.HasSuffix(checkedAt, ".123456Z") {
		t.Errorf("checked_at is %s, want six digits after the second: .123456Z", checkedAt)
	}
}

// TestDKIMStatusShowsTheTimeOfTheList checks that the time of a DNS read is the same in the DKIM
// status of a domain and in the list of domains.
func TestDKIMStatusShowsTheTimeOfTheList(t *testing.T) {
	env := newTestEnv(t)
	client, _ := env.serveWithDomain(t)
	env.publishRecords(t, env.accountA, plannedDomain)
	domainsPath := "/v1/tenants/" + string(env.accountA.tenant) + "/domains"
	client.expect(call{method: "POST", path: domainsPath + "/" + plannedDomain + "/verify", body: "{}", key: env.accountA.key}, 200, "")
	env.platform.Advance(123_456_789 * time.Nanosecond)
	status := env.get(client, domainsPath+"/"+plannedDomain+"/dkim-status")["last_checked"]
	listed := env.get(client, domainsPath)["domains"].([]any)[0].(map[string]any)["last_checked"]
	if status == nil || status != listed {
		t.Errorf("last_checked is %v in the DKIM status and %v in the list, want the same time", status, listed)
	}
}

// countWakeups returns the number of wake-ups of the job or run with this id.
func countWakeups(q *fake.Wakeups, id string) (n int) {
	for _, wakeup := range q.All() {
		if wakeup.ID == id {
			n++
		}
	}
	return n
}

// newProvisioningEnv returns an environment in which account A may provision plannedDomain, a
// client, and the path of the domain's DNS.
func newProvisioningEnv(t *testing.T) (env *testEnv, client *apiClient, path string) {
	t.Helper()
	env = newTestEnv(t)
	client, path = env.serveWithProvisionableDomain(t)
	return env, client, path
}

// serveWithProvisionableDomain is newProvisioningEnv for an existing environment.
func (env *testEnv) serveWithProvisionableDomain(t *testing.T) (client *apiClient, path string) {
	t.Helper()
	env.dnsProviders.AddProvider(cloudflare)
	client, path = env.serveWithDomain(t)
	env.changePlan(t, env.accountA, "complete", 0)
	env.platform.DNS.Publish(plannedDomain)
	env.connectDNS(t, env.accountA)
	return client, path
}

func (env *testEnv) changePlan(t *testing.T, owner testAccount, name string, slots int) {
	t.Helper()
	if _, err := env.store.ChangePlan(t.Context(), owner.account.ID, name, slots); err != nil {
		t.Fatal(err)
	}
}

// connectDNS adds a DNS connection with access to the zone plannedDomain to the account. It returns
// the fake provider behind the connection.
func (env *testEnv) connectDNS(t *testing.T, owner testAccount) *fake.DNSProvider {
	t.Helper()
	provider := &fake.DNSProvider{}
	provider.AddZone(plannedDomain)
	provider.Put(plannedDomain, dns.RRSet{Name: plannedDomain, Type: dns.NS, Values: []string{"ns1.fake.test", "ns2.fake.test"}})
	env.dnsProviders.AddAccount("cloudflare", "one", provider)
	_, err := env.options.Domains.Connections.Add(t.Context(), dnsconnections.NewConnection{Account: owner.account.ID, Provider: "cloudflare",
		Credential: secret.Credential{Secrets: map[string]secret.Text{"token": secret.New("one")}}})
	must(t, err)
	return provider
}

// startProvisioning starts a run through the API and returns the ids of the run and of its job.
func (env *testEnv) startProvisioning(client *apiClient, path string) (run, job string) {
	client.t.Helper()
	got := client.expect(call{method: "POST", path: path + "/provision", key: env.accountA.key}, 202, "")
	return member(got.body, "run.id").(string), got.body["jobs"].([]any)[0].(map[string]any)["id"].(string)
}

// addRun stores a run with one job for the account's domain and returns their ids.
func (env *testEnv) addRun(t *testing.T, owner testAccount, d domain.Domain) (run, job string) {
	t.Helper()
	now := time.Now().UTC()
	run, job = newID(now), newID(now)
	j := provisioning.NewJob(job, run, owner.account.ID, d.ID, owner.tenant, d.Name, now)
	must(t, env.store.CreateRun(t.Context(), provisioning.Run{ID: run, Account: owner.account.ID, TotalDomains: 1, CreatedAt: now}, []provisioning.Job{j}, nil))
	return run, job
}

// updateJob claims a job as a worker does, applies change to it and saves it.
func (env *testEnv) updateJob(t *testing.T, id string, change func(*provisioning.Job)) {
	t.Helper()
	job, isClaimed, err := env.store.ClaimJob(t.Context(), id, time.Minute, time.Now())
	if err != nil || !isClaimed {
		t.Fatalf("claimed is %v, want true (%v)", isClaimed, err)
	}
	change(&job)
	if stillHeld, err := env.store.SaveJob(t.Context(), job); err != nil || !stillHeld {
		t.Fatalf("the lease is held: %v, want true (%v)", stillHeld, err)
	}
}

func (env *testEnv) addTrialKey(t *testing.T, owner testAccount) string {
	t.Helper()
	key, text, err := access.NewKey(rand.Reader, "tny", access.Trial, owner.account.ID, "test", time.Now())
	must(t, err)
	must(t, env.store.AddKey(t.Context(), key))
	return text.Reveal()
}

func (env *testEnv) updateTenant(t *testing.T, owner testAccount, change func(*tenant.Tenant)) {
	t.Helper()
	stored, err := env.store.Tenant(t.Context(), owner.account.ID, owner.tenant)
	must(t, err)
	change(&stored)
	must(t, env.store.SaveTenant(t.Context(), owner.account.ID, stored))
}
