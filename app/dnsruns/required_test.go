// SPDX-License-Identifier: Apache-2.0

package dnsruns

import (
	"context"
	"testing"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/core/tenant"
)

// restless is a provider whose zone changes before each write.
type restless struct{ *published }

func (restless) Apply(context.Context, dns.Zone, []dns.Change) ([]dns.RRSet, error) {
	return nil, dns.Changed()
}

// forgetful is a provider that takes the credential for reads only.
type forgetful struct{ *published }

func (forgetful) Apply(context.Context, dns.Zone, []dns.Change) ([]dns.RRSet, error) {
	return nil, &outcome.Error{Kind: outcome.Refused, Code: fault.AccessDenied, Cause: "test", Detail: "no"}
}

// TestWhatAPersonMustDo has a job meet each trouble that a person has to
// settle: what it asks for, and that once settled a retry gets it there.
func TestWhatAPersonMustDo(t *testing.T) {
	foreign := dns.RRSet{Name: zone, Type: dns.MX, TTL: 300, Values: []string{"10 mail.example.net"}}
	for required, x := range map[dns.ActionRequired]struct {
		trouble, settle func(*testing.T, *world)
		stage           provisioning.Stage
	}{
		dns.ConnectionRequired: {
			trouble: func(*testing.T, *world) {},
			settle:  func(t *testing.T, w *world) { w.connect(t, w.provider) },
			stage:   provisioning.StagePlan,
		},
		dns.CredentialNotAccepted: {
			trouble: func(t *testing.T, w *world) { w.connect(t, forgetful{w.provider}) },
			settle:  func(_ *testing.T, w *world) { w.providers.Hold("cloudflare", "token", w.provider) },
			stage:   provisioning.StageApply,
		},
		dns.ConflictToSettle: {
			trouble: func(t *testing.T, w *world) {
				w.connect(t, w.provider)
				w.provider.Put(zone, foreign)
			},
			settle: func(_ *testing.T, w *world) { w.provider.Put(zone, dns.RRSet{Name: zone, Type: dns.MX}) },
			stage:  provisioning.StagePlan,
		},
		dns.ReadUnreliable: {
			trouble: func(t *testing.T, w *world) {
				w.connect(t, w.provider)
				w.fake.DNS.Trouble("test")
			},
			settle: func(_ *testing.T, w *world) { w.fake.DNS.Trouble("") },
			stage:  provisioning.StagePlan,
		},
		provisioning.ZoneChanged: {
			trouble: func(t *testing.T, w *world) { w.connect(t, restless{w.provider}) },
			settle:  func(_ *testing.T, w *world) { w.providers.Hold("cloudflare", "token", w.provider) },
			stage:   provisioning.StageApply,
		},
		provisioning.PropagationTimeout: {
			trouble: func(t *testing.T, w *world) {
				w.connect(t, w.provider)
				w.provider.hidden = true
			},
			settle: func(t *testing.T, w *world) {
				w.provider.hidden = false
				w.provider.show(t.Context(), dns.Zone{ID: zone, Name: zone})
			},
			stage: provisioning.StagePropagation,
		},
		provisioning.TenantAccessLost: {
			trouble: func(t *testing.T, w *world) {
				w.connect(t, w.provider)
				w.fake.Revoke(theTenant, "consent")
			},
			settle: func(t *testing.T, w *world) {
				w.fake.Connect(theTenant, fake.Setup{})
				w.change(t, func(x *tenant.Tenant) { x.Consent = tenant.ConsentGranted })
				_, err := w.fake.For(theTenant).AddDomain(t.Context(), zone)
				must(t, err)
			},
			stage: provisioning.StageDomainVerification,
		},
		provisioning.DomainUnavailable:   troubleAt("VerifyDomain", outcome.Refused, fault.DomainUnavailable, provisioning.StageDomainVerification),
		provisioning.VerificationTimeout: troubleAt("VerifyDomain", outcome.Refused, fault.VerificationFailed, provisioning.StageDomainVerification),
		provisioning.DKIMTimeout:         troubleAt("EnableSigning", outcome.Refused, fault.DKIMNotReady, provisioning.StageDKIMEnablement),
	} {
		t.Run(string(required), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			x.trouble(t, w)
			id := w.begin(t).ID
			j := w.run(t, w.Worker, id)
			if j.Status != provisioning.ActionRequired || j.Required != required || j.Stage != x.stage || j.Message == "" {
				t.Fatalf("the job stands %+v", j)
			}
			if j.Required == dns.ConflictToSettle && w.providers.Writes() != 0 {
				t.Error("a zone with a conflict was written")
			}
			x.settle(t, w)
			_, err := w.store.RetryJob(t.Context(), w.acc.ID, id, w.clock)
			must(t, err)
			w.healthy(t, w.run(t, w.Worker, id))
		})
	}
}

type trouble = struct {
	trouble, settle func(*testing.T, *world)
	stage           provisioning.Stage
}

// troubleAt has a call of the mail platform end in a refusal until that is settled.
func troubleAt(method string, kind outcome.Kind, code fault.Code, stage provisioning.Stage) trouble {
	return trouble{
		trouble: func(t *testing.T, w *world) {
			w.connect(t, w.provider)
			w.lift = w.fake.Fail(fake.Fault{Method: method, Kind: kind, Code: code})
		},
		settle: func(_ *testing.T, w *world) { w.lift() },
		stage:  stage,
	}
}

// TestUnsupportedProvider: where nothing of ours can write, a person is asked at once.
func TestUnsupportedProvider(t *testing.T) {
	w := newWorld(t)
	w.providers = &fake.DNSProviders{}
	w.Worker = w.worker(reality{w.fake, w.store, w.store, w.providers})
	if j := w.run(t, w.Worker, w.begin(t).ID); j.Required != dns.ProviderUnsupported || j.Provider != "" {
		t.Fatalf("the job stands %+v", j)
	}
}

// TestDomainGone: a job whose domain is gone from the tenant at the platform ends.
func TestDomainGone(t *testing.T) {
	w := newWorld(t)
	w.connect(t, w.provider)
	w.fake.Fail(fake.Fault{Method: "VerifyDomain", Kind: outcome.Refused, Code: fault.DomainNotFound})
	if j := w.run(t, w.Worker, w.begin(t).ID); j.Status != provisioning.Failed || j.EndedAt.IsZero() {
		t.Fatalf("the job stands %+v", j)
	}
}

// TestChangeOfTheCustomerIsNoticed: what a customer writes while the job waits
// stays, and stops the job where it stands against what is needed.
func TestChangeOfTheCustomerIsNoticed(t *testing.T) {
	w := newWorld(t)
	w.connect(t, w.provider)
	id := w.begin(t).ID
	j := w.until(t, id, provisioning.StagePropagation)
	theirs := dns.RRSet{Name: zone, Type: dns.MX, TTL: 300, Values: []string{"10 mail.example.net"}}
	w.provider.Put(zone, theirs)
	w.provider.show(t.Context(), dns.Zone{ID: zone, Name: zone})
	w.wait(j.NextAttemptAt)
	if j = w.run(t, w.Worker, id); j.Required != dns.ConflictToSettle {
		t.Fatalf("the job stands %+v", j)
	}
	held, err := w.provider.Records(t.Context(), dns.Zone{ID: zone, Name: zone})
	must(t, err)
	if !dns.Find(held, zone, dns.MX).Same(theirs) {
		t.Errorf("the customer's MX became %q", dns.Find(held, zone, dns.MX).Values)
	}
}
