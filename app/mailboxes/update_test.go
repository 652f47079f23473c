// SPDX-License-Identifier: Apache-2.0

package mailboxes

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/observation"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

func one(t *testing.T, fx *fixture) mailbox.Mailbox {
	t.Helper()
	got, err := fx.provision(t.Context(), "anna@example.test")
	must(t, err)
	return got[0].Mailbox
}

func TestUpdateChangesNameAndLimitEverywhere(t *testing.T) {
	fx := newFixture(t)
	m := one(t, fx)
	name, limit := "  Anna Schmidt ", 25
	got, err := fx.Update(t.Context(), fx.acc.ID, guid, m.ID, Change{DisplayName: &name, DailySendLimit: &limit})
	must(t, err)
	stored, err := fx.store.Mailbox(t.Context(), fx.acc.ID, guid, m.ID)
	must(t, err)
	held := fx.fake.SnapshotOf(guid).Mailboxes[0]
	for where, is := range map[string]string{"answer": got.DisplayName, "store": stored.DisplayName, "platform": held.DisplayName} {
		if is != "Anna Schmidt" {
			t.Errorf("%s: the name is %q", where, is)
		}
	}
	if got.DailySendLimit != 25 || stored.DailySendLimit != 25 {
		t.Fatalf("the limit is answered %d, stored %d", got.DailySendLimit, stored.DailySendLimit)
	}
	usage, err := fx.Usage(t.Context(), fx.acc.ID, guid, m.ID)
	must(t, err)
	if usage.Limit != 25 || usage.Remaining != 25 || usage.Percent != 0 || usage.Blocked {
		t.Fatalf("the usage is %+v", usage)
	}
}

func TestUsageWithoutALimit(t *testing.T) {
	fx := newFixture(t)
	usage, err := fx.Usage(t.Context(), fx.acc.ID, guid, one(t, fx).ID)
	must(t, err)
	if usage.Limit != 0 || usage.Mailbox.SendsToday != 0 || !usage.Mailbox.SendsTodayAt.IsZero() {
		t.Fatalf("the usage is %+v", usage)
	}
}

// TestUsageUnderTheEffectiveLimit checks that usage shows the effective limit: the mailbox's own,
// else its domain's, else the tenant's.
func TestUsageUnderTheEffectiveLimit(t *testing.T) {
	fx := newFixture(t)
	m := one(t, fx)
	for _, step := range []struct {
		want int
		set  func()
	}{
		{20, func() { fx.enforce(t, sendlimit.TenantWide, 20) }},
		{10, func() { fx.enforce(t, zone, 10) }},
		{15, func() { must(t, fx.store.SetSendLimit(t.Context(), fx.acc.ID, m.ID, 15, fx.Now())) }},
	} {
		step.set()
		usage, err := fx.Usage(t.Context(), fx.acc.ID, guid, m.ID)
		must(t, err)
		if usage.Limit != step.want || usage.Remaining != step.want {
			t.Fatalf("the usage is %+v, want a limit of %d", usage, step.want)
		}
	}
}

func (fx *fixture) enforce(t *testing.T, scope string, perDay int) {
	t.Helper()
	p, err := fx.store.ReservePolicy(t.Context(), fx.acc.ID, guid, scope, fx.Now())
	must(t, err)
	p.PerDay = perDay
	must(t, fx.store.SavePolicy(t.Context(), fx.acc.ID, p, nil))
}

func TestALimitNeedsNoPlatform(t *testing.T) {
	fx := newFixture(t)
	m := one(t, fx)
	fx.fake.Fail(fake.Fault{Kind: outcome.Down})
	fx.changeTenant(t, func(x *tenant.Tenant) { x.Bootstrap = tenant.BootstrapFailed })
	limit := 1
	_, err := fx.Update(t.Context(), fx.acc.ID, guid, m.ID, Change{DailySendLimit: &limit})
	must(t, err)
}

func TestUpdateRefusesInvalidChanges(t *testing.T) {
	fx := newFixture(t)
	m := one(t, fx)
	name, empty, zero, tooMany, fine := "New", " ", 0, 26, 5
	for _, tt := range []struct {
		name   string
		id     string
		change Change
		want   fault.Code
	}{
		{"nothing to change", m.ID, Change{}, fault.NoUpdates},
		{"an empty name", m.ID, Change{DisplayName: &empty}, fault.InvalidRequest},
		{"a limit of 0", m.ID, Change{DailySendLimit: &zero}, fault.InvalidSendLimit},
		{"a limit of 26", m.ID, Change{DisplayName: &name, DailySendLimit: &tooMany}, fault.InvalidSendLimit},
		{"an unknown mailbox", "00000000-0000-7000-8000-000000000000", Change{DailySendLimit: &fine}, fault.MailboxNotFound},
		{"a malformed id", "nonsense", Change{DailySendLimit: &fine}, fault.MailboxNotFound},
		{"the body before ownership", "nonsense", Change{DisplayName: &empty}, fault.InvalidRequest},
		{"ownership before the rules", "nonsense", Change{}, fault.MailboxNotFound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := fx.Update(t.Context(), fx.acc.ID, guid, tt.id, tt.change)
			refused(t, err, tt.want)
		})
	}
	if fx.fake.Calls("Rename") != 0 {
		t.Fatal("a refused change reached the platform")
	}
}

func TestRenameAfterTheConsentWasLost(t *testing.T) {
	fx := newFixture(t)
	m := one(t, fx)
	fx.changeTenant(t, func(x *tenant.Tenant) { x.Consent, x.Bootstrap = tenant.ConsentRevoked, tenant.BootstrapPending })
	name, limit, tooMany := "New", 5, 26
	_, err := fx.Update(t.Context(), fx.acc.ID, guid, m.ID, Change{DisplayName: &name, DailySendLimit: &limit})
	refused(t, err, fault.AccessDenied)
	_, err = fx.Update(t.Context(), fx.acc.ID, guid, m.ID, Change{DisplayName: &name, DailySendLimit: &tooMany})
	refused(t, err, fault.InvalidSendLimit)
	if fx.fake.Calls("Rename") != 0 {
		t.Fatal("the platform was called")
	}
	_, err = fx.Update(t.Context(), fx.acc.ID, guid, m.ID, Change{DailySendLimit: &limit})
	must(t, err) // a stored limit needs no platform
}

func TestFailedRenameLeavesTheStoredName(t *testing.T) {
	for _, tt := range []struct {
		name    string
		arrange func(*testing.T, *fixture)
		want    fault.Code // the zero Code: none
	}{
		{"bootstrap not ready", func(t *testing.T, fx *fixture) {
			fx.changeTenant(t, func(x *tenant.Tenant) { x.Bootstrap = tenant.BootstrapPending })
		}, fault.ExchangeNotReady},
		{"the answer is lost", func(_ *testing.T, fx *fixture) {
			fx.fake.Fail(fake.Fault{Method: "Rename", Kind: outcome.Unknown, AfterEffect: true})
		}, fault.Code{}},
		{"the request is lost", func(_ *testing.T, fx *fixture) {
			fx.fake.Fail(fake.Fault{Method: "Rename", Kind: outcome.Unknown})
		}, fault.ProviderTimeout},
		{"the platform is throttled", func(_ *testing.T, fx *fixture) {
			fx.fake.Fail(fake.Fault{Method: "Rename", Kind: outcome.Throttled})
		}, fault.ProviderUnavailable},
		{"the platform refuses", func(_ *testing.T, fx *fixture) {
			fx.fake.Fail(fake.Fault{Method: "Rename", Kind: outcome.Refused, Code: fault.ProviderError})
		}, fault.ProviderError},
		{"the consent is gone", func(_ *testing.T, fx *fixture) { fx.fake.Revoke(guid, "consent") }, fault.AccessDenied},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fx := newFixture(t)
			m := one(t, fx)
			tt.arrange(t, fx)
			name, limit := "New", 5
			_, err := fx.Update(t.Context(), fx.acc.ID, guid, m.ID, Change{DisplayName: &name, DailySendLimit: &limit})
			stored, lost := fx.store.Mailbox(t.Context(), fx.acc.ID, guid, m.ID)
			must(t, lost)
			if tt.want == (fault.Code{}) {
				must(t, err)
				if stored.DisplayName != name || stored.DailySendLimit != limit {
					t.Fatalf("stored %+v", stored)
				}
				return
			}
			refused(t, err, tt.want)
			if stored.DisplayName == name || stored.DailySendLimit != 0 {
				t.Fatalf("a refused change is stored: %+v", stored)
			}
		})
	}
}

func TestListByAddress(t *testing.T) {
	fx := newFixture(t)
	before := time.Now().Truncate(time.Microsecond)
	_, err := fx.provision(t.Context(), "ben@example.test", "anna@example.test")
	must(t, err)
	list, err := fx.List(t.Context(), fx.acc.ID, guid)
	must(t, err)
	if len(list) != 2 || list[0].Address != "anna@example.test" || list[0].DomainName != zone || list[0].TenantName != "Fabrikam" {
		t.Fatalf("listed %+v", list)
	}
	if at := list[0].CreatedAt; at.Before(before) || at.After(time.Now()) {
		t.Fatalf("created at %s, before or after the request of %s", at, before)
	}
}

// TestLaggingListKeepsANewName checks that a discovery does not set back a name while the
// platform's replicas may show the old one. A later discovery shows a name that was changed at the
// platform.
func TestLaggingListKeepsANewName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t)
		_, err := h.provision(t.Context(), "anna@example.test")
		must(t, err)
		m := h.stored(t)[0]
		old, err := h.fake.For(guid).Mailbox(t.Context(), m.Address)
		must(t, err)
		discover := func(after time.Duration, shown mailbox.Platform, want string) {
			t.Helper()
			time.Sleep(after)
			found := ports.Found{Began: h.Now(), At: h.Now(), Mailboxes: []mailbox.Platform{shown}}
			must(t, h.store.SaveDiscovery(t.Context(), h.acc.ID, guid, found))
			if got := h.stored(t)[0].DisplayName; got != want {
				t.Errorf("the name is %q, want %q", got, want)
			}
		}
		for _, name := range []string{"First", "Second"} {
			_, err = h.Update(t.Context(), h.acc.ID, guid, m.ID, Change{DisplayName: &name})
			must(t, err)
			discover(observation.ReplicaLag/2, old, name)
		}
		discover(observation.ReplicaLag/2-time.Second, old, "Second")
		changed := old
		changed.DisplayName = "Changed at the platform"
		discover(time.Second, changed, changed.DisplayName)
	})
}
