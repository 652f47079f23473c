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

// changingZone is a provider whose zone changes before each write.
type changingZone struct{ *published }

func (changingZone) Apply(context.Context, dns.Zone, []dns.Change) ([]dns.RRSet, error) {
	return nil, dns.Changed()
}

// readOnly is a provider that accepts the credential only for reads.
type readOnly struct{ *published }

func (readOnly) Apply(context.Context, dns.Zone, []dns.Change) ([]dns.RRSet, error) {
	return nil, &outcome.Error{Kind: outcome.Refused, Code: fault.AccessDenied, Cause: "test", Detail: "no"}
}

// TestAJobNamesTheActionItRequires checks each condition that a person must fix: the action that
// the job requires, and that a retry succeeds after the fix.
func TestAJobNamesTheActionItRequires(t *testing.T) {
	foreign := dns.RRSet{Name: zone, Type: dns.MX, TTL: 300, Values: []string{"10 mail.example.net"}}
	for required, x := range map[dns.ActionRequired]struct {
		requiredAction, settle func(*testing.T, *fixture)
		stage                  provisioning.Stage
	}{
		dns.ConnectionRequired: {
			requiredAction: func(*testing.T, *fixture) {},
			settle:         func(t *testing.T, fx *fixture) { fx.connect(t, fx.provider) },
			stage:          provisioning.StagePlan,
		},
		dns.CredentialRejected: {
			requiredAction: func(t *testing.T, fx *fixture) { fx.connect(t, readOnly{fx.provider}) },
			settle:         func(_ *testing.T, fx *fixture) { fx.providers.AddAccount("cloudflare", "token", fx.provider) },
			stage:          provisioning.StageApply,
		},
		dns.ConflictToResolve: {
			requiredAction: func(t *testing.T, fx *fixture) {
				fx.connect(t, fx.provider)
				fx.provider.Put(zone, foreign)
			},
			settle: func(_ *testing.T, fx *fixture) { fx.provider.Put(zone, dns.RRSet{Name: zone, Type: dns.MX}) },
			stage:  provisioning.StagePlan,
		},
		dns.ReadUnreliable: {
			requiredAction: func(t *testing.T, fx *fixture) {
				fx.connect(t, fx.provider)
				fx.fake.DNS.FailReads("test")
			},
			settle: func(_ *testing.T, fx *fixture) { fx.fake.DNS.FailReads("") },
			stage:  provisioning.StagePlan,
		},
		provisioning.ZoneChanged: {
			requiredAction: func(t *testing.T, fx *fixture) { fx.connect(t, changingZone{fx.provider}) },
			settle:         func(_ *testing.T, fx *fixture) { fx.providers.AddAccount("cloudflare", "token", fx.provider) },
			stage:          provisioning.StageApply,
		},
		provisioning.PropagationTimeout: {
			requiredAction: func(t *testing.T, fx *fixture) {
				fx.connect(t, fx.provider)
				fx.provider.hidden = true
			},
			settle: func(t *testing.T, fx *fixture) {
				fx.provider.hidden = false
				fx.provider.show(t.Context(), dns.Zone{ID: zone, Name: zone})
			},
			stage: provisioning.StagePropagation,
		},
		provisioning.TenantAccessLost: {
			requiredAction: func(t *testing.T, fx *fixture) {
				fx.connect(t, fx.provider)
				fx.fake.Revoke(theTenant, "consent")
			},
			settle: func(t *testing.T, fx *fixture) {
				fx.fake.Connect(theTenant, fake.Setup{})
				fx.change(t, func(x *tenant.Tenant) { x.Consent, x.Observed.Consent = tenant.ConsentGranted, fx.clock })
				_, err := fx.fake.For(theTenant).AddDomain(t.Context(), zone)
				must(t, err)
			},
			stage: provisioning.StageDomainVerification,
		},
		provisioning.DomainUnavailable:   requiredActionAt("VerifyDomain", outcome.Refused, fault.DomainUnavailable, provisioning.StageDomainVerification),
		provisioning.VerificationTimeout: requiredActionAt("VerifyDomain", outcome.Refused, fault.VerificationFailed, provisioning.StageDomainVerification),
		provisioning.DKIMTimeout:         requiredActionAt("EnableSigning", outcome.Refused, fault.DKIMNotReady, provisioning.StageDKIMEnablement),
	} {
		t.Run(string(required), func(t *testing.T) {
			t.Parallel()
			fx := newFixture(t)
			x.requiredAction(t, fx)
			id := fx.begin(t).ID
			j := fx.run(t, fx.Worker, id)
			if j.Status != provisioning.ActionRequired || j.Required != required || j.Stage != x.stage || j.Message == "" {
				t.Fatalf("the job is %+v", j)
			}
			if j.Required == dns.ConflictToResolve && fx.providers.Writes() != 0 {
				t.Error("a zone with a conflict was written")
			}
			x.settle(t, fx)
			_, err := fx.store.RetryJob(t.Context(), fx.acc.ID, id, fx.clock, nil)
			must(t, err)
			fx.healthy(t, fx.run(t, fx.Worker, id))
		})
	}
}

type actionCase = struct {
	requiredAction, settle func(*testing.T, *fixture)
	stage                  provisioning.Stage
}

// requiredActionAt returns a case in which the mail platform refuses a call until the condition is
// fixed.
func requiredActionAt(method string, kind outcome.Kind, code fault.Code, stage provisioning.Stage) actionCase {
	return actionCase{
		requiredAction: func(t *testing.T, fx *fixture) {
			fx.connect(t, fx.provider)
			fx.lift = fx.fake.Fail(fake.Fault{Method: method, Kind: kind, Code: code})
		},
		settle: func(_ *testing.T, fx *fixture) { fx.lift() },
		stage:  stage,
	}
}

// TestAnUnsupportedProviderRequiresAnAction checks that a job requires an action at once when the
// DNS provider of the zone has no plugin.
func TestAnUnsupportedProviderRequiresAnAction(t *testing.T) {
	fx := newFixture(t)
	fx.providers = &fake.DNSProviders{}
	fx.Worker = fx.worker(dependencies{fx.fake, fx.store, fx.store, fx.providers})
	if j := fx.run(t, fx.Worker, fx.begin(t).ID); j.Required != dns.ProviderUnsupported || j.Provider != "" {
		t.Fatalf("the job is %+v", j)
	}
}

// TestAJobEndsWhenItsDomainWasRemoved checks that a job ends when its domain was removed from the
// tenant at the platform.
func TestAJobEndsWhenItsDomainWasRemoved(t *testing.T) {
	fx := newFixture(t)
	fx.connect(t, fx.provider)
	fx.fake.Fail(fake.Fault{Method: "VerifyDomain", Kind: outcome.Refused, Code: fault.DomainNotFound})
	if j := fx.run(t, fx.Worker, fx.begin(t).ID); j.Status != provisioning.Failed || j.EndedAt.IsZero() {
		t.Fatalf("the job is %+v", j)
	}
}

// TestChangeOfTheCustomerIsNoticed checks records that a customer writes while the job waits. They
// are kept, and stop the job if they conflict with its plan.
func TestChangeOfTheCustomerIsNoticed(t *testing.T) {
	fx := newFixture(t)
	fx.connect(t, fx.provider)
	id := fx.begin(t).ID
	j := fx.runUntil(t, id, provisioning.StagePropagation)
	foreign := dns.RRSet{Name: zone, Type: dns.MX, TTL: 300, Values: []string{"10 mail.example.net"}}
	fx.provider.Put(zone, foreign)
	fx.provider.show(t.Context(), dns.Zone{ID: zone, Name: zone})
	fx.wait(j.NextAttemptAt)
	if j = fx.run(t, fx.Worker, id); j.Required != dns.ConflictToResolve {
		t.Fatalf("the job is %+v", j)
	}
	held, err := fx.provider.Records(t.Context(), dns.Zone{ID: zone, Name: zone})
	must(t, err)
	if !dns.Find(held, zone, dns.MX).Same(foreign) {
		t.Errorf("the customer's MX was changed to %q", dns.Find(held, zone, dns.MX).Values)
	}
}

// readCounter is a provider that calls onRead before each read of the records, with the number of
// the read.
type readCounter struct {
	*published
	reads  int
	onRead func(number int)
}

func (p *readCounter) Records(ctx context.Context, z dns.Zone) ([]dns.RRSet, error) {
	p.reads++
	p.onRead(p.reads)
	return p.published.Records(ctx, z)
}

// TestChangeBeforeTheWriteIsNoticed checks records that a customer writes between the plan and its
// write. The public DNS does not show them yet.
func TestChangeBeforeTheWriteIsNoticed(t *testing.T) {
	fx := newFixture(t)
	foreign := dns.RRSet{Name: zone, Type: dns.MX, TTL: 300, Values: []string{"10 mail.example.net"}}
	at := &readCounter{published: fx.provider, onRead: func(number int) {
		if number == 2 { // the first is of the plan
			fx.provider.Put(zone, foreign)
		}
	}}
	fx.connect(t, at)
	if j := fx.run(t, fx.Worker, fx.begin(t).ID); j.Required != dns.ConflictToResolve || at.reads != 2 || len(fx.provider.applied) != 0 {
		t.Fatalf("after %d reads and %d writes the job is %+v", at.reads, len(fx.provider.applied), j)
	}
}

// TestPlanAndWriteShareARead checks that a plan and its write share one read of the public DNS, and
// that each of them reads the records at the provider.
func TestPlanAndWriteShareARead(t *testing.T) {
	fx := newFixture(t)
	at := &readCounter{published: fx.provider, onRead: func(int) {}}
	fx.connect(t, at)
	before := fx.fake.DNS.Reads()
	fx.healthy(t, fx.run(t, fx.Worker, fx.begin(t).ID))
	// Without and then with DKIM: a plan, its write, and two reads that prove the write. At the
	// end, one check.
	if public := fx.fake.DNS.Reads() - before; at.reads != 9 || public != at.reads-2+1 { // and one before DKIM is enabled
		t.Errorf("the DNS was read %d times, the records at the provider %d times", public, at.reads)
	}
}
