// SPDX-License-Identifier: Apache-2.0

package tenant_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
)

// readyTenant returns a tenant whose setup is complete.
func readyTenant() tenant.Tenant {
	return tenant.Tenant{
		Consent: tenant.ConsentGranted, Bootstrap: tenant.BootstrapReady, SMTPAuth: tenant.SMTPAuthEnabled,
		Discovery: tenant.DiscoveryCompleted, DomainCount: 2, DomainsVerified: 2, DomainsSigned: 2, MailboxCount: 1,
	}
}

func TestNextStepNamesTheMostUrgentProblem(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*tenant.Tenant)
		want   string
	}{
		{"setup complete", func(*tenant.Tenant) {}, ""},
		{"consent revoked", func(changed *tenant.Tenant) { changed.Consent = tenant.ConsentRevoked }, "reconnect"},
		{"a revoked consent comes before a lost role", func(changed *tenant.Tenant) {
			changed.Consent, changed.Bootstrap, changed.BootstrapStep = tenant.ConsentRevoked, tenant.BootstrapFailed, tenant.StepGrantRole
		}, "reconnect"},
		{"role lost", func(changed *tenant.Tenant) {
			changed.Bootstrap, changed.BootstrapStep = tenant.BootstrapFailed, tenant.StepGrantRole
		}, "grant_role"},
		{"app role lost", func(changed *tenant.Tenant) {
			changed.Bootstrap, changed.BootstrapStep = tenant.BootstrapFailed, tenant.StepReconnect
		}, "grant_role"},
		{"role not granted yet", func(changed *tenant.Tenant) {
			changed.Bootstrap, changed.BootstrapStep = tenant.BootstrapPending, tenant.StepGrantRole
		}, "grant_role"},
		{"a ready tenant with an old step", func(changed *tenant.Tenant) { changed.BootstrapStep = tenant.StepGrantRole }, ""},
		{"never synchronized", func(changed *tenant.Tenant) {
			*changed = tenant.Tenant{Consent: "granted", Bootstrap: "pending", SMTPAuth: "unknown", Discovery: "pending"}
		}, "sync"},
		{"discovery failed", func(changed *tenant.Tenant) { changed.Discovery = tenant.DiscoveryFailed }, "sync"},
		{"bootstrap waits", func(changed *tenant.Tenant) {
			changed.Bootstrap, changed.BootstrapStep = tenant.BootstrapPending, tenant.StepWait
		}, "sync"},
		{"no mail server", func(changed *tenant.Tenant) {
			changed.Bootstrap, changed.BootstrapStep = tenant.BootstrapFailed, tenant.StepNoExchange
		}, "sync"},
		{"SMTP AUTH off", func(changed *tenant.Tenant) { changed.SMTPAuth = tenant.SMTPAuthDisabled }, "sync"},
		{"a sync cannot change a refused SMTP AUTH", func(changed *tenant.Tenant) { changed.SMTPAuth = tenant.SMTPAuthRefused }, ""},
		{"no domain", func(changed *tenant.Tenant) {
			changed.DomainCount, changed.DomainsVerified, changed.DomainsSigned = 0, 0, 0
		}, "add_domain"},
		{"no ownership record seen", func(changed *tenant.Tenant) { changed.DomainsVerified, changed.DomainsSigned = 0, 0 }, "publish_dns"},
		{"one of two ownership records seen", func(changed *tenant.Tenant) {
			changed.DomainsVerified, changed.DomainsSigned, changed.DomainsAwaitingVerification = 0, 0, 1
		}, "publish_dns"},
		{"ownership record seen", func(changed *tenant.Tenant) {
			changed.DomainsVerified, changed.DomainsSigned, changed.DomainsAwaitingVerification = 1, 1, 1
		}, "verify_domain"},
		{"not signed", func(changed *tenant.Tenant) { changed.DomainsSigned = 1 }, "enable_dkim"},
		{"no mailbox", func(changed *tenant.Tenant) { changed.MailboxCount = 0 }, "create_mailboxes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			changed := readyTenant()
			tc.change(&changed)
			if got := changed.Readiness(true).NextStep; got != tc.want {
				t.Fatalf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestReadyToProvisionDependsOnTheSetup(t *testing.T) {
	for _, tc := range []struct {
		name        string
		change      func(*tenant.Tenant)
		requireSMTP bool
		want        bool
	}{
		{"setup complete", func(*tenant.Tenant) {}, true, true},
		{"DKIM and mailboxes are not required", func(changed *tenant.Tenant) { changed.DomainsSigned, changed.MailboxCount = 0, 0 }, true, true},
		{"consent revoked", func(changed *tenant.Tenant) { changed.Consent = tenant.ConsentRevoked }, true, false},
		{"bootstrap pending", func(changed *tenant.Tenant) { changed.Bootstrap = tenant.BootstrapPending }, true, false},
		{"SMTP AUTH refused", func(changed *tenant.Tenant) { changed.SMTPAuth = tenant.SMTPAuthRefused }, true, false},
		{"SMTP AUTH refused, not required", func(changed *tenant.Tenant) { changed.SMTPAuth = tenant.SMTPAuthRefused }, false, true},
		{"no verified domain", func(changed *tenant.Tenant) { changed.DomainsVerified = 0 }, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			changed := readyTenant()
			tc.change(&changed)
			if got := changed.Readiness(tc.requireSMTP).ReadyToProvision; got != tc.want {
				t.Fatalf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestReadinessCopiesTheState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.IntRange(0, 12).Draw(t, "domains")
		drawn := tenant.Tenant{
			Consent:         rapid.SampledFrom([]tenant.Consent{"granted", "revoked"}).Draw(t, "consent"),
			Bootstrap:       rapid.SampledFrom([]tenant.Bootstrap{"pending", "ready", "failed"}).Draw(t, "bootstrap"),
			BootstrapStep:   rapid.SampledFrom([]tenant.BootstrapStep{"", "wait", "grant_role", "reconnect", "no_exchange"}).Draw(t, "step"),
			SMTPAuth:        rapid.SampledFrom([]tenant.SMTPAuth{"unknown", "enabled", "disabled", "refused"}).Draw(t, "smtp"),
			Discovery:       rapid.SampledFrom([]tenant.Discovery{"pending", "completed", "failed"}).Draw(t, "discovery"),
			DomainCount:     total,
			DomainsVerified: rapid.IntRange(0, total).Draw(t, "verified"),
			MailboxCount:    rapid.IntRange(0, 36).Draw(t, "mailboxes"),
		}
		readiness := drawn.Readiness(true)
		if readiness.Consent != drawn.Consent || readiness.Bootstrap != drawn.Bootstrap || readiness.SMTPAuth != drawn.SMTPAuth ||
			readiness.Discovery != drawn.Discovery || readiness.DomainsTotal != total ||
			readiness.DomainsVerified != drawn.DomainsVerified || readiness.MailboxesTotal != drawn.MailboxCount {
			t.Fatalf("the readiness %+v differs from the tenant %+v", readiness, drawn)
		}
		blocked := readiness.NextStep == "reconnect" || readiness.NextStep == "grant_role" || readiness.NextStep == "add_domain"
		if readiness.ReadyToProvision && blocked {
			t.Fatalf("the tenant is ready to provision, but the next step is %s", readiness.NextStep)
		}
	})
}

func TestPrimaryDomainFallsBackToTheBuiltinDomain(t *testing.T) {
	exampleTenant := tenant.Tenant{BuiltinDomain: "t.onmicrosoft.com"}
	if got := exampleTenant.PrimaryDomain(); got != "t.onmicrosoft.com" {
		t.Errorf("without a default domain: got %s, want the built-in domain", got)
	}
	exampleTenant.DefaultDomain = "a.test"
	if got := exampleTenant.PrimaryDomain(); got != "a.test" {
		t.Errorf("with a default domain: got %s, want a.test", got)
	}
}

func TestParseGUIDOrNoneAcceptsOnlyGUIDs(t *testing.T) {
	if got := tenant.ParseGUIDOrNone("7B1D9C52-6A0E-4A55-8F0E-0C2F5B6A9D11"); got != "7b1d9c52-6a0e-4a55-8f0e-0c2f5b6a9d11" {
		t.Errorf("upper case: got %s, want lower case", got)
	}
	if got := tenant.ParseGUIDOrNone("x"); got != tenant.NoGUID {
		t.Errorf("malformed: got %s, want NoGUID", got)
	}
	if _, ok := tenant.ParseGUID("x"); ok {
		t.Error("ParseGUID accepts a malformed GUID")
	}
}

func TestASyncIsPartialWhenAPartFails(t *testing.T) {
	ready := tenant.BootstrapPart(tenant.Progress{Status: tenant.BootstrapReady})
	enabled := tenant.SMTPAuthPart(tenant.SMTPAuthEnabled)
	completed, failed := tenant.Part{Status: "completed"}, tenant.Part{Status: "failed"}
	for _, tc := range []struct {
		name                           string
		bootstrap, smtpAuth, discovery tenant.Part
		mailboxError                   string
		wantPartial                    bool
	}{
		{"all done", ready, enabled, completed, "", false},
		{"bootstrap pending", tenant.BootstrapPart(tenant.Progress{Status: tenant.BootstrapPending}), tenant.SMTPAuthSkippedPart(), completed, "", true},
		{"SMTP AUTH refused", ready, tenant.SMTPAuthPart(tenant.SMTPAuthRefused), completed, "", true},
		{"SMTP AUTH off", ready, tenant.SMTPAuthPart(tenant.SMTPAuthDisabled), completed, "", true},
		{"SMTP AUTH unknown", ready, tenant.SMTPAuthPart(tenant.SMTPAuthUnknown), completed, "", true},
		{"discovery failed", ready, enabled, failed, "", true},
		{"mailboxes failed", ready, enabled, completed, "not listed", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tenant.IsPartial(tc.bootstrap, tc.smtpAuth, tc.discovery, tc.mailboxError); got != tc.wantPartial {
				t.Fatalf("partial is %t, want %t", got, tc.wantPartial)
			}
		})
	}
}

func TestSMTPAuthPartDescribesEachState(t *testing.T) {
	for state, want := range map[tenant.SMTPAuth]string{
		tenant.SMTPAuthEnabled: "enabled", tenant.SMTPAuthDisabled: "disabled",
		tenant.SMTPAuthRefused: "failed", tenant.SMTPAuthUnknown: "failed",
	} {
		if got := tenant.SMTPAuthPart(state); got.Status != want || got.Message == "" || got.Skipped {
			t.Errorf("%s becomes %+v, want the status %s with a message", state, got, want)
		}
	}
	if got := tenant.SMTPAuthSkippedPart(); got.Status != "skipped" || !got.Skipped || got.Message == "" {
		t.Errorf("got %+v, want a skipped part with a message", got)
	}
}

func TestCorrectProgressDetectsAWithdrawnRole(t *testing.T) {
	lacking := tenant.Progress{Status: tenant.BootstrapPending, Step: tenant.StepGrantRole}
	waiting := tenant.Progress{Status: tenant.BootstrapPending, Step: tenant.StepWait}
	ready := tenant.Progress{Status: tenant.BootstrapReady}
	for _, tc := range []struct {
		name     string
		before   tenant.Bootstrap
		platform tenant.Progress
		want     tenant.Bootstrap
	}{
		{"the role was never granted", tenant.BootstrapPending, lacking, tenant.BootstrapPending},
		{"the role was withdrawn", tenant.BootstrapReady, lacking, tenant.BootstrapFailed},
		{"the role is still withdrawn", tenant.BootstrapFailed, lacking, tenant.BootstrapFailed},
		{"the platform prepares the tenant again", tenant.BootstrapReady, waiting, tenant.BootstrapPending},
		{"the role was granted again", tenant.BootstrapFailed, ready, tenant.BootstrapReady},
		{"the grant was lost", tenant.BootstrapReady, tenant.GrantLostProgress(), tenant.BootstrapFailed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := (tenant.Tenant{Bootstrap: tc.before}).CorrectProgress(tc.platform); got.Status != tc.want || got.Step != tc.platform.Step {
				t.Fatalf("got %+v, want %s", got, tc.want)
			}
		})
	}
}

func TestBootstrapPartHasMessage(t *testing.T) {
	for _, status := range []tenant.Bootstrap{tenant.BootstrapReady, tenant.BootstrapPending, tenant.BootstrapFailed} {
		if got := tenant.BootstrapPart(tenant.Progress{Status: status}); got.Status != string(status) || got.Message == "" {
			t.Errorf("%s becomes %+v, want the same status with a message", status, got)
		}
	}
}

func TestCheckConsentRequiresAConsent(t *testing.T) {
	exampleTenant := readyTenant()
	if err := exampleTenant.CheckConsent(); err != nil {
		t.Fatalf("with a consent: got %v, want no error", err)
	}
	exampleTenant.Consent = tenant.ConsentRevoked
	if err := exampleTenant.CheckConsent(); !errors.Is(err, fault.AccessDenied) || fault.ErrorOf(err).Detail == "" {
		t.Fatalf("with a revoked consent: got %v, want access_denied", err)
	}
}

func TestStatusIsReadyOnlyIfMailboxesCanBeCreated(t *testing.T) {
	ready := tenant.Tenant{
		Consent: tenant.ConsentGranted, Bootstrap: tenant.BootstrapReady, SMTPAuth: tenant.SMTPAuthEnabled, DomainCount: 1, DomainsVerified: 1,
	}
	for _, tc := range []struct {
		name   string
		change func(*tenant.Tenant)
		want   tenant.Status
	}{
		{"mailboxes can be created", func(*tenant.Tenant) {}, tenant.StatusReady},
		{"a tenant that was just connected", func(changed *tenant.Tenant) {
			changed.Bootstrap, changed.SMTPAuth = tenant.BootstrapPending, tenant.SMTPAuthUnknown
		}, tenant.StatusPending},
		{"no verified domain", func(changed *tenant.Tenant) { changed.DomainsVerified = 0 }, tenant.StatusPending},
		{"SMTP AUTH is off", func(changed *tenant.Tenant) { changed.SMTPAuth = tenant.SMTPAuthDisabled }, tenant.StatusPending},
		{"the mail server cannot be prepared", func(changed *tenant.Tenant) { changed.Bootstrap = tenant.BootstrapFailed }, tenant.StatusFailed},
		{"a revoked consent comes first", func(changed *tenant.Tenant) {
			changed.Consent, changed.Bootstrap = tenant.ConsentRevoked, tenant.BootstrapFailed
		}, tenant.StatusRevoked},
	} {
		t.Run(tc.name, func(t *testing.T) {
			changed := ready
			tc.change(&changed)
			if got := changed.Readiness(true).Status(); got != tc.want {
				t.Fatalf("got %s, want %s", got, tc.want)
			}
		})
	}
}
