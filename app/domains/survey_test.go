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
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

func TestSurveyOfAMess(t *testing.T) {
	h := newFixture(t)
	h.providers.AddProvider(cloud)
	d := h.verified(t)
	h.fake.DNS.Publish(zone, slices.Concat(d.Verification, []dns.Record{
		{Type: dns.MX, Name: zone, Content: "aspmx.l.google.com", Preference: 1},
		{Type: dns.TXT, Name: zone, Content: "v=spf1 ip4:192.0.2.7 ~all"},
		{Type: dns.TXT, Name: "_dmarc." + zone, Content: "v=DMARC1; p=reject"},
		{Type: dns.TXT, Name: "selector1._domainkey." + zone, Content: "v=DKIM1; p=x"},
	})...)
	calls, before := h.platformCalls(), h.stored(t)
	v := h.survey(t)
	want := map[dns.Purpose]string{
		dns.Ownership: "preserve present", dns.Inbound: "conflict mx_other_provider", dns.Sending: "update spf_merged",
		dns.Autodiscover: "create missing", dns.Policy: "preserve dmarc_present", dns.Selector1: "conflict dkim_txt_present", dns.Selector2: "create missing",
	}
	if diff := cmp.Diff(want, actions(v.Plan)); diff != "" {
		t.Error(diff)
	}
	if v.Plan.SafeToApply() || len(v.Plan.Blocking()) != 2 || !v.Plan.Reliable {
		t.Errorf("got %+v", v.Plan)
	}
	if a := v.Automation(); a.Required != dns.ConnectionRequired || a.Provider.ID != "cloudflare" || a.Connected || a.Safe {
		t.Errorf("got %+v", a)
	}
	if h.platformCalls() != calls {
		t.Error("the mail platform was called, although the records are stored")
	}
	if diff := cmp.Diff(before, h.stored(t)); diff != "" {
		t.Errorf("the domain was changed: %s", diff)
	}
}

// TestSurveyTakesTheProvidersOwnList checks that the provider's records replace answers that name
// servers flatten or expand from wildcards.
func TestSurveyTakesTheProvidersOwnList(t *testing.T) {
	h := newFixture(t)
	h.providers.AddProvider(cloud)
	d := h.verified(t)
	h.fake.DNS.Publish(zone, d.Verification...)
	s1, s2 := d.Signing.Selector1, d.Signing.Selector2
	h.connect(t, "cloudflare", "blind", &fake.DNSProvider{})
	h.connect(t, "cloudflare", "one", serves(
		dns.RRSet{Name: s1.Name, Type: dns.CNAME, Values: []string{s1.Content}}, dns.RRSet{Name: s2.Name, Type: dns.CNAME, Values: []string{s2.Content}}))
	v := h.survey(t)
	if got := actions(v.Plan); got[dns.Selector1] != "preserve present" || got[dns.Selector2] != "preserve present" || got[dns.Ownership] != "create missing" {
		t.Errorf("got %v", got)
	}
	if a := v.Automation(); a.Required != "" || !a.Connected || !a.Safe {
		t.Errorf("got %+v", a)
	}
}

// TestSurveyReplacesOnlyManagedRecords checks that a plan replaces a managed record but not an
// equal foreign one.
func TestSurveyReplacesOnlyManagedRecords(t *testing.T) {
	h := newFixture(t)
	d := h.verified(t)
	old := dns.Record{Type: dns.CNAME, Name: "autodiscover." + zone, Content: "autodiscover.old.test"}
	h.fake.DNS.Publish(zone, old)
	if got := actions(h.survey(t).Plan)[dns.Autodiscover]; got != "conflict autodiscover_taken" {
		t.Errorf("a foreign record: %s", got)
	}
	id, err := h.store.IntendWrite(t.Context(), h.acc.ID, dns.Write{DomainID: d.ID,
		Written: []dns.Written{{Purpose: dns.Autodiscover, Name: old.Name, Type: old.Type, Value: old.Content}}})
	must(t, err)
	if got := actions(h.survey(t).Plan)[dns.Autodiscover]; got != "conflict autodiscover_taken" {
		t.Errorf("only intended, never confirmed: %s", got)
	}
	must(t, h.store.ConfirmWrite(t.Context(), h.acc.ID, id))
	if got := actions(h.survey(t).Plan)[dns.Autodiscover]; got != "update own_superseded" {
		t.Errorf("confirmed: %s", got)
	}
}

func TestSurveyWithFailingProviders(t *testing.T) {
	down := &outcome.Error{Kind: outcome.Down}
	senseless := &outcome.Error{Kind: outcome.Refused, Code: fault.InvalidRequest, Detail: "api_url: no public address"}
	large := &outcome.Error{Kind: outcome.Broken, Cause: outcome.CauseTooLarge}
	explanations := map[error]string{senseless: "(api_url: no public address)", large: "too large"}
	moved := &fake.DNSProvider{}
	moved.AddZone(zone)
	for _, tt := range []struct {
		name     string
		know     dns.Provider
		at       map[string]ports.DNSProvider
		required dns.ActionRequired
		reliable bool
	}{
		{"serves", cloud, map[string]ports.DNSProvider{"a": serves()}, "", true},
		{"serves, without patterns", own, map[string]ports.DNSProvider{"a": serves()}, "", true},
		{"down", cloud, map[string]ports.DNSProvider{"a": broken{serves(), down, nil}}, dns.ReadUnreliable, false},
		{"throttled at its records", cloud, map[string]ports.DNSProvider{"a": broken{serves(), nil, &outcome.Error{Kind: outcome.Throttled}}}, dns.ReadUnreliable, false},
		{"breaks, without patterns", own, map[string]ports.DNSProvider{"a": broken{serves(), &outcome.Error{Kind: outcome.Broken}, nil}}, dns.ReadUnreliable, false},
		{"refuses", cloud, map[string]ports.DNSProvider{"a": fake.RefusingDNSProvider{DNSProvider: serves()}}, dns.CredentialRejected, true},
		{"refuses its records", cloud, map[string]ports.DNSProvider{"a": broken{serves(), nil, &outcome.Error{Kind: outcome.Refused, Code: fault.AccessDenied}}}, dns.CredentialRejected, true},
		{"refuses its settings", cloud, map[string]ports.DNSProvider{"a": broken{serves(), senseless, nil}}, dns.ConnectionRequired, true},
		{"refuses its settings at the records", cloud, map[string]ports.DNSProvider{"a": broken{serves(), nil, senseless}}, dns.ConnectionRequired, true},
		{"refuses settings, without patterns", own, map[string]ports.DNSProvider{"a": broken{serves(), senseless, nil}}, dns.ConnectionRequired, true},
		{"is too large", cloud, map[string]ports.DNSProvider{"a": broken{serves(), nil, large}}, dns.ReadUnreliable, false},
		{"refuses one, serves another", cloud, map[string]ports.DNSProvider{"a": fake.RefusingDNSProvider{DNSProvider: serves()}, "b": serves()}, "", true},
		{"does not have the zone", cloud, map[string]ports.DNSProvider{"a": &fake.DNSProvider{}}, dns.ConnectionRequired, true},
		{"has it with other servers", cloud, map[string]ports.DNSProvider{"a": moved}, dns.ConnectionRequired, true},
		{"no connection", cloud, nil, dns.ConnectionRequired, true},
		{"no plugin", dns.Provider{ID: "elsewhere", NameServers: []string{"*.elsewhere.test"}}, nil, dns.ProviderUnsupported, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newFixture(t)
			h.providers.AddProvider(tt.know)
			d := h.added(t).Domain
			h.fake.DNS.Publish(zone)
			for _, token := range []string{"a", "b"} {
				if at := tt.at[token]; at != nil {
					h.connect(t, tt.know.ID, token, at)
				}
			}
			v := h.survey(t)
			if a := v.Automation(); a.Required != tt.required || a.Message == "" || v.Plan.Reliable != tt.reliable || a.Safe != tt.reliable {
				t.Fatalf("got %+v, reliable %v", a, v.Plan.Reliable)
			}
			if b, ok := tt.at["a"].(broken); ok {
				explanation := explanations[b.zone] + explanations[b.records]
				if !strings.Contains(v.Automation().Message, explanation) || !strings.Contains(v.Automation().Message, tt.know.Title) {
					t.Errorf("the message is %q", v.Automation().Message)
				}
			}
			if !tt.reliable && v.Plan.Reason != "provider_unavailable" {
				t.Errorf("got %q", v.Plan.Reason)
			}
			if got := actions(v.Plan)[dns.Ownership]; got != "create missing" || v.Domain.ID != d.ID {
				t.Errorf("there is no plan: %v", actions(v.Plan))
			}
		})
	}
}

// TestSurveyAsksNoMoreProvidersThanItMust checks that the service first asks the provider that it
// detects from the name servers. If this provider serves the zone, no other provider is asked.
func TestSurveyAsksNoMoreProvidersThanItMust(t *testing.T) {
	h := newFixture(t)
	h.providers.AddProvider(cloud)
	h.providers.AddProvider(own)
	h.added(t)
	h.connect(t, "powerdns", "other", broken{serves(), errors.New("asked"), nil})
	h.connect(t, "cloudflare", "one", serves())
	calls := h.providers.Calls()
	if a := h.survey(t).Automation(); a.Required != "" {
		t.Errorf("got %+v", a)
	}
	if asked := h.providers.Calls() - calls; asked != 2 {
		t.Errorf("%d calls, want zone and records", asked)
	}
}

func TestSurveyOfAnUnreliableRead(t *testing.T) {
	h := newFixture(t)
	h.providers.AddProvider(cloud)
	h.verified(t)
	h.connect(t, "cloudflare", "one", serves())
	calls := h.providers.Calls()
	h.fake.DNS.FailReads("zone_cut_unknown")
	v := h.survey(t)
	if a := v.Automation(); a.Required != dns.ReadUnreliable || a.Safe || v.Plan.Reason != "zone_cut_unknown" || !strings.Contains(a.Message, "zone_cut_unknown") {
		t.Errorf("got %+v", a)
	}
	if h.providers.Calls() != calls {
		t.Error("a provider was called, although the zone is not known")
	}
}

func TestSurveyOfAForeignDomainIsRefused(t *testing.T) {
	h := newFixture(t)
	d := h.verified(t)
	h.connect(t, "cloudflare", "one", serves())
	platform, providers, reads := h.platformCalls(), h.providers.Calls(), h.fake.DNS.Reads()
	for _, tt := range []struct {
		owner access.AccountID
		id    string
	}{{"0e9d7c1a-4b52-4f60-8a3e-9d2f1c7b6a55", d.ID}, {h.acc.ID, "0e9d7c1a-4b52-4f60-8a3e-9d2f1c7b6a55"}} {
		_, err := h.Survey(t.Context(), tt.owner, tt.id)
		refused(t, err, fault.DomainNotFound)
	}
	if h.platformCalls() != platform || h.providers.Calls() != providers || h.fake.DNS.Reads() != reads {
		t.Error("a provider was called")
	}
}

func TestSurveyInNoTime(t *testing.T) {
	h := newFixture(t)
	d := h.verified(t)
	ctx, cancel := context.WithCancel(t.Context())
	h.DNS = cancelingReader{h.fake.DNS, cancel}
	_, err := h.Survey(ctx, h.acc.ID, d.ID)
	refused(t, err, fault.ProviderTimeout)
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

// TestSurveyWithTheOperatorsDMARC checks that a domain without a DMARC record gets the operator's.
func TestSurveyWithTheOperatorsDMARC(t *testing.T) {
	h := newFixture(t)
	h.added(t)
	for _, record := range []string{"", "v=DMARC1; p=none; rua=mailto:dmarc@example.com"} {
		h.DMARC = record
		want := dns.DefaultPolicy
		if record != "" {
			want = record
		}
		i := slices.IndexFunc(h.survey(t).Plan.Items, func(i dns.Item) bool { return i.Purpose == dns.Policy && i.Desired == want && i.Action == dns.Create })
		if i < 0 {
			t.Errorf("%q: %+v", record, h.survey(t).Plan.Items)
		}
	}
}
