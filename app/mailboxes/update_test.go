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

func provisionAnna(t *testing.T, fx *fixture) mailbox.Mailbox {
	t.Helper()
	got, err := fx.provision(t.Context(), "anna@example.test")
	must(t, err)
	return got[0].Mailbox
}

func TestUpdateChangesNameAndLimitEverywhere(t *testing.T) {
	fx := newFixture(t)
	m := provisionAnna(t, fx)
	name, limit := "  Anna Schmidt ", 25
	got, err := fx.Update(t.Context(), fx.account.ID, guid, m.ID, Change{DisplayName: &name, DailySendLimit: &limit})
	must(t, err)
	stored, err := fx.store.Mailbox(t.Context(), fx.account.ID, guid, m.ID)
	must(t, err)
	atPlatform := fx.fake.SnapshotOf(guid).Mailboxes[0]
	for place, name := range map[string]string{"answer": got.DisplayName, "store": stored.DisplayName, "platform": atPlatform.DisplayName} {
		if name != "Anna Schmidt" {
			t.Errorf("%s: the name is %q, want Anna Schmidt", place, name)
		}
	}
	if got.DailySendLimit != 25 || stored.DailySendLimit != 25 {
		t.Fatalf("the answer has the limit %d and the store %d, want 25", got.DailySendLimit, stored.DailySendLimit)
	}
	usage, err := fx.Usage(t.Context(), fx.account.ID, guid, m.ID)
	must(t, err)
	if usage.Limit != 25 || usage.Remaining != 25 || usage.Percent != 0 || usage.Blocked {
		t.Fatalf("the usage is %+v, want the limit 25 and no sent message", usage)
	}
}

func TestUsageWithoutALimitShowsNoCount(t *testing.T) {
	fx := newFixture(t)
	usage, err := fx.Usage(t.Context(), fx.account.ID, guid, provisionAnna(t, fx).ID)
	must(t, err)
	if usage.Limit != 0 || usage.Mailbox.SendsToday != 0 || !usage.Mailbox.SendsTodayAt.IsZero() {
		t.Fatalf("the usage is %+v, want no limit and no count", usage)
	}
}

// TestUsageShowsTheMostSpecificLimit checks that usage shows the mailbox's own limit. A mailbox
// without its own limit has the limit of its domain, or else of its tenant.
func TestUsageShowsTheMostSpecificLimit(t *testing.T) {
	fx := newFixture(t)
	m := provisionAnna(t, fx)
	for _, step := range []struct {
		want int
		set  func()
	}{
		{20, func() { fx.setPolicy(t, sendlimit.TenantWide, 20) }},
		{10, func() { fx.setPolicy(t, zone, 10) }},
		{15, func() { must(t, fx.store.SetSendLimit(t.Context(), fx.account.ID, m.ID, 15, fx.Now())) }},
	} {
		step.set()
		usage, err := fx.Usage(t.Context(), fx.account.ID, guid, m.ID)
		must(t, err)
		if usage.Limit != step.want || usage.Remaining != step.want {
			t.Fatalf("the usage is %+v, want a limit of %d", usage, step.want)
		}
	}
}

func (fx *fixture) setPolicy(t *testing.T, scope string, perDay int) {
	t.Helper()
	p, err := fx.store.ReservePolicy(t.Context(), fx.account.ID, guid, scope, fx.Now())
	must(t, err)
	must(t, fx.store.ChangePolicy(t.Context(), fx.account.ID, p.ID, func(p sendlimit.Policy) (sendlimit.Policy, *ports.StoredAnswer, error) {
		p.PerDay = perDay
		return p, nil, nil
	}))
}

func TestALimitNeedsNoPlatform(t *testing.T) {
	fx := newFixture(t)
	m := provisionAnna(t, fx)
	fx.fake.Fail(fake.Fault{Kind: outcome.Down})
	fx.changeTenant(t, func(stored *tenant.Tenant) { stored.Bootstrap = tenant.BootstrapFailed })
	limit := 1
	_, err := fx.Update(t.Context(), fx.account.ID, guid, m.ID, Change{DailySendLimit: &limit})
	must(t, err)
}

func TestUpdateRefusesInvalidChanges(t *testing.T) {
	fx := newFixture(t)
	m := provisionAnna(t, fx)
	name, empty, zero, tooHigh, valid := "New", " ", 0, 26, 5
	for _, tc := range []struct {
		name   string
		id     string
		change Change
		want   fault.Code
	}{
		{"nothing to change", m.ID, Change{}, fault.NoUpdates},
		{"an empty name", m.ID, Change{DisplayName: &empty}, fault.InvalidRequest},
		{"a limit of 0", m.ID, Change{DailySendLimit: &zero}, fault.InvalidSendLimit},
		{"a limit of 26", m.ID, Change{DisplayName: &name, DailySendLimit: &tooHigh}, fault.InvalidSendLimit},
		{"an unknown mailbox", "00000000-0000-7000-8000-000000000000", Change{DailySendLimit: &valid}, fault.MailboxNotFound},
		{"a malformed id", "nonsense", Change{DailySendLimit: &valid}, fault.MailboxNotFound},
		{"the name is checked before the id", "nonsense", Change{DisplayName: &empty}, fault.InvalidRequest},
		{"the id is checked before the number of changes", "nonsense", Change{}, fault.MailboxNotFound},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := fx.Update(t.Context(), fx.account.ID, guid, tc.id, tc.change)
			requireRefusal(t, err, tc.want)
		})
	}
	if fx.fake.Calls("Rename") != 0 {
		t.Fatal("a refused change reached the platform")
	}
}

func TestRenameNeedsConsent(t *testing.T) {
	fx := newFixture(t)
	m := provisionAnna(t, fx)
	fx.changeTenant(t, func(stored *tenant.Tenant) {
		stored.Consent, stored.Bootstrap = tenant.ConsentRevoked, tenant.BootstrapPending
	})
	name, limit, tooHigh := "New", 5, 26
	_, err := fx.Update(t.Context(), fx.account.ID, guid, m.ID, Change{DisplayName: &name, DailySendLimit: &limit})
	requireRefusal(t, err, fault.AccessDenied)
	_, err = fx.Update(t.Context(), fx.account.ID, guid, m.ID, Change{DisplayName: &name, DailySendLimit: &tooHigh})
	requireRefusal(t, err, fault.InvalidSendLimit)
	if fx.fake.Calls("Rename") != 0 {
		t.Fatal("the platform was called")
	}
	_, err = fx.Update(t.Context(), fx.account.ID, guid, m.ID, Change{DailySendLimit: &limit})
	must(t, err) // a stored limit needs no platform
}

func TestFailedRenameLeavesTheStoredName(t *testing.T) {
	for _, tc := range []struct {
		name    string
		arrange func(*testing.T, *fixture)
		want    fault.Code // the zero Code if Update succeeds
	}{
		{"a tenant that is not ready", func(t *testing.T, fx *fixture) {
			fx.changeTenant(t, func(stored *tenant.Tenant) { stored.Bootstrap = tenant.BootstrapPending })
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
		{"the consent was withdrawn", func(_ *testing.T, fx *fixture) { fx.fake.Revoke(guid, "consent") }, fault.AccessDenied},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fx := newFixture(t)
			m := provisionAnna(t, fx)
			tc.arrange(t, fx)
			name, limit := "New", 5
			_, err := fx.Update(t.Context(), fx.account.ID, guid, m.ID, Change{DisplayName: &name, DailySendLimit: &limit})
			stored, readErr := fx.store.Mailbox(t.Context(), fx.account.ID, guid, m.ID)
			must(t, readErr)
			if tc.want == (fault.Code{}) {
				must(t, err)
				if stored.DisplayName != name || stored.DailySendLimit != limit {
					t.Fatalf("the change is not stored: %+v", stored)
				}
				return
			}
			requireRefusal(t, err, tc.want)
			if stored.DisplayName == name || stored.DailySendLimit != 0 {
				t.Fatalf("a refused change is stored: %+v", stored)
			}
		})
	}
}

func TestListIsSortedByAddress(t *testing.T) {
	fx := newFixture(t)
	requestedAt := time.Now().Truncate(time.Microsecond)
	_, err := fx.provision(t.Context(), "ben@example.test", "anna@example.test")
	must(t, err)
	list, err := fx.List(t.Context(), fx.account.ID, guid)
	must(t, err)
	if len(list) != 2 || list[0].Address != "anna@example.test" || list[0].DomainName != zone || list[0].TenantName != "Fabrikam" {
		t.Fatalf("listed %+v, want anna before ben, with the names of the domain and the tenant", list)
	}
	if at := list[0].CreatedAt; at.Before(requestedAt) || at.After(time.Now()) {
		t.Fatalf("created at %s, before or after the request of %s", at, requestedAt)
	}
}

// TestLaggingListKeepsANewName checks that a discovery does not restore an old name while replicas
// of the platform may still show it. A later discovery stores a name that was changed at the
// platform.
func TestLaggingListKeepsANewName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t)
		_, err := fx.provision(t.Context(), "anna@example.test")
		must(t, err)
		m := fx.storedMailboxes(t)[0]
		oldMailbox, err := fx.fake.For(guid).Mailbox(t.Context(), m.Address)
		must(t, err)
		discoverAfter := func(pause time.Duration, shown mailbox.Platform, want string) {
			t.Helper()
			time.Sleep(pause)
			fx.discover(t, fx.Now(), shown)
			if got := fx.storedMailboxes(t)[0].DisplayName; got != want {
				t.Errorf("the name is %q, want %q", got, want)
			}
		}
		for _, name := range []string{"First", "Second"} {
			_, err = fx.Update(t.Context(), fx.account.ID, guid, m.ID, Change{DisplayName: &name})
			must(t, err)
			discoverAfter(observation.ReplicaLag/2, oldMailbox, name)
		}
		discoverAfter(observation.ReplicaLag/2-time.Second, oldMailbox, "Second")
		changed := oldMailbox
		changed.DisplayName = "Changed at the platform"
		discoverAfter(time.Second, changed, changed.DisplayName)
	})
}

// TestLaggingListKeepsAnEnabledAccount checks that a discovery does not show the account of a new
// mailbox as disabled while replicas of the platform may still show its state from before the
// provisioning. A later discovery stores what the platform shows. A discovery that shows a
// different account does the same.
func TestLaggingListKeepsAnEnabledAccount(t *testing.T) {
	for _, tc := range []struct {
		name        string
		after       time.Duration // since the provisioning
		objectID    string        // of the shown account, empty for the account of the mailbox
		wantEnabled bool
	}{
		{"soon after the provisioning", observation.ReplicaLag - time.Second, "", true},
		{"when the replicas have caught up", observation.ReplicaLag, "", false},
		{"a different account", time.Second, "another", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fx := newFixture(t)
				_, err := fx.provision(t.Context(), "anna@example.test")
				must(t, err)
				shown, err := fx.fake.For(guid).Mailbox(t.Context(), "anna@example.test")
				must(t, err)
				shown.AccountEnabled = false
				if tc.objectID != "" {
					shown.ObjectID = tc.objectID
				}
				time.Sleep(tc.after)
				fx.discover(t, fx.Now(), shown)
				if got := fx.storedMailboxes(t)[0]; got.AccountEnabled != tc.wantEnabled || got.ObjectID != shown.ObjectID {
					t.Errorf("the account %s is enabled: %t, want %t for %s", got.ObjectID, got.AccountEnabled, tc.wantEnabled, shown.ObjectID)
				}
			})
		})
	}
}
