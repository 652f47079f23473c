// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/app/dnsconnections"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

func TestSurveyReportsConflictsWithForeignRecords(t *testing.T) {
	fx := newFixture(t)
	fx.providers.AddProvider(detectedProvider)
	d := fx.addAndVerify(t)
	fx.fake.DNS.Publish(zone, slices.Concat(d.Verification, []dns.Record{
		{Type: dns.MX, Name: zone, Content: "aspmx.l.google.com", Preference: 1},
		{Type: dns.TXT, Name: zone, Content: "v=spf1 ip4:192.0.2.7 ~all"},
		{Type: dns.TXT, Name: "_dmarc." + zone, Content: "v=DMARC1; p=reject"},
		{Type: dns.TXT, Name: "selector1._domainkey." + zone, Content: "v=DKIM1; p=x"},
	})...)
	calls, domainBefore := fx.platformCalls(), fx.storedDomain(t)
	survey := fx.survey(t)
	want := map[dns.Purpose]string{
		dns.Ownership: "preserve present", dns.Inbound: "conflict mx_other_provider", dns.Sending: "update spf_merged",
		dns.Autodiscover: "create missing", dns.Policy: "preserve dmarc_present", dns.Selector1: "conflict dkim_txt_present", dns.Selector2: "create missing",
	}
	if diff := cmp.Diff(want, actions(survey.Plan)); diff != "" {
		t.Errorf("the actions (-want +got):\n%s", diff)
	}
	if survey.Plan.SafeToApply() || len(survey.Plan.Blocking()) != 2 || !survey.Plan.Reliable {
		t.Errorf("the plan is %+v, want two conflicts", survey.Plan)
	}
	if a := survey.Automation(); a.Required != dns.ConnectionRequired || a.Provider.ID != "cloudflare" || a.Connected || a.Safe {
		t.Errorf("the automation is %+v, want the action for a missing connection", a)
	}
	if fx.platformCalls() != calls {
		t.Error("the mail platform was called, although the records are stored")
	}
	if diff := cmp.Diff(domainBefore, fx.storedDomain(t)); diff != "" {
		t.Errorf("the survey changed the domain (-before +after):\n%s", diff)
	}
}

// TestSurveyUsesTheRecordsOfTheProvider checks that a survey uses the records of the provider that
// serves the zone instead of the answers of the name servers.
func TestSurveyUsesTheRecordsOfTheProvider(t *testing.T) {
	fx := newFixture(t)
	fx.providers.AddProvider(detectedProvider)
	d := fx.addAndVerify(t)
	fx.fake.DNS.Publish(zone, d.Verification...)
	selector1, selector2 := d.Signing.Selector1, d.Signing.Selector2
	fx.connect(t, "cloudflare", "blind", &fake.DNSProvider{})
	fx.connect(t, "cloudflare", "one", servingProvider(
		dns.RRSet{Name: selector1.Name, Type: dns.CNAME, Values: []string{selector1.Content}}, dns.RRSet{Name: selector2.Name, Type: dns.CNAME, Values: []string{selector2.Content}}))
	survey := fx.survey(t)
	if got := actions(survey.Plan); got[dns.Selector1] != "preserve present" || got[dns.Selector2] != "preserve present" || got[dns.Ownership] != "create missing" {
		t.Errorf("the actions are %v, want the DKIM selectors preserved and the ownership record created", got)
	}
	if a := survey.Automation(); a.Required != "" || !a.Connected || !a.Safe {
		t.Errorf("the automation is %+v, want it connected and safe", a)
	}
}

// TestSurveyWaitsForNamesThatWereNotRead checks two surveys that are not reliable, because a newer
// record at the provider makes the plan depend on names that were not read. In one survey, the SPF
// record has a new name. In the other survey, the domain's own DMARC record was deleted, so that
// the record of a parent domain applies.
func TestSurveyWaitsForNamesThatWereNotRead(t *testing.T) {
	fx := newFixture(t)
	fx.providers.AddProvider(detectedProvider)
	fx.addAndVerify(t)
	ownPolicy := dns.Record{Type: dns.TXT, Name: "_dmarc." + zone, Content: "v=DMARC1; p=reject"}
	fx.fake.DNS.Publish("crm.test", dns.Record{Type: dns.TXT, Name: "crm.test", Content: "v=spf1 ip4:192.0.2.7 -all"})
	fx.fake.DNS.Publish("test", dns.Record{Type: dns.TXT, Name: "_dmarc.test", Content: "v=DMARC1; p=reject"})
	fx.fake.DNS.Publish(zone, dns.Record{Type: dns.TXT, Name: zone, Content: "v=spf1 ~all"}, ownPolicy)
	provider := servingProvider(dns.RRSet{Name: zone, Type: dns.TXT, Values: []string{"v=spf1 include:crm.test ~all"}},
		dns.RRSet{Name: ownPolicy.Name, Type: dns.TXT, Values: []string{ownPolicy.Content}})
	fx.connect(t, "cloudflare", "one", provider)
	requireUnreliable := func(change string) {
		t.Helper()
		survey := fx.survey(t)
		if a := survey.Automation(); a.Required != dns.ReadUnreliable || survey.Plan.Reliable || survey.Plan.Reason != dns.ReasonProviderAhead {
			t.Errorf("%s: the automation is %+v, and the items of the plan are %+v; want an unreliable read", change, a, survey.Plan.Items)
		}
	}
	requireUnreliable("a new name in the SPF record")
	newSPF := dns.Record{Type: dns.TXT, Name: zone, Content: "v=spf1 include:crm.test ~all"}
	fx.fake.DNS.Publish(zone, newSPF, ownPolicy)
	if got := actions(fx.survey(t).Plan)[dns.Sending]; got != "update spf_merged" {
		t.Errorf("after the new name was read: got %s, want update spf_merged", got)
	}
	provider.Put(zone, dns.RRSet{Name: ownPolicy.Name, Type: dns.TXT})
	requireUnreliable("no DMARC record any more")
	fx.fake.DNS.Publish(zone, newSPF)
	if survey := fx.survey(t); actions(survey.Plan)[dns.Policy] != "preserve dmarc_inherited" || !survey.Plan.Reliable {
		t.Errorf("after the parent's DMARC record was read: got %v, want a reliable plan with preserve dmarc_inherited", actions(survey.Plan))
	}
}

// TestReplanReadsNewNames checks that Replan reads the public DNS again if the SPF record was
// changed after the survey and has new names.
func TestReplanReadsNewNames(t *testing.T) {
	fx := newFixture(t)
	fx.providers.AddProvider(detectedProvider)
	fx.addAndVerify(t)
	provider := servingProvider()
	fx.connect(t, "cloudflare", "one", provider)
	survey := fx.survey(t)
	const newSPF = "v=spf1 include:crm.test ~all"
	fx.fake.DNS.Publish("crm.test", dns.Record{Type: dns.TXT, Name: "crm.test", Content: "v=spf1 ip4:192.0.2.7 -all"})
	fx.fake.DNS.Publish(zone, dns.Record{Type: dns.TXT, Name: zone, Content: newSPF})
	provider.Put(zone, dns.RRSet{Name: zone, Type: dns.TXT, Values: []string{newSPF}})
	survey, err := fx.Replan(t.Context(), fx.account.ID, survey)
	must(t, err)
	if got := actions(survey.Plan)[dns.Sending]; got != "update spf_merged" || !survey.Plan.Reliable {
		t.Errorf("the action is %s, and the reason of the plan %q; want update spf_merged, and a reliable plan", got, survey.Plan.Reason)
	}
}

// TestSurveyReplacesOnlyManagedRecords checks that a plan replaces a managed record but not an
// equal foreign record.
func TestSurveyReplacesOnlyManagedRecords(t *testing.T) {
	fx := newFixture(t)
	d := fx.addAndVerify(t)
	oldRecord := dns.Record{Type: dns.CNAME, Name: "autodiscover." + zone, Content: "autodiscover.old.test"}
	fx.fake.DNS.Publish(zone, oldRecord)
	if got := actions(fx.survey(t).Plan)[dns.Autodiscover]; got != "conflict autodiscover_taken" {
		t.Errorf("a foreign record: got %s, want conflict autodiscover_taken", got)
	}
	id, err := fx.store.IntendWrite(t.Context(), fx.account.ID, dns.Write{DomainID: d.ID,
		Written: []dns.Written{{Purpose: dns.Autodiscover, Name: oldRecord.Name, Type: oldRecord.Type, Value: oldRecord.Content}}})
	must(t, err)
	if got := actions(fx.survey(t).Plan)[dns.Autodiscover]; got != "conflict autodiscover_taken" {
		t.Errorf("a write that was intended and not confirmed: got %s, want conflict autodiscover_taken", got)
	}
	must(t, fx.store.ConfirmWrite(t.Context(), fx.account.ID, id))
	if got := actions(fx.survey(t).Plan)[dns.Autodiscover]; got != "update own_superseded" {
		t.Errorf("a confirmed write: got %s, want update own_superseded", got)
	}
}

func TestSurveyNamesTheActionForAFailingProvider(t *testing.T) {
	down := &outcome.Error{Kind: outcome.Down}
	refusedSettings := &outcome.Error{Kind: outcome.Refused, Code: fault.InvalidRequest, Detail: "api_url: no public address"}
	tooLarge := &outcome.Error{Kind: outcome.Broken, Cause: outcome.CauseTooLarge}
	explanations := map[error]string{refusedSettings: "(api_url: no public address)", tooLarge: "too large"}
	otherServers := &fake.DNSProvider{} // its zone has different name servers than the delegation
	otherServers.AddZone(zone)
	for _, tc := range []struct {
		name         string
		provider     dns.Provider
		accounts     map[string]ports.DNSProvider // by token
		wantRequired dns.ActionRequired
		wantReliable bool
	}{
		{"a connection that serves the zone", detectedProvider, map[string]ports.DNSProvider{"a": servingProvider()}, "", true},
		{"a connection to an undetected provider that serves the zone", undetectedProvider, map[string]ports.DNSProvider{"a": servingProvider()}, "", true},
		{"a provider that is down", detectedProvider, map[string]ports.DNSProvider{"a": brokenProvider{servingProvider(), down, nil}}, dns.ReadUnreliable, false},
		{"a provider that throttles the read of records", detectedProvider, map[string]ports.DNSProvider{"a": brokenProvider{servingProvider(), nil, &outcome.Error{Kind: outcome.Throttled}}}, dns.ReadUnreliable, false},
		{"an undetected provider with a broken answer", undetectedProvider, map[string]ports.DNSProvider{"a": brokenProvider{servingProvider(), &outcome.Error{Kind: outcome.Broken}, nil}}, dns.ReadUnreliable, false},
		{"a refused credential", detectedProvider, map[string]ports.DNSProvider{"a": fake.RefusingDNSProvider{}}, dns.CredentialRejected, true},
		{"a credential that may not read records", detectedProvider, map[string]ports.DNSProvider{"a": brokenProvider{servingProvider(), nil, &outcome.Error{Kind: outcome.Refused, Code: fault.AccessDenied}}}, dns.CredentialRejected, true},
		{"refused settings", detectedProvider, map[string]ports.DNSProvider{"a": brokenProvider{servingProvider(), refusedSettings, nil}}, dns.ConnectionRequired, true},
		{"settings that are refused at the read of records", detectedProvider, map[string]ports.DNSProvider{"a": brokenProvider{servingProvider(), nil, refusedSettings}}, dns.ConnectionRequired, true},
		{"refused settings of an undetected provider", undetectedProvider, map[string]ports.DNSProvider{"a": brokenProvider{servingProvider(), refusedSettings, nil}}, dns.ConnectionRequired, true},
		{"a zone that is too large", detectedProvider, map[string]ports.DNSProvider{"a": brokenProvider{servingProvider(), nil, tooLarge}}, dns.ReadUnreliable, false},
		{"one refused credential, and one that serves the zone", detectedProvider, map[string]ports.DNSProvider{"a": fake.RefusingDNSProvider{}, "b": servingProvider()}, "", true},
		{"a connection that does not have the zone", detectedProvider, map[string]ports.DNSProvider{"a": &fake.DNSProvider{}}, dns.ConnectionRequired, true},
		{"a connection whose zone has other servers", detectedProvider, map[string]ports.DNSProvider{"a": otherServers}, dns.ConnectionRequired, true},
		{"no connection", detectedProvider, nil, dns.ConnectionRequired, true},
		{"no plugin", dns.Provider{ID: "elsewhere", NameServers: []string{"*.elsewhere.test"}}, nil, dns.ProviderUnsupported, true},
		{"a plugin that does not run", dns.Provider{ID: "elsewhere", Undescribed: true}, nil, dns.ReadUnreliable, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fx := newFixture(t)
			fx.providers.AddProvider(tc.provider)
			d := fx.addDomain(t).Domain
			fx.fake.DNS.Publish(zone)
			for _, token := range []string{"a", "b"} {
				if account := tc.accounts[token]; account != nil {
					fx.connect(t, tc.provider.ID, token, account)
				}
			}
			survey := fx.survey(t)
			if a := survey.Automation(); a.Required != tc.wantRequired || a.Message == "" || survey.Plan.Reliable != tc.wantReliable || a.Safe != tc.wantReliable {
				t.Fatalf("the automation is %+v, want the action %q; reliable %v, want %v", a, tc.wantRequired, survey.Plan.Reliable, tc.wantReliable)
			}
			if b, ok := tc.accounts["a"].(brokenProvider); ok {
				explanation := explanations[b.zoneErr] + explanations[b.recordsErr]
				if !strings.Contains(survey.Automation().Message, explanation) || !strings.Contains(survey.Automation().Message, tc.provider.Title) {
					t.Errorf("the message is %q, want %q and %q in it", survey.Automation().Message, explanation, tc.provider.Title)
				}
			}
			if !tc.wantReliable && survey.Plan.Reason != "provider_unavailable" {
				t.Errorf("the reason is %q, want provider_unavailable", survey.Plan.Reason)
			}
			if got := actions(survey.Plan)[dns.Ownership]; got != "create missing" || survey.Domain.ID != d.ID {
				t.Errorf("the plan has the actions %v, want to create the ownership record", actions(survey.Plan))
			}
		})
	}
}

// TestSurveyFailsIfTheCredentialCannotBeDecrypted checks that a survey with a stored credential
// that cannot be decrypted is unavailable, because only the operator can correct it. The survey
// succeeds if it does not need this credential.
func TestSurveyFailsIfTheCredentialCannotBeDecrypted(t *testing.T) {
	both := []dns.Provider{detectedProvider, undetectedProvider}
	for _, tc := range []struct {
		name       string
		providers  []dns.Provider
		unreadable string // the provider of the connection whose credential cannot be decrypted
		other      string // the provider of a connection that serves the zone, or ""
		fails      bool
	}{
		{"a connection to the detected provider", both, detectedProvider.ID, "", true},
		{"a connection to a provider that may serve the zone", both[1:], undetectedProvider.ID, "", true},
		{"a connection to a provider that does not serve the zone", both, undetectedProvider.ID, "", false},
		{"another connection to the provider serves the zone", both, detectedProvider.ID, detectedProvider.ID, false},
		{"a connection to another provider serves the zone", both, detectedProvider.ID, undetectedProvider.ID, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fx := newFixture(t)
			for _, p := range tc.providers {
				fx.providers.AddProvider(p)
			}
			d := fx.addAndVerify(t)
			fx.connect(t, tc.unreadable, "one", servingProvider())
			connections, err := fx.Connections.List(t.Context(), fx.account.ID)
			must(t, err)
			c, err := fx.store.RemoveDNSConnection(t.Context(), connections[0].ID)
			must(t, err)
			must(t, fx.store.AddDNSConnection(t.Context(), c, []byte("sealed with another keyset")))
			if tc.other != "" {
				fx.connect(t, tc.other, "two", servingProvider())
			}
			survey, err := fx.Survey(t.Context(), fx.account.ID, d.ID)
			var unreadable dnsconnections.UnreadableError
			if failed := errors.As(err, &unreadable) && errors.Is(err, fault.ServiceUnavailable); failed != tc.fails || !tc.fails && err != nil {
				t.Fatalf("the automation is %+v, the error %v; want service_unavailable with an UnreadableError: %t", survey.Automation(), err, tc.fails)
			}
			if !tc.fails && tc.other != "" && survey.Holder.Access.Standing != dns.ZoneAccessible {
				t.Errorf("the access to the zone is %+v, want %s", survey.Holder.Access, dns.ZoneAccessible)
			}
		})
	}
}

// TestSurveyCallsNoMoreProvidersThanItMust checks that a survey first calls the provider that it
// detects from the name servers. If this provider serves the zone, no other provider is called.
func TestSurveyCallsNoMoreProvidersThanItMust(t *testing.T) {
	fx := newFixture(t)
	fx.providers.AddProvider(detectedProvider)
	fx.providers.AddProvider(undetectedProvider)
	fx.addDomain(t)
	fx.connect(t, "powerdns", "other", brokenProvider{servingProvider(), errors.New("called"), nil})
	fx.connect(t, "cloudflare", "one", servingProvider())
	callsBefore := fx.providers.Calls()
	if a := fx.survey(t).Automation(); a.Required != "" {
		t.Errorf("the automation is %+v, want no required action", a)
	}
	if calls := fx.providers.Calls() - callsBefore; calls != 2 {
		t.Errorf("the providers got %d calls, want 2: Zone and Records", calls)
	}
}

func TestSurveyOfAnUnreliableReadCallsNoProvider(t *testing.T) {
	fx := newFixture(t)
	fx.providers.AddProvider(detectedProvider)
	fx.addAndVerify(t)
	fx.connect(t, "cloudflare", "one", servingProvider())
	calls := fx.providers.Calls()
	fx.fake.DNS.FailReads("zone_cut_unknown")
	survey := fx.survey(t)
	if a := survey.Automation(); a.Required != dns.ReadUnreliable || a.Safe || survey.Plan.Reason != "zone_cut_unknown" || !strings.Contains(a.Message, "zone_cut_unknown") {
		t.Errorf("the automation is %+v, want the action for an unreliable read", a)
	}
	if fx.providers.Calls() != calls {
		t.Error("a provider was called, although the zone is not known")
	}
}

func TestSurveyOfAnUnknownOrAnotherAccountsDomainIsRefused(t *testing.T) {
	fx := newFixture(t)
	d := fx.addAndVerify(t)
	fx.connect(t, "cloudflare", "one", servingProvider())
	platformCalls, providerCalls, reads := fx.platformCalls(), fx.providers.Calls(), fx.fake.DNS.Reads()
	for _, tc := range []struct {
		owner access.AccountID
		id    string
	}{{"0e9d7c1a-4b52-4f60-8a3e-9d2f1c7b6a55", d.ID}, {fx.account.ID, "0e9d7c1a-4b52-4f60-8a3e-9d2f1c7b6a55"}} {
		_, err := fx.Survey(t.Context(), tc.owner, tc.id)
		requireRefusal(t, err, fault.DomainNotFound)
	}
	if fx.platformCalls() != platformCalls || fx.providers.Calls() != providerCalls || fx.fake.DNS.Reads() != reads {
		t.Error("the survey called the mail platform or a provider, or read the DNS")
	}
}

func TestSurveyWithACancelledContextFails(t *testing.T) {
	fx := newFixture(t)
	d := fx.addAndVerify(t)
	ctx, cancel := context.WithCancel(t.Context())
	fx.DNS = cancelingReader{fx.fake.DNS, cancel}
	_, err := fx.Survey(ctx, fx.account.ID, d.ID)
	requireRefusal(t, err, fault.ProviderTimeout)
}

// cancelingReader cancels the caller's context during a read.
type cancelingReader struct {
	ports.DNSReader
	cancel context.CancelFunc
}

func (c cancelingReader) Read(ctx context.Context, owner access.AccountID, name string, wanted ...dns.Desired) (dns.ZoneRead, error) {
	c.cancel()
	return c.DNSReader.Read(ctx, owner, name, wanted...)
}

// TestSurveyPlansTheOperatorsDMARC checks that a domain without a DMARC record gets the record that
// the operator has set, or DefaultPolicy.
func TestSurveyPlansTheOperatorsDMARC(t *testing.T) {
	fx := newFixture(t)
	fx.addDomain(t)
	for _, record := range []string{"", "v=DMARC1; p=none; rua=mailto:dmarc@example.com"} {
		fx.DMARC = record
		want := dns.DefaultPolicy
		if record != "" {
			want = record
		}
		i := slices.IndexFunc(fx.survey(t).Plan.Items, func(i dns.Item) bool { return i.Purpose == dns.Policy && i.Desired == want && i.Action == dns.Create })
		if i < 0 {
			t.Errorf("with the setting %q, the plan does not create the DMARC record: %+v", record, fx.survey(t).Plan.Items)
		}
	}
}
