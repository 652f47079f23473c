// SPDX-License-Identifier: Apache-2.0

package tenants_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/app/apptest"
	"github.com/tenantry/tenantry/app/tenants"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/observation"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// connected returns a fixture with a tenant of this setup, connected to the account ann.
func connected(t *testing.T, setup fake.Setup) *fixture {
	t.Helper()
	fx := newFixture(t)
	setup.Name = "One"
	fx.platform.AddTenant(guid, setup)
	fx.connect(t, fx.ann, admin)
	return fx
}

func (fx *fixture) sync(t *testing.T) tenants.SyncResult {
	t.Helper()
	out, err := fx.Sync(t.Context(), fx.ann.ID, guid)
	apptest.Must(t, err)
	return out
}

// addPlatformObjects adds a verified domain with a mailbox, and an unverified domain, at the
// platform.
func (fx *fixture) addPlatformObjects(t *testing.T) {
	t.Helper()
	at := fx.platform.For(guid)
	for _, name := range []string{"one.test", "two.test"} {
		if _, err := at.AddDomain(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	records, err := at.Records(t.Context(), "one.test")
	apptest.Must(t, err)
	fx.platform.DNS.Publish("one.test", append(records.Verification,
		dns.Record{Type: dns.TXT, Name: "one.test", Content: "v=spf1 -all"},
		dns.Record{Type: dns.TXT, Name: "_dmarc.one.test", Content: "v=DMARC1; p=none"})...)
	fx.platform.DNS.Publish("two.test")
	if _, err := at.VerifyDomain(t.Context(), "one.test"); err != nil {
		t.Fatal(err)
	}
	apptest.Must(t, at.EnableMail(t.Context(), "one.test"))
	if _, err := at.Bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := at.CreateMailbox(t.Context(), mailbox.Spec{DisplayName: "Anna", Address: "anna@one.test"}); err != nil {
		t.Fatal(err)
	}
}

func (fx *fixture) storedObjects(t *testing.T) (domains []domain.Domain, boxes []mailbox.Mailbox) {
	t.Helper()
	domains, err := fx.store.Domains(t.Context(), fx.ann.ID, guid)
	apptest.Must(t, err)
	boxes, err = fx.store.Mailboxes(t.Context(), fx.ann.ID, guid)
	apptest.Must(t, err)
	return domains, boxes
}

func TestSyncStoresWhatThePlatformReports(t *testing.T) {
	fx := connected(t, fake.Setup{})
	fx.addPlatformObjects(t)
	out := fx.sync(t)
	if out.Partial || out.Bootstrap.Status != "ready" || out.SMTPAuth.Status != "enabled" || out.SMTPAuth.Skipped ||
		out.Discovery.Status != "completed" || out.MailboxError != "" || len(out.RunID) != 36 {
		t.Fatalf("got %+v", out)
	}
	if got := out.Tenant; got.DomainCount != 2 || got.DomainsVerified != 1 || got.MailboxCount != 1 || got.UserMailboxes != 1 ||
		!got.LastSyncAt.Equal(fx.now) || got.Name != "One" || got.SMTPAuth != tenant.SMTPAuthEnabled {
		t.Fatalf("the tenant is %+v", got)
	}
	if r := fx.readiness(t); !r.ReadyToProvision || r.NextStep != tenant.NextPublishDNS || r.Discovery != tenant.DiscoveryCompleted {
		t.Fatalf("readiness %+v", r)
	}
	domains, boxes := fx.storedObjects(t)
	one, two := domains[0], domains[1]
	if !one.Verified || !one.MailReady || one.Status.SPF != "v=spf1 -all" || one.Status.DMARC != "v=DMARC1; p=none" ||
		one.Signing.Selector1.Content == "" || len(one.Service) == 0 || one.CheckedAt.IsZero() {
		t.Errorf("one is %+v", one)
	}
	if two.Verified || len(two.Verification) != 1 || two.Status.MX != "missing" || two.Status.VerificationSeen || two.CheckedAt.IsZero() {
		t.Errorf("two is %+v", two)
	}
	if boxes[0].Address != "anna@one.test" || boxes[0].Provisioned {
		t.Errorf("mailboxes %+v", boxes)
	}
}

func TestSyncSeesThePublishedRecord(t *testing.T) {
	fx := connected(t, fake.Setup{})
	fx.addPlatformObjects(t)
	fx.sync(t)
	domains, _ := fx.storedObjects(t)
	fx.platform.DNS.Publish("two.test", domains[1].Verification...)
	fx.sync(t)
	if next := fx.readiness(t).NextStep; next != tenant.NextVerifyDomain {
		t.Fatalf("next step %q", next)
	}
}

func TestSyncRemovesMissingObjects(t *testing.T) {
	fx := connected(t, fake.Setup{})
	fx.addPlatformObjects(t)
	fx.sync(t)
	fx.now = fx.now.Add(time.Hour)
	fx.platform.AddTenant(guid, fake.Setup{Name: "One renamed"}) // without domains or mailboxes
	fx.connect(t, fx.ann, admin)
	fx.now = fx.now.Add(time.Minute)
	out := fx.sync(t)
	domains, boxes := fx.storedObjects(t)
	if len(domains) != 0 || len(boxes) != 0 || out.Tenant.Name != "One renamed" {
		t.Fatalf("still there: %v %v %v", domains, boxes, out.Tenant)
	}
}

func TestSyncOfPendingTenant(t *testing.T) {
	for _, tt := range []struct {
		name      string
		setup     fake.Setup
		bootstrap string
		next      string
	}{
		{"the role spreads", fake.Setup{Lag: fake.Lag{Role: time.Hour}}, "pending", tenant.NextSync},
		{"the tenant is dehydrated", fake.Setup{Dehydrated: true}, "pending", tenant.NextSync},
		{"the role is denied", fake.Setup{Denied: true}, "failed", tenant.NextGrantRole},
	} {
		inFakeTime(t, tt.name, func(t *testing.T) {
			fx := connected(t, tt.setup)
			fx.Reconciler.Limit = 50 * time.Millisecond
			if _, err := fx.platform.For(guid).AddDomain(t.Context(), "one.test"); err != nil {
				t.Fatal(err)
			}
			out := fx.sync(t)
			if !out.Partial || out.Bootstrap.Status != tt.bootstrap || out.Bootstrap.Message == "" ||
				out.SMTPAuth.Status != "skipped" || !out.SMTPAuth.Skipped || out.SMTPAuth.Message == "" {
				t.Fatalf("got %+v", out)
			}
			if out.Discovery.Status != "completed" || out.Tenant.DomainCount != 1 {
				t.Fatalf("discovery did not run: %+v", out)
			}
			if out.Tenant.UserMailboxes != 1 {
				t.Errorf("%d user mailboxes", out.Tenant.UserMailboxes)
			}
			if fx.platform.Calls("SMTPAuth")+fx.platform.Calls("EnableSMTPAuth") != 0 {
				t.Error("SMTP AUTH was attempted")
			}
			if next := fx.readiness(t).NextStep; next != tt.next {
				t.Errorf("next step %q", next)
			}
		})
	}
}

func TestSyncWaitsForABootstrapThatIsAlmostThere(t *testing.T) {
	fx := connected(t, fake.Setup{Dehydrated: true})
	gate := fx.platform.Hold("Bootstrap")
	done := make(chan tenants.SyncResult)
	go func() {
		out, err := fx.Sync(context.WithoutCancel(t.Context()), fx.ann.ID, guid)
		if err != nil {
			t.Error(err)
		}
		done <- out
	}()
	<-gate.Arrived()
	fx.platform.Advance(time.Hour)
	gate.Release()
	if out := <-done; out.Bootstrap.Status != "ready" || out.Partial {
		t.Fatalf("got %+v", out)
	}
}

func TestSyncWithSMTPAuthRefused(t *testing.T) {
	fx := connected(t, fake.Setup{SMTPAuthRefused: true})
	out := fx.sync(t)
	if !out.Partial || out.SMTPAuth.Status != "failed" || out.SMTPAuth.Skipped || out.Bootstrap.Status != "ready" {
		t.Fatalf("got %+v", out)
	}
	if r := fx.readiness(t); r.SMTPAuth != tenant.SMTPAuthRefused || r.NextStep != tenant.NextAddDomain {
		t.Fatalf("readiness %+v", r)
	}
}

// If SMTP AUTH was enabled and reads do not show it yet, it counts neither as refused nor as
// enabled.
func TestSyncWithSMTPAuthThatTakesEffectLater(t *testing.T) {
	fx := connected(t, fake.Setup{})
	lift := fx.platform.Fail(fake.Fault{Method: "EnableSMTPAuth", Kind: outcome.NotReady})
	out := fx.sync(t)
	if !out.Partial || out.SMTPAuth.Status != "disabled" || out.SMTPAuth.Skipped || !strings.Contains(out.SMTPAuth.Message, "soon") {
		t.Fatalf("got %+v", out)
	}
	if r := fx.readiness(t); r.SMTPAuth != tenant.SMTPAuthDisabled || r.NextStep != tenant.NextSync || r.ReadyToProvision {
		t.Fatalf("readiness %+v", r)
	}
	lift()
	if out := fx.sync(t); out.Partial || out.SMTPAuth.Status != "enabled" {
		t.Fatalf("then got %+v", out)
	}
}

// oldSMTPAuth is a platform whose reads show SMTP AUTH as it was before it was enabled.
type oldSMTPAuth struct{ ports.MailPlatform }

type tenantWithOldSMTPAuth struct{ ports.MailTenant }

func (p oldSMTPAuth) For(id tenant.GUID) ports.MailTenant {
	return tenantWithOldSMTPAuth{p.MailPlatform.For(id)}
}

func (tenantWithOldSMTPAuth) SMTPAuth(context.Context) (tenant.SMTPAuth, error) {
	return tenant.SMTPAuthDisabled, nil
}

func (t tenantWithOldSMTPAuth) EnableSMTPAuth(ctx context.Context) error {
	if err := t.MailTenant.EnableSMTPAuth(ctx); err != nil {
		return err
	}
	return &outcome.Error{Kind: outcome.NotReady, Detail: "no read shows SMTP AUTH"}
}

// A read that shows SMTP AUTH as disabled soon after it was enabled can come from a lagging
// replica. The tenant stays ready for mailboxes. The state is stored if a read shows it later, or
// if the platform refuses to enable SMTP AUTH.
func TestSyncKeepsSMTPAuthThatReadsDoNotShow(t *testing.T) {
	for _, tt := range []struct {
		name    string
		enable  func(*testing.T, *fixture)
		after   time.Duration
		refused bool
		want    tenant.SMTPAuth
	}{
		{"soon", enabledBySync, observation.ReplicaLag - time.Minute, false, tenant.SMTPAuthEnabled},
		{"later", enabledBySync, observation.ReplicaLag + time.Minute, false, tenant.SMTPAuthDisabled},
		{"soon after a read shows it", enabledBeforeSync, observation.ReplicaLag - time.Minute, false, tenant.SMTPAuthEnabled},
		{"soon, and refused", enabledBySync, time.Minute, true, tenant.SMTPAuthRefused},
		{"soon after a refusal", enabledAfterRefusal, time.Minute, false, tenant.SMTPAuthEnabled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fx := connected(t, fake.Setup{})
			tt.enable(t, fx)
			if r := fx.readiness(t); r.SMTPAuth != tenant.SMTPAuthEnabled {
				t.Fatalf("readiness %+v", r)
			}
			fx.now = fx.now.Add(tt.after)
			if tt.refused {
				fx.platform.Fail(fake.Fault{Method: "EnableSMTPAuth", Kind: outcome.Refused, Code: fault.SMTPAuthNotEnabled})
			}
			fx.Platform = oldSMTPAuth{fx.Platform}
			fx.sync(t)
			if r := fx.readiness(t); r.SMTPAuth != tt.want {
				t.Errorf("readiness %+v, want %s", r, tt.want)
			}
		})
	}
}

func enabledBySync(t *testing.T, fx *fixture) {
	t.Helper()
	fx.sync(t)
}

// enabledBeforeSync enables SMTP AUTH before the sync that reads it as enabled.
func enabledBeforeSync(t *testing.T, fx *fixture) {
	t.Helper()
	current := fx.Platform
	fx.Platform = oldSMTPAuth{current}
	fx.sync(t)
	fx.Platform = current
	fx.sync(t)
	if n := fx.platform.Effects("EnableSMTPAuth"); n != 1 {
		t.Fatalf("enabled %d times", n)
	}
}

// enabledAfterRefusal enables SMTP AUTH after a sync whose attempt to enable it was refused.
func enabledAfterRefusal(t *testing.T, fx *fixture) {
	t.Helper()
	lift := fx.platform.Fail(fake.Fault{Method: "EnableSMTPAuth", Kind: outcome.Refused, Code: fault.SMTPAuthNotEnabled})
	fx.sync(t)
	lift()
	fx.now = fx.now.Add(time.Minute)
	fx.sync(t)
}

// A failed call is not a refusal. The state that was read is stored.
func TestSyncWithSMTPAuthThatCannotBeSwitchedNow(t *testing.T) {
	for _, f := range []fake.Fault{
		{Method: "EnableSMTPAuth", Kind: outcome.Throttled},
		{Method: "EnableSMTPAuth", Kind: outcome.Unknown},
		{Method: "EnableSMTPAuth", Kind: outcome.Refused, Code: fault.ProviderError},
	} {
		t.Run(f.Kind.String(), func(t *testing.T) {
			fx := connected(t, fake.Setup{})
			fx.platform.Fail(f)
			out := fx.sync(t)
			if r := fx.readiness(t); out.SMTPAuth.Status != "failed" || r.SMTPAuth != tenant.SMTPAuthDisabled || r.NextStep != tenant.NextSync {
				t.Fatalf("got %+v, %+v", out.SMTPAuth, r)
			}
		})
	}
}

func TestSyncReadsStateAfterLostAnswer(t *testing.T) {
	fx := connected(t, fake.Setup{})
	fx.platform.Fail(fake.Fault{Method: "EnableSMTPAuth", Kind: outcome.Unknown, AfterEffect: true})
	if out := fx.sync(t); out.Partial || out.SMTPAuth.Status != "enabled" {
		t.Fatalf("got %+v", out)
	}
	if n := fx.platform.Effects("EnableSMTPAuth"); n != 1 {
		t.Fatalf("enabled %d times", n)
	}
}

func TestSyncOfAPartlyBrokenPlatform(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault fake.Fault
		check func(t *testing.T, fx *fixture, out tenants.SyncResult)
	}{
		{"the directory is not listed", fake.Fault{Method: "Domains", Kind: outcome.Broken}, func(t *testing.T, fx *fixture, out tenants.SyncResult) {
			if out.Discovery.Status != "failed" || out.Discovery.Message == "" || out.Bootstrap.Status != "ready" || !out.Tenant.LastSyncAt.Equal(fx.now.Add(-time.Hour)) {
				t.Errorf("got %+v", out)
			}
			if r := fx.readiness(t); r.Discovery != tenant.DiscoveryFailed || r.NextStep != tenant.NextSync {
				t.Errorf("readiness %+v", r)
			}
		}},
		{"mailboxes are not listed", fake.Fault{Method: "Mailboxes", Kind: outcome.Throttled}, func(t *testing.T, _ *fixture, out tenants.SyncResult) {
			if out.Discovery.Status != "completed" || out.MailboxError == "" {
				t.Errorf("got %+v", out)
			}
		}},
		{"users are not counted", fake.Fault{Method: "UserMailboxes", Kind: outcome.Unknown}, func(t *testing.T, _ *fixture, out tenants.SyncResult) {
			if out.MailboxError == "" || out.Tenant.UserMailboxes != 1 {
				t.Errorf("got %+v", out)
			}
		}},
		{"the mail server does not answer", fake.Fault{Method: "Bootstrap", Kind: outcome.Down}, func(t *testing.T, fx *fixture, out tenants.SyncResult) {
			if out.Bootstrap.Status != "pending" || !out.SMTPAuth.Skipped || out.Tenant.Bootstrap != tenant.BootstrapReady {
				t.Errorf("a read without an answer changed the state: %+v", out)
			}
		}},
		{"SMTP AUTH is not told", fake.Fault{Method: "SMTPAuth", Kind: outcome.Broken}, func(t *testing.T, _ *fixture, out tenants.SyncResult) {
			if out.SMTPAuth.Status != "failed" || out.Tenant.SMTPAuth != tenant.SMTPAuthEnabled {
				t.Errorf("got %+v", out)
			}
		}},
		{"records of a domain are not told", fake.Fault{Method: "Records", About: "two.test", Kind: outcome.Broken}, func(t *testing.T, fx *fixture, out tenants.SyncResult) {
			if domains, _ := fx.storedObjects(t); out.Partial || len(domains[1].Verification) != 1 {
				t.Errorf("got %+v", out)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fx := connected(t, fake.Setup{})
			fx.addPlatformObjects(t)
			fx.sync(t)
			fx.now = fx.now.Add(time.Hour)
			fx.platform.Fail(tt.fault)
			out := fx.sync(t)
			if !out.Partial && tt.fault.About == "" {
				t.Errorf("not partial: %+v", out)
			}
			if domains, boxes := fx.storedObjects(t); len(domains) != 2 || len(boxes) != 1 {
				t.Errorf("what could not be listed was removed: %v %v", domains, boxes)
			}
			tt.check(t, fx, out)
		})
	}
}

func TestSyncOfAPlatformThatIsDown(t *testing.T) {
	fx := connected(t, fake.Setup{})
	fx.platform.Fail(fake.Fault{Kind: outcome.Down})
	_, err := fx.Sync(t.Context(), fx.ann.ID, guid)
	refused(t, err, fault.ProviderUnavailable)
	if wait := fault.ErrorOf(err).RetryAfter; wait != 7*time.Second {
		t.Errorf("comes back in %v", wait)
	}
}

func TestSyncAfterTheConsentWasWithdrawn(t *testing.T) {
	for _, tt := range []struct {
		name   string
		revoke func(fx *fixture)
	}{
		{"before", func(fx *fixture) { fx.platform.Revoke(guid, "consent") }},
		{"in its midst", func(fx *fixture) {
			fx.platform.Fail(fake.Fault{Method: "Domains", Kind: outcome.Refused, Code: fault.AccessDenied})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fx := connected(t, fake.Setup{})
			fx.sync(t)
			tt.revoke(fx)
			_, err := fx.Sync(t.Context(), fx.ann.ID, guid)
			refused(t, err, fault.AccessDenied)
			if r := fx.readiness(t); r.Consent != tenant.ConsentRevoked || r.NextStep != tenant.NextReconnect || r.ReadyToProvision {
				t.Fatalf("readiness %+v", r)
			}
		})
	}
}

func TestSyncNoticesAConsentThatWorksAgain(t *testing.T) {
	fx := connected(t, fake.Setup{})
	lift := fx.platform.Fail(fake.Fault{Method: "Profile", Kind: outcome.Refused, Code: fault.AccessDenied})
	_, err := fx.Sync(t.Context(), fx.ann.ID, guid)
	refused(t, err, fault.AccessDenied)
	lift()
	fx.sync(t)
	if r := fx.readiness(t); r.Consent != tenant.ConsentGranted {
		t.Fatalf("readiness %+v", r)
	}
}

func TestSyncAfterTheRoleWasLost(t *testing.T) {
	t.Run("it can take it back", func(t *testing.T) {
		fx := connected(t, fake.Setup{})
		fx.sync(t)
		fx.platform.Revoke(guid, "exchange_role")
		if out := fx.sync(t); out.Bootstrap.Status != "ready" || out.Partial {
			t.Fatalf("got %+v", out)
		}
	})
	t.Run("it cannot", func(t *testing.T) {
		fx := connected(t, fake.Setup{})
		fx.sync(t)
		fx.platform.Fail(fake.Fault{Method: "Bootstrap", Kind: outcome.Refused, Code: fault.AccessDenied})
		out := fx.sync(t)
		if r := fx.readiness(t); out.Bootstrap.Status != "failed" || !out.Partial || r.NextStep != tenant.NextGrantRole || r.Consent != tenant.ConsentGranted {
			t.Fatalf("got %+v, %+v", out, r)
		}
	})
}

func TestSyncDoesNotRevealForeignTenants(t *testing.T) {
	fx := newFixture(t)
	fx.connect(t, fx.bob, admin)
	var answers []string
	for _, id := range []tenant.GUID{guid, other, tenant.NoGUID, "x"} {
		_, err := fx.Sync(t.Context(), fx.ann.ID, id)
		refused(t, err, fault.TenantNotFound)
		answers = append(answers, err.Error())
	}
	if slices.ContainsFunc(answers, func(a string) bool { return a != answers[0] }) {
		t.Fatalf("answers differ: %v", answers)
	}
}

// TestSyncIsStoredForACancelledRequest cancels the request while the platform delays its answer.
func TestSyncIsStoredForACancelledRequest(t *testing.T) {
	fx := connected(t, fake.Setup{})
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
	apptest.Must(t, <-done)
	if r := fx.readiness(t); r.Discovery != tenant.DiscoveryCompleted {
		t.Fatalf("readiness %+v", r)
	}
}

func TestSyncEndsWhenItsTimeIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := connected(t, fake.Setup{})
		fx.Limit = time.Second
		gate := fx.platform.Hold("Domains")
		defer gate.Release()
		out := fx.sync(t)
		if !out.Partial || out.Discovery.Status != "failed" || out.Bootstrap.Status != "ready" {
			t.Fatalf("got %+v", out)
		}
	})
}

func TestSyncOfTenantDeletedMeanwhile(t *testing.T) {
	fx := connected(t, fake.Setup{})
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
		t.Fatalf("got %v", err)
	}
}
