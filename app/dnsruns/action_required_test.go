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

// changingZoneProvider is a provider whose zone changes before each write.
type changingZoneProvider struct{ *publishingProvider }

func (changingZoneProvider) Apply(context.Context, dns.Zone, []dns.Change) ([]dns.RRSet, error) {
	return nil, dns.ChangedError()
}

// readOnlyProvider is a provider that accepts the credential only for reads.
type readOnlyProvider struct{ *publishingProvider }

func (readOnlyProvider) Apply(context.Context, dns.Zone, []dns.Change) ([]dns.RRSet, error) {
	return nil, &outcome.Error{Kind: outcome.Refused, Code: fault.AccessDenied, Cause: "test", Detail: "no"}
}

// TestAJobNamesTheActionItRequires checks which action a job requires for a condition that a person
// must fix. A retry succeeds after the fix.
func TestAJobNamesTheActionItRequires(t *testing.T) {
	foreignMX := dns.RRSet{Name: zone, Type: dns.MX, TTL: 300, Values: []string{"10 mail.example.net"}}
	for required, tc := range map[dns.ActionRequired]actionCase{
		dns.ConnectionRequired: {
			cause: func(*testing.T, *fixture) {},
			fix:   func(t *testing.T, fx *fixture) { fx.connect(t, fx.provider) },
			stage: provisioning.StagePlan,
		},
		dns.CredentialRejected: {
			cause: func(t *testing.T, fx *fixture) { fx.connect(t, readOnlyProvider{fx.provider}) },
			fix:   func(_ *testing.T, fx *fixture) { fx.providers.AddAccount("cloudflare", "token", fx.provider) },
			stage: provisioning.StageApply,
		},
		dns.ConflictToResolve: {
			cause: func(t *testing.T, fx *fixture) {
				fx.connect(t, fx.provider)
				fx.provider.Put(zone, foreignMX)
			},
			fix:   func(_ *testing.T, fx *fixture) { fx.provider.Put(zone, dns.RRSet{Name: zone, Type: dns.MX}) },
			stage: provisioning.StagePlan,
		},
		dns.ReadUnreliable: {
			cause: func(t *testing.T, fx *fixture) {
				fx.connect(t, fx.provider)
				fx.fake.DNS.FailReads("test")
			},
			fix:   func(_ *testing.T, fx *fixture) { fx.fake.DNS.FailReads("") },
			stage: provisioning.StagePlan,
		},
		provisioning.ZoneChanged: {
			cause: func(t *testing.T, fx *fixture) { fx.connect(t, changingZoneProvider{fx.provider}) },
			fix:   func(_ *testing.T, fx *fixture) { fx.providers.AddAccount("cloudflare", "token", fx.provider) },
			stage: provisioning.StageApply,
		},
		provisioning.PropagationTimeout: {
			cause: func(t *testing.T, fx *fixture) {
				fx.connect(t, fx.provider)
				fx.provider.hidden = true
			},
			fix: func(t *testing.T, fx *fixture) {
				fx.provider.hidden = false
				fx.provider.show(t.Context(), dns.Zone{ID: zone, Name: zone})
			},
			stage: provisioning.StagePropagation,
		},
		provisioning.TenantAccessLost: {
			cause: func(t *testing.T, fx *fixture) {
				fx.connect(t, fx.provider)
				fx.fake.Revoke(tenantGUID, "consent")
			},
			fix: func(t *testing.T, fx *fixture) {
				fx.fake.Connect(tenantGUID, fake.Setup{})
				fx.changeTenant(t, func(x *tenant.Tenant) { x.Consent, x.Observed.Consent = tenant.ConsentGranted, fx.clock })
				_, err := fx.fake.For(tenantGUID).AddDomain(t.Context(), zone)
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
			tc.cause(t, fx)
			id := fx.createJob(t).ID
			j := fx.run(t, fx.Worker, id)
			if j.Status != provisioning.ActionRequired || j.RequiredAction != required || j.Stage != tc.stage || j.Message == "" {
				t.Fatalf("the job is %+v, want the action %s at the stage %s", j, required, tc.stage)
			}
			if j.RequiredAction == dns.ConflictToResolve && fx.providers.Writes() != 0 {
				t.Error("the job wrote to a zone with a conflict")
			}
			tc.fix(t, fx)
			_, err := fx.store.RetryJob(t.Context(), fx.account.ID, id, fx.clock, nil)
			must(t, err)
			fx.requireHealthy(t, fx.run(t, fx.Worker, id))
		})
	}
}

// actionCase is a condition that a person must fix.
type actionCase struct {
	cause, fix func(*testing.T, *fixture)
	stage      provisioning.Stage // the stage in which the job stops
}

// requiredActionAt returns a case in which the mail platform refuses a call until the condition is
// fixed.
func requiredActionAt(method string, kind outcome.Kind, code fault.Code, stage provisioning.Stage) actionCase {
	return actionCase{
		cause: func(t *testing.T, fx *fixture) {
			fx.connect(t, fx.provider)
			fx.endFailure = fx.fake.Fail(fake.Fault{Method: method, Kind: kind, Code: code})
		},
		fix:   func(_ *testing.T, fx *fixture) { fx.endFailure() },
		stage: stage,
	}
}

// TestAnUnsupportedProviderRequiresAnAction checks that a job requires an action at once when the
// DNS provider of the zone has no plugin.
func TestAnUnsupportedProviderRequiresAnAction(t *testing.T) {
	fx := newFixture(t)
	fx.providers = &fake.DNSProviders{}
	fx.Worker = fx.worker(dependencies{fx.fake, fx.store, fx.store, fx.providers})
	if j := fx.run(t, fx.Worker, fx.createJob(t).ID); j.RequiredAction != dns.ProviderUnsupported || j.Provider != "" {
		t.Fatalf("the job is %+v, want the action for an unsupported provider", j)
	}
}

func TestAJobEndsWhenItsDomainWasRemoved(t *testing.T) {
	fx := newFixture(t)
	fx.connect(t, fx.provider)
	fx.fake.Fail(fake.Fault{Method: "VerifyDomain", Kind: outcome.Refused, Code: fault.DomainNotFound})
	if j := fx.run(t, fx.Worker, fx.createJob(t).ID); j.Status != provisioning.Failed || j.EndedAt.IsZero() {
		t.Fatalf("the job is %+v, want it failed", j)
	}
}

// TestChangeOfTheCustomerIsNoticed checks a conflicting record that a customer writes while the job
// waits. The record is kept, and the job stops.
func TestChangeOfTheCustomerIsNoticed(t *testing.T) {
	fx := newFixture(t)
	fx.connect(t, fx.provider)
	id := fx.createJob(t).ID
	j := fx.runUntil(t, id, provisioning.StagePropagation)
	foreignMX := dns.RRSet{Name: zone, Type: dns.MX, TTL: 300, Values: []string{"10 mail.example.net"}}
	fx.provider.Put(zone, foreignMX)
	fx.provider.show(t.Context(), dns.Zone{ID: zone, Name: zone})
	fx.wait(j.NextAttemptAt)
	if j = fx.run(t, fx.Worker, id); j.RequiredAction != dns.ConflictToResolve {
		t.Fatalf("the job is %+v, want the action for a conflict", j)
	}
	records, err := fx.provider.Records(t.Context(), dns.Zone{ID: zone, Name: zone})
	must(t, err)
	if !dns.Find(records, zone, dns.MX).Same(foreignMX) {
		t.Errorf("the customer's MX is now %q, want it unchanged", dns.Find(records, zone, dns.MX).Values)
	}
}

// readCountingProvider is a provider that calls onRead before each read of the records, with the
// number of the read.
type readCountingProvider struct {
	*publishingProvider
	reads  int
	onRead func(number int)
}

func (p *readCountingProvider) Records(ctx context.Context, z dns.Zone) ([]dns.RRSet, error) {
	p.reads++
	p.onRead(p.reads)
	return p.publishingProvider.Records(ctx, z)
}

// TestChangeBeforeTheWriteIsNoticed checks records that a customer writes after the job has made
// its plan and before it writes the plan. The public DNS does not show these records yet.
func TestChangeBeforeTheWriteIsNoticed(t *testing.T) {
	fx := newFixture(t)
	foreignMX := dns.RRSet{Name: zone, Type: dns.MX, TTL: 300, Values: []string{"10 mail.example.net"}}
	provider := &readCountingProvider{publishingProvider: fx.provider, onRead: func(number int) {
		if number == 2 { // the first read is for the plan
			fx.provider.Put(zone, foreignMX)
		}
	}}
	fx.connect(t, provider)
	if j := fx.run(t, fx.Worker, fx.createJob(t).ID); j.RequiredAction != dns.ConflictToResolve || provider.reads != 2 || len(fx.provider.applied) != 0 {
		t.Fatalf("after %d reads and %d writes the job is %+v, want a conflict after 2 reads and no write", provider.reads, len(fx.provider.applied), j)
	}
}

// TestStepsShareReads checks that a plan and the write of the plan share one read of the public
// DNS, and that the write and the read after it share one read of the records at the provider.
func TestStepsShareReads(t *testing.T) {
	fx := newFixture(t)
	provider := &readCountingProvider{publishingProvider: fx.provider, onRead: func(int) {}}
	fx.connect(t, provider)
	earlierReads := fx.fake.DNS.Reads()
	fx.requireHealthy(t, fx.run(t, fx.Worker, fx.createJob(t).ID))
	// The job writes two plans, without and with DKIM. For each plan it reads the records at the
	// provider three times: for the plan, before the write, and some time after the write. At the
	// end of the job it reads the records once more. For each plan it reads the public DNS three
	// times: for the plan, at once after the write, and some time later. It also reads the public
	// DNS once before it enables DKIM, and once at the end.
	if public := fx.fake.DNS.Reads() - earlierReads; provider.reads != 2*3+1 || public != 2*3+2 {
		t.Errorf("the public DNS was read %d times, want 8; the records at the provider %d times, want 7", public, provider.reads)
	}
}
