// SPDX-License-Identifier: Apache-2.0

package tenants_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/observation"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

func TestSyncStoresThatSMTPAuthIsRefused(t *testing.T) {
	fx := newConnectedFixture(t, fake.Setup{SMTPAuthRefused: true})
	synced := fx.sync(t)
	if !synced.Partial || synced.SMTPAuth.Status != "failed" || synced.SMTPAuth.Skipped || synced.Bootstrap.Status != "ready" {
		t.Fatalf("got %+v, want a partial sync with failed SMTP AUTH", synced)
	}
	if r := fx.readiness(t); r.SMTPAuth != tenant.SMTPAuthRefused || r.NextStep != tenant.NextAddDomain {
		t.Fatalf("the readiness is %+v, want refused SMTP AUTH", r)
	}
}

// TestSMTPAuthThatTakesEffectLaterIsStoredAsDisabled checks a sync whose call to enable SMTP AUTH
// takes effect only later. The sync stores the state as disabled.
func TestSMTPAuthThatTakesEffectLaterIsStoredAsDisabled(t *testing.T) {
	fx := newConnectedFixture(t, fake.Setup{})
	endFault := fx.platform.Fail(fake.Fault{Method: "EnableSMTPAuth", Kind: outcome.NotReady})
	synced := fx.sync(t)
	if !synced.Partial || synced.SMTPAuth.Status != "disabled" || synced.SMTPAuth.Skipped || !strings.Contains(synced.SMTPAuth.Message, "soon") {
		t.Fatalf("got %+v, want a partial sync with disabled SMTP AUTH", synced)
	}
	if r := fx.readiness(t); r.SMTPAuth != tenant.SMTPAuthDisabled || r.NextStep != tenant.NextSync || r.ReadyToProvision {
		t.Fatalf("the readiness is %+v, want disabled SMTP AUTH", r)
	}
	endFault()
	if synced := fx.sync(t); synced.Partial || synced.SMTPAuth.Status != "enabled" {
		t.Fatalf("the next sync returned %+v, want a complete sync with enabled SMTP AUTH", synced)
	}
}

// laggingSMTPAuth is a platform whose reads show SMTP AUTH as disabled, even after it was enabled.
type laggingSMTPAuth struct{ ports.MailPlatform }

type tenantWithLaggingSMTPAuth struct{ ports.MailTenant }

func (p laggingSMTPAuth) For(id tenant.GUID) ports.MailTenant {
	return tenantWithLaggingSMTPAuth{p.MailPlatform.For(id)}
}

func (tenantWithLaggingSMTPAuth) SMTPAuth(context.Context) (tenant.SMTPAuth, error) {
	return tenant.SMTPAuthDisabled, nil
}

func (t tenantWithLaggingSMTPAuth) EnableSMTPAuth(ctx context.Context) error {
	if err := t.MailTenant.EnableSMTPAuth(ctx); err != nil {
		return err
	}
	return &outcome.Error{Kind: outcome.NotReady, Detail: "no read shows SMTP AUTH"}
}

// TestSyncKeepsSMTPAuthThatReadsDoNotShow checks reads that show SMTP AUTH as disabled after it was
// enabled. Within ReplicaLag, such a read can come from a lagging replica, so the stored state
// stays enabled. After ReplicaLag, the sync stores the state as disabled. If the platform refuses
// to enable SMTP AUTH, the sync stores the refusal at once.
func TestSyncKeepsSMTPAuthThatReadsDoNotShow(t *testing.T) {
	for _, tc := range []struct {
		name    string
		enable  func(*testing.T, *fixture)
		wait    time.Duration // between enable and the sync
		refuses bool          // whether the platform refuses to enable SMTP AUTH
		want    tenant.SMTPAuth
	}{
		{"a sync soon after a sync enabled SMTP AUTH", enableBySync, observation.ReplicaLag - time.Minute, false, tenant.SMTPAuthEnabled},
		{"a sync long after a sync enabled SMTP AUTH", enableBySync, observation.ReplicaLag + time.Minute, false, tenant.SMTPAuthDisabled},
		{"a sync soon after a read showed SMTP AUTH as enabled", enableBeforeSync, observation.ReplicaLag - time.Minute, false, tenant.SMTPAuthEnabled},
		{"a sync soon after a sync enabled SMTP AUTH, and the platform refuses", enableBySync, time.Minute, true, tenant.SMTPAuthRefused},
		{"a sync soon after SMTP AUTH was enabled after a refusal", enableAfterRefusal, time.Minute, false, tenant.SMTPAuthEnabled},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fx := newConnectedFixture(t, fake.Setup{})
			tc.enable(t, fx)
			if r := fx.readiness(t); r.SMTPAuth != tenant.SMTPAuthEnabled {
				t.Fatalf("the readiness is %+v, want enabled SMTP AUTH", r)
			}
			fx.now = fx.now.Add(tc.wait)
			if tc.refuses {
				fx.platform.Fail(fake.Fault{Method: "EnableSMTPAuth", Kind: outcome.Refused, Code: fault.SMTPAuthNotEnabled})
			}
			fx.Platform = laggingSMTPAuth{fx.Platform}
			fx.sync(t)
			if r := fx.readiness(t); r.SMTPAuth != tc.want {
				t.Errorf("the readiness is %+v, want the SMTP AUTH state %s", r, tc.want)
			}
		})
	}
}

func enableBySync(t *testing.T, fx *fixture) {
	t.Helper()
	fx.sync(t)
}

// enableBeforeSync enables SMTP AUTH in a sync that stores the state as disabled. A second sync
// then reads the state as enabled.
func enableBeforeSync(t *testing.T, fx *fixture) {
	t.Helper()
	upToDate := fx.Platform
	fx.Platform = laggingSMTPAuth{upToDate}
	fx.sync(t)
	fx.Platform = upToDate
	fx.sync(t)
	if n := fx.platform.Effects("EnableSMTPAuth"); n != 1 {
		t.Fatalf("EnableSMTPAuth took effect %d times, want once", n)
	}
}

// enableAfterRefusal enables SMTP AUTH after a sync whose attempt to enable it was refused.
func enableAfterRefusal(t *testing.T, fx *fixture) {
	t.Helper()
	endFault := fx.platform.Fail(fake.Fault{Method: "EnableSMTPAuth", Kind: outcome.Refused, Code: fault.SMTPAuthNotEnabled})
	fx.sync(t)
	endFault()
	fx.now = fx.now.Add(time.Minute)
	fx.sync(t)
}

// TestFailedCallToEnableSMTPAuthKeepsTheReadState checks a call to enable SMTP AUTH that fails with
// an error other than smtp_auth_not_enabled. The sync then stores the state that it read before the
// call.
func TestFailedCallToEnableSMTPAuthKeepsTheReadState(t *testing.T) {
	for _, enableFault := range []fake.Fault{
		{Method: "EnableSMTPAuth", Kind: outcome.Throttled},
		{Method: "EnableSMTPAuth", Kind: outcome.Unknown},
		{Method: "EnableSMTPAuth", Kind: outcome.Refused, Code: fault.ProviderError},
	} {
		t.Run(enableFault.Kind.String(), func(t *testing.T) {
			fx := newConnectedFixture(t, fake.Setup{})
			fx.platform.Fail(enableFault)
			synced := fx.sync(t)
			if r := fx.readiness(t); synced.SMTPAuth.Status != "failed" || r.SMTPAuth != tenant.SMTPAuthDisabled || r.NextStep != tenant.NextSync {
				t.Fatalf("got %+v and the readiness %+v, want failed and disabled SMTP AUTH", synced.SMTPAuth, r)
			}
		})
	}
}

func TestSyncReadsSMTPAuthAfterALostAnswer(t *testing.T) {
	fx := newConnectedFixture(t, fake.Setup{})
	fx.platform.Fail(fake.Fault{Method: "EnableSMTPAuth", Kind: outcome.Unknown, AfterEffect: true})
	if synced := fx.sync(t); synced.Partial || synced.SMTPAuth.Status != "enabled" {
		t.Fatalf("got %+v, want enabled SMTP AUTH", synced)
	}
	if n := fx.platform.Effects("EnableSMTPAuth"); n != 1 {
		t.Fatalf("EnableSMTPAuth took effect %d times, want once", n)
	}
}
