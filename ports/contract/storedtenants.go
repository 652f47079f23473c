// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

const noGUID = tenant.GUID("99999999-0000-4000-8000-000000000000")

var tenantChecks = []storeCheck{
	{"a tenant comes back as it was saved", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		want := attach(t, s, ann, 1)
		want.Name, want.BuiltinDomain, want.DefaultDomain = hostile, "contoso.onmicrosoft.com", "contoso.test"
		want.Consent, want.Bootstrap, want.BootstrapStep = tenant.ConsentRevoked, tenant.BootstrapFailed, tenant.StepGrantRole
		want.SMTPAuth, want.Discovery, want.UserMailboxes = tenant.SMTPAuthRefused, tenant.DiscoveryFailed, 17
		want.LastSyncAt = now.Add(time.Minute)
		must(t, "save", s.SaveTenant(t.Context(), ann, want))
		got, err := s.Tenant(t.Context(), ann, guid(1))
		must(t, "tenant", err)
		if got != want {
			t.Fatalf("got  %+v\nwant %+v", got, want)
		}
	}},
	{"bytes that are no text do not break a save", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		made := attach(t, s, ann, 1)
		made.Name = "a\x00b\xffc"
		must(t, "save", s.SaveTenant(t.Context(), ann, made))
		got, err := s.Tenant(t.Context(), ann, guid(1))
		must(t, "tenant", err)
		if got.Name == "abc" || got.Name == "" {
			t.Fatalf("the name is %q", got.Name)
		}
	}},
	{"another account's tenant is as unknown as one that is not there", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		made := attach(t, s, ann, 1)
		unknown := made
		unknown.ID, unknown.GUID = string(noGUID), noGUID
		for name, call := range map[string]func(owner access.AccountID, x tenant.Tenant) error{
			"tenant": func(o access.AccountID, x tenant.Tenant) error {
				_, err := s.Tenant(t.Context(), o, x.GUID)
				return err
			},
			"save":   func(o access.AccountID, x tenant.Tenant) error { return s.SaveTenant(t.Context(), o, x) },
			"delete": func(o access.AccountID, x tenant.Tenant) error { return s.DeleteTenant(t.Context(), o, x.GUID) },
		} {
			foreign := call(bob, made)
			refused(t, name, foreign, fault.TenantNotFound)
			same(t, name, foreign, call(ann, unknown))
		}
		_, err := s.Tenant(t.Context(), ann, "nonsense")
		same(t, "malformed", err, func() error { _, err := s.Tenant(t.Context(), ann, noGUID); return err }())
		list, err := s.Tenants(t.Context(), bob)
		must(t, "list", err)
		if len(list) != 0 {
			t.Fatalf("another account sees %+v", list)
		}
		_, err = s.Tenant(t.Context(), ann, guid(1))
		must(t, "the tenant afterwards", err)
	}},
	{"tenants are listed by their connection, most recent first", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		for n, age := range []time.Duration{2 * time.Hour, time.Hour, 3 * time.Hour} {
			_, err := s.Attach(t.Context(), ann, tenant.Tenant{GUID: guid(n), ConsentedAt: now.Add(-age)}, 100)
			must(t, "attach", err)
		}
		list, err := s.Tenants(t.Context(), ann)
		must(t, "list", err)
		if len(list) != 3 || list[0].GUID != guid(1) || list[1].GUID != guid(0) || list[2].GUID != guid(2) {
			t.Fatalf("got %+v", list)
		}
	}},
	{"a tenant counts what hangs below it, and only that", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		for n := range 2 {
			made := attach(t, s, ann, n)
			signed := addDomain(t, s, ann, made.GUID, "signed.test")
			signed.Verified, signed.DKIM, signed.Status.VerificationSeen = true, true, true
			must(t, "save", s.SaveDomain(t.Context(), ann, signed))
			seen := addDomain(t, s, ann, made.GUID, "seen.test")
			seen.Status.VerificationSeen = true
			must(t, "save", s.SaveDomain(t.Context(), ann, seen))
			_, err := s.ReserveDomain(t.Context(), ann, made.GUID, "unfinished.test", 12, now)
			must(t, "reserve", err)
			addMailbox(t, s, ann, signed, "ready", mailbox.Ready)
			addMailbox(t, s, ann, signed, "created", mailbox.Created)
			addMailbox(t, s, ann, signed, "creating", mailbox.Creating)
		}
		list, err := s.Tenants(t.Context(), ann)
		must(t, "list", err)
		one, err := s.Tenant(t.Context(), ann, guid(1))
		must(t, "tenant", err)
		for _, x := range append(list, one) {
			got := [...]int{x.DomainCount, x.DomainsVerified, x.DomainsSigned, x.DomainsPublished, x.MailboxCount}
			if want := [...]int{2, 1, 1, 1, 2}; got != want {
				t.Fatalf("counts are %v, want %v", got, want)
			}
		}
	}},
	{"a save that began before a new consent does not take it back", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		stale := attach(t, s, ann, 1)
		stale.Consent, stale.Name = tenant.ConsentRevoked, "As it was seen"
		renewal := stale
		renewal.ConsentedAt = now.Add(time.Hour)
		_, err := s.Attach(t.Context(), ann, renewal, 100)
		must(t, "renew", err)
		must(t, "save", s.SaveTenant(t.Context(), ann, stale))
		got, err := s.Tenant(t.Context(), ann, guid(1))
		must(t, "tenant", err)
		if got.Consent != tenant.ConsentGranted || got.Name != stale.Name || !got.ConsentedAt.Equal(renewal.ConsentedAt) {
			t.Fatalf("got %+v", got)
		}
	}},
	{"a deleted tenant takes all below with it and is free for others", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		d := addDomain(t, s, ann, attach(t, s, ann, 1).GUID, "contoso.test")
		addMailbox(t, s, ann, d, "sales", mailbox.Ready)
		must(t, "delete", s.DeleteTenant(t.Context(), ann, guid(1)))
		refused(t, "delete again", s.DeleteTenant(t.Context(), ann, guid(1)), fault.TenantNotFound)
		_, err := s.DomainByID(t.Context(), ann, d.ID)
		refused(t, "domain", err, fault.DomainNotFound)
		attach(t, s, bob, 1)
		if again := attach(t, s, ann, 2); again.DomainCount != 0 || again.MailboxCount != 0 {
			t.Fatalf("something is left: %+v", again)
		}
		list, err := s.Mailboxes(t.Context(), bob, guid(1))
		must(t, "mailboxes of the next holder", err)
		if len(list) != 0 {
			t.Fatalf("the next holder sees %+v", list)
		}
	}},
	{"work on a tenant that is deleted meanwhile does not find it", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		for n := range 5 {
			d := addDomain(t, s, ann, attach(t, s, ann, n).GUID, "contoso.test")
			for _, err := range atOnce(8, func(i int) error {
				switch i % 4 {
				case 0:
					return s.DeleteTenant(t.Context(), ann, guid(n))
				case 1:
					_, err := s.ReserveMailboxes(t.Context(), ann, d.ID, specs(d, "a", "b"), 3, now)
					return err
				case 2:
					_, err := s.ReserveDomain(t.Context(), ann, guid(n), "new.test", 12, now)
					return err
				default:
					return s.SaveDiscovery(t.Context(), ann, guid(n), ports.Found{Began: now, Mailboxes: listing("a@contoso.test")})
				}
			}) {
				if err != nil && !errors.Is(err, fault.TenantNotFound) && !errors.Is(err, fault.DomainNotFound) {
					t.Fatal(err)
				}
			}
		}
	}},
	{"an ended context ends the call and stores nothing", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.Attach(gone, ann, tenant.Tenant{GUID: guid(1), ConsentedAt: now}, 100)
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("attach: got %v", err)
		}
		if _, err = s.Tenants(gone, ann); !errors.Is(err, context.Canceled) {
			t.Fatalf("list: got %v", err)
		}
		held, err := s.TenantCount(t.Context(), ann)
		must(t, "count", err)
		if held != 0 {
			t.Fatalf("%d tenants are stored", held)
		}
	}},
}
