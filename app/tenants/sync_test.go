// SPDX-License-Identifier: Apache-2.0

package tenants_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/app/tenants"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
)

// newConnectedFixture returns a fixture with a tenant of this setup, connected to the account ann.
func newConnectedFixture(t *testing.T, setup fake.Setup) *fixture {
	t.Helper()
	fx := newFixture(t)
	setup.Name = "One"
	fx.platform.AddTenant(guid, setup)
	fx.connect(t, fx.ann, admin)
	return fx
}

func (fx *fixture) sync(t *testing.T) tenants.SyncResult {
	t.Helper()
	synced, err := fx.Sync(t.Context(), fx.ann.ID, guid)
	must(t, err)
	return synced
}

// addPlatformObjects adds the verified domain one.test with the mailbox anna, and the unverified
// domain two.test, at the platform.
func (fx *fixture) addPlatformObjects(t *testing.T) {
	t.Helper()
	platform := fx.platform.For(guid)
	for _, name := range []string{"one.test", "two.test"} {
		if _, err := platform.AddDomain(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	records, err := platform.Records(t.Context(), "one.test")
	must(t, err)
	fx.platform.DNS.Publish("one.test", append(records.Verification,
		dns.Record{Type: dns.TXT, Name: "one.test", Content: "v=spf1 -all"},
		dns.Record{Type: dns.TXT, Name: "_dmarc.one.test", Content: "v=DMARC1; p=none"})...)
	fx.platform.DNS.Publish("two.test")
	if _, err := platform.VerifyDomain(t.Context(), "one.test"); err != nil {
		t.Fatal(err)
	}
	must(t, platform.EnableMail(t.Context(), "one.test"))
	if _, err := platform.Bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := platform.CreateMailbox(t.Context(), mailbox.Spec{DisplayName: "Anna", Address: "anna@one.test"}); err != nil {
		t.Fatal(err)
	}
}

func (fx *fixture) storedObjects(t *testing.T) (domains []domain.Domain, mailboxes []mailbox.Mailbox) {
	t.Helper()
	domains, err := fx.store.Domains(t.Context(), fx.ann.ID, guid)
	must(t, err)
	mailboxes, err = fx.store.Mailboxes(t.Context(), fx.ann.ID, guid)
	must(t, err)
	return domains, mailboxes
}

func TestSyncStoresWhatThePlatformReports(t *testing.T) {
	fx := newConnectedFixture(t, fake.Setup{})
	fx.addPlatformObjects(t)
	synced := fx.sync(t)
	if synced.Partial || synced.Bootstrap.Status != "ready" || synced.SMTPAuth.Status != "enabled" || synced.SMTPAuth.Skipped ||
		synced.Discovery.Status != "completed" || synced.MailboxError != "" || len(synced.RunID) != 36 {
		t.Fatalf("got %+v, want a complete sync", synced)
	}
	if got := synced.Tenant; got.DomainCount != 2 || got.DomainsVerified != 1 || got.MailboxCount != 1 || got.UserMailboxes != 1 ||
		!got.LastSyncAt.Equal(fx.now) || got.Name != "One" || got.SMTPAuth != tenant.SMTPAuthEnabled {
		t.Fatalf("the tenant is %+v, want two domains, one of them verified, and one mailbox", got)
	}
	if r := fx.readiness(t); !r.ReadyToProvision || r.NextStep != tenant.NextPublishDNS || r.Discovery != tenant.DiscoveryCompleted {
		t.Fatalf("the readiness is %+v, want it ready to provision, with the next step %q", r, tenant.NextPublishDNS)
	}
	domains, mailboxes := fx.storedObjects(t)
	verifiedDomain, unverifiedDomain := domains[0], domains[1]
	if !verifiedDomain.Verified || !verifiedDomain.MailReady || verifiedDomain.Status.SPF != "v=spf1 -all" || verifiedDomain.Status.DMARC != "v=DMARC1; p=none" ||
		verifiedDomain.Signing.Selector1.Content == "" || len(verifiedDomain.Service) == 0 || verifiedDomain.CheckedAt.IsZero() {
		t.Errorf("one.test is %+v, want it verified with its records and its DNS", verifiedDomain)
	}
	if unverifiedDomain.Verified || len(unverifiedDomain.Verification) != 1 || unverifiedDomain.Status.MX != "missing" || unverifiedDomain.Status.VerificationSeen || unverifiedDomain.CheckedAt.IsZero() {
		t.Errorf("two.test is %+v, want it unverified with its verification record and its DNS", unverifiedDomain)
	}
	if mailboxes[0].Address != "anna@one.test" || mailboxes[0].Provisioned {
		t.Errorf("the mailboxes are %+v, want anna@one.test, which the service did not create", mailboxes)
	}
}

func TestSyncSeesThePublishedVerificationRecord(t *testing.T) {
	fx := newConnectedFixture(t, fake.Setup{})
	fx.addPlatformObjects(t)
	fx.sync(t)
	domains, _ := fx.storedObjects(t)
	fx.platform.DNS.Publish("two.test", domains[1].Verification...)
	fx.sync(t)
	if next := fx.readiness(t).NextStep; next != tenant.NextVerifyDomain {
		t.Fatalf("the next step is %q, want %q", next, tenant.NextVerifyDomain)
	}
}

func TestSyncRemovesMissingObjects(t *testing.T) {
	fx := newConnectedFixture(t, fake.Setup{})
	fx.addPlatformObjects(t)
	fx.sync(t)
	fx.now = fx.now.Add(time.Hour)
	fx.platform.AddTenant(guid, fake.Setup{Name: "One renamed"}) // without domains or mailboxes
	fx.connect(t, fx.ann, admin)
	fx.now = fx.now.Add(time.Minute)
	synced := fx.sync(t)
	domains, mailboxes := fx.storedObjects(t)
	if len(domains) != 0 || len(mailboxes) != 0 || synced.Tenant.Name != "One renamed" {
		t.Fatalf("stored are %v and %v of the tenant %v, want no objects and the new name", domains, mailboxes, synced.Tenant)
	}
}

func TestSyncBeforeTheRoleTakesEffectSkipsSMTPAuth(t *testing.T) {
	for _, tc := range []struct {
		name          string
		setup         fake.Setup
		wantBootstrap string
		wantNextStep  string
	}{
		{"the role has not taken effect yet", fake.Setup{Lag: fake.Lag{Role: time.Hour}}, "pending", tenant.NextSync},
		{"the tenant is dehydrated", fake.Setup{Dehydrated: true}, "pending", tenant.NextSync},
		{"the role is denied", fake.Setup{Denied: true}, "failed", tenant.NextGrantRole},
	} {
		inFakeTime(t, tc.name, func(t *testing.T) {
			fx := newConnectedFixture(t, tc.setup)
			fx.Reconciler.Timeout = 50 * time.Millisecond
			if _, err := fx.platform.For(guid).AddDomain(t.Context(), "one.test"); err != nil {
				t.Fatal(err)
			}
			synced := fx.sync(t)
			if !synced.Partial || synced.Bootstrap.Status != tc.wantBootstrap || synced.Bootstrap.Message == "" ||
				synced.SMTPAuth.Status != "skipped" || !synced.SMTPAuth.Skipped || synced.SMTPAuth.Message == "" {
				t.Fatalf("got %+v, want a partial sync with the bootstrap %q and skipped SMTP AUTH", synced, tc.wantBootstrap)
			}
			if synced.Discovery.Status != "completed" || synced.Tenant.DomainCount != 1 {
				t.Fatalf("got %+v, want a completed discovery with one domain", synced)
			}
			if synced.Tenant.UserMailboxes != 1 {
				t.Errorf("%d user mailboxes, want 1", synced.Tenant.UserMailboxes)
			}
			if fx.platform.Calls("SMTPAuth")+fx.platform.Calls("EnableSMTPAuth") != 0 {
				t.Error("the sync read or enabled SMTP AUTH, want neither")
			}
			if next := fx.readiness(t).NextStep; next != tc.wantNextStep {
				t.Errorf("the next step is %q, want %q", next, tc.wantNextStep)
			}
		})
	}
}

func TestSyncWaitsForABootstrapThatIsAlmostReady(t *testing.T) {
	fx := newConnectedFixture(t, fake.Setup{Dehydrated: true})
	gate := fx.platform.Hold("Bootstrap")
	done := make(chan tenants.SyncResult)
	go func() {
		synced, err := fx.Sync(context.WithoutCancel(t.Context()), fx.ann.ID, guid)
		if err != nil {
			t.Error(err)
		}
		done <- synced
	}()
	<-gate.Arrived()
	fx.platform.Advance(time.Hour)
	gate.Release()
	if synced := <-done; synced.Bootstrap.Status != "ready" || synced.Partial {
		t.Fatalf("got %+v, want a complete sync with a ready mail server", synced)
	}
}

func TestSyncOfAPartlyBrokenPlatformReportsEachPart(t *testing.T) {
	for _, tc := range []struct {
		name          string
		platformFault fake.Fault
		check         func(t *testing.T, fx *fixture, synced tenants.SyncResult)
	}{
		{"domains are not listed", fake.Fault{Method: "Domains", Kind: outcome.Broken}, func(t *testing.T, fx *fixture, synced tenants.SyncResult) {
			if synced.Discovery.Status != "failed" || synced.Discovery.Message == "" || synced.Bootstrap.Status != "ready" || !synced.Tenant.LastSyncAt.Equal(fx.now.Add(-time.Hour)) {
				t.Errorf("got %+v, want a failed discovery", synced)
			}
			if r := fx.readiness(t); r.Discovery != tenant.DiscoveryFailed || r.NextStep != tenant.NextSync {
				t.Errorf("the readiness is %+v, want a failed discovery", r)
			}
		}},
		{"mailboxes are not listed", fake.Fault{Method: "Mailboxes", Kind: outcome.Throttled}, func(t *testing.T, _ *fixture, synced tenants.SyncResult) {
			if synced.Discovery.Status != "completed" || synced.MailboxError == "" {
				t.Errorf("got %+v, want a completed discovery with a MailboxError", synced)
			}
		}},
		{"users cannot be counted", fake.Fault{Method: "UserMailboxes", Kind: outcome.Unknown}, func(t *testing.T, _ *fixture, synced tenants.SyncResult) {
			if synced.MailboxError == "" || synced.Tenant.UserMailboxes != 1 {
				t.Errorf("got %+v, want a MailboxError and the earlier number of users", synced)
			}
		}},
		{"the mail server does not answer", fake.Fault{Method: "Bootstrap", Kind: outcome.Down}, func(t *testing.T, fx *fixture, synced tenants.SyncResult) {
			if synced.Bootstrap.Status != "pending" || !synced.SMTPAuth.Skipped || synced.Tenant.Bootstrap != tenant.BootstrapReady {
				t.Errorf("got %+v, want a pending bootstrap, skipped SMTP AUTH and the earlier state", synced)
			}
		}},
		{"SMTP AUTH cannot be read", fake.Fault{Method: "SMTPAuth", Kind: outcome.Broken}, func(t *testing.T, _ *fixture, synced tenants.SyncResult) {
			if synced.SMTPAuth.Status != "failed" || synced.Tenant.SMTPAuth != tenant.SMTPAuthEnabled {
				t.Errorf("got %+v, want failed SMTP AUTH and the earlier state", synced)
			}
		}},
		{"the records of a domain cannot be read", fake.Fault{Method: "Records", Object: "two.test", Kind: outcome.Broken}, func(t *testing.T, fx *fixture, synced tenants.SyncResult) {
			if domains, _ := fx.storedObjects(t); synced.Partial || len(domains[1].Verification) != 1 {
				t.Errorf("got %+v, want a complete sync with the stored records", synced)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fx := newConnectedFixture(t, fake.Setup{})
			fx.addPlatformObjects(t)
			fx.sync(t)
			fx.now = fx.now.Add(time.Hour)
			fx.platform.Fail(tc.platformFault)
			synced := fx.sync(t)
			if !synced.Partial && tc.platformFault.Object == "" {
				t.Errorf("got %+v, want a partial sync", synced)
			}
			if domains, mailboxes := fx.storedObjects(t); len(domains) != 2 || len(mailboxes) != 1 {
				t.Errorf("stored are %v and %v, want two domains and one mailbox, because a failed list removes no objects", domains, mailboxes)
			}
			tc.check(t, fx, synced)
		})
	}
}

func TestSyncFailsIfThePlatformIsDown(t *testing.T) {
	fx := newConnectedFixture(t, fake.Setup{})
	fx.platform.Fail(fake.Fault{Kind: outcome.Down})
	_, err := fx.Sync(t.Context(), fx.ann.ID, guid)
	requireRefusal(t, err, fault.ProviderUnavailable)
	if wait := fault.ErrorOf(err).RetryAfter; wait != 7*time.Second { // the wait in errors of the fake platform
		t.Errorf("the error says to retry after %v, want 7 s", wait)
	}
}

func TestSyncStoresAWithdrawnConsent(t *testing.T) {
	for _, tc := range []struct {
		name   string
		revoke func(fx *fixture)
	}{
		{"before the sync", func(fx *fixture) { fx.platform.Revoke(guid, "consent") }},
		{"during the sync", func(fx *fixture) {
			fx.platform.Fail(fake.Fault{Method: "Domains", Kind: outcome.Refused, Code: fault.AccessDenied})
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fx := newConnectedFixture(t, fake.Setup{})
			fx.sync(t)
			tc.revoke(fx)
			_, err := fx.Sync(t.Context(), fx.ann.ID, guid)
			requireRefusal(t, err, fault.AccessDenied)
			if r := fx.readiness(t); r.Consent != tenant.ConsentRevoked || r.NextStep != tenant.NextReconnect || r.ReadyToProvision {
				t.Fatalf("the readiness is %+v, want a revoked consent", r)
			}
		})
	}
}

func TestSyncNoticesAConsentThatWorksAgain(t *testing.T) {
	fx := newConnectedFixture(t, fake.Setup{})
	endFault := fx.platform.Fail(fake.Fault{Method: "Profile", Kind: outcome.Refused, Code: fault.AccessDenied})
	_, err := fx.Sync(t.Context(), fx.ann.ID, guid)
	requireRefusal(t, err, fault.AccessDenied)
	endFault()
	fx.sync(t)
	if r := fx.readiness(t); r.Consent != tenant.ConsentGranted {
		t.Fatalf("the readiness is %+v, want a granted consent", r)
	}
}

func TestSyncTriesToRestoreALostRole(t *testing.T) {
	t.Run("the service can get the role again", func(t *testing.T) {
		fx := newConnectedFixture(t, fake.Setup{})
		fx.sync(t)
		fx.platform.Revoke(guid, "exchange_role")
		if synced := fx.sync(t); synced.Bootstrap.Status != "ready" || synced.Partial {
			t.Fatalf("got %+v, want a complete sync with a ready mail server", synced)
		}
	})
	t.Run("the service cannot get the role again", func(t *testing.T) {
		fx := newConnectedFixture(t, fake.Setup{})
		fx.sync(t)
		fx.platform.Fail(fake.Fault{Method: "Bootstrap", Kind: outcome.Refused, Code: fault.AccessDenied})
		synced := fx.sync(t)
		if r := fx.readiness(t); synced.Bootstrap.Status != "failed" || !synced.Partial || r.NextStep != tenant.NextGrantRole || r.Consent != tenant.ConsentGranted {
			t.Fatalf("got %+v and the readiness %+v, want a failed bootstrap", synced, r)
		}
	})
}

func TestSyncDoesNotRevealTenantsOfOtherAccounts(t *testing.T) {
	fx := newFixture(t)
	fx.connect(t, fx.bob, admin)
	var messages []string
	for _, id := range []tenant.GUID{guid, otherGUID, tenant.NoGUID, "x"} {
		_, err := fx.Sync(t.Context(), fx.ann.ID, id)
		requireRefusal(t, err, fault.TenantNotFound)
		messages = append(messages, err.Error())
	}
	if slices.ContainsFunc(messages, func(message string) bool { return message != messages[0] }) {
		t.Fatalf("the errors are %q, want the same error for each tenant", messages)
	}
}

// TestSyncIsStoredForACancelledRequest cancels the request while the platform delays its answer.
// The sync must continue and store its result.
func TestSyncIsStoredForACancelledRequest(t *testing.T) {
	fx := newConnectedFixture(t, fake.Setup{})
	ctx, cancel := context.WithCancel(t.Context())
	gate := fx.platform.Hold("Domains")
	done := make(chan error)
	go func() {
		_, err := fx.Sync(ctx, fx.ann.ID, guid)
		done <- err
	}()
	<-gate.Arrived()
	cancel()
	gate.Release()
	must(t, <-done)
	if r := fx.readiness(t); r.Discovery != tenant.DiscoveryCompleted {
		t.Fatalf("the readiness is %+v, want a completed discovery", r)
	}
}

func TestSyncEndsWhenItsTimeIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newConnectedFixture(t, fake.Setup{})
		fx.Timeout = time.Second
		gate := fx.platform.Hold("Domains")
		defer gate.Release()
		synced := fx.sync(t)
		if !synced.Partial || synced.Discovery.Status != "failed" || synced.Bootstrap.Status != "ready" {
			t.Fatalf("got %+v, want a partial sync with a failed discovery", synced)
		}
	})
}

// TestSyncWhoseTimeEndsBeforeTheChecksStoresItsResults checks that a sync stores what it found,
// although its time ends while it reads the objects that the lists lack. The sync then checks no
// domain.
func TestSyncWhoseTimeEndsBeforeTheChecksStoresItsResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newConnectedFixture(t, fake.Setup{})
		fx.addPlatformObjects(t)
		fx.sync(t)
		fx.now = fx.now.Add(time.Minute)
		fx.Timeout, fx.Platform = time.Second, laggingPlatform{fx.platform, false}
		defer fx.platform.Hold("Domain").Release()
		defer fx.platform.Hold("Mailbox").Release()
		synced := fx.sync(t)
		if synced.Discovery.Status != "completed" || !synced.Tenant.LastSyncAt.Equal(fx.now) {
			t.Fatalf("got %+v, want a completed discovery at %v", synced, fx.now)
		}
		domains, _ := fx.storedObjects(t)
		for _, d := range domains {
			if !d.CheckedAt.Before(fx.now) {
				t.Errorf("%s was checked at %v, want no check after the time of the sync has ended", d.Name, d.CheckedAt)
			}
		}
	})
}

func TestSyncOfTenantDeletedMeanwhileFails(t *testing.T) {
	fx := newConnectedFixture(t, fake.Setup{})
	gate := fx.platform.Hold("Profile")
	done := make(chan error)
	go func() {
		_, err := fx.Sync(context.WithoutCancel(t.Context()), fx.ann.ID, guid)
		done <- err
	}()
	<-gate.Arrived()
	if _, err := fx.Delete(t.Context(), fx.ann.ID, guid, nil); err != nil {
		t.Fatal(err)
	}
	gate.Release()
	if err := <-done; !errors.Is(err, fault.TenantNotFound) {
		t.Fatalf("got %v, want tenant_not_found", err)
	}
}
