// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
)

// everything is d with each field set that a store keeps.
func everything(d domain.Domain) domain.Domain {
	d.Default, d.Verified, d.DKIM, d.MailReady = true, true, true, true
	d.Verification = []dns.Record{{Type: dns.TXT, Name: d.Name, Content: hostile, TTL: 3600}}
	d.Service = []dns.Record{{Type: dns.MX, Name: d.Name, Content: "mx.contoso.test", Preference: 10, TTL: 60}}
	d.Signing = dns.Signing{
		Enabled:   true,
		Selector1: dns.Record{Type: dns.CNAME, Name: "selector1._domainkey." + d.Name, Content: "one.contoso.test", TTL: 1},
		Selector2: dns.Record{Type: dns.CNAME, Name: "selector2._domainkey." + d.Name, Content: "two.contoso.test", TTL: 2},
	}
	d.Status = dns.Status{MX: "mx.", SPF: "v=spf1 -all", DMARC: dns.Missing, DKIM: dns.DKIMPartial, VerificationSeen: true}
	d.Health = domain.Health{Sound: domain.Drifts, Drifted: []domain.Drift{domain.SPFGone, domain.MXMoved}}
	d.CheckedAt = now.Add(time.Hour)
	return d
}

var storedDomainChecks = []storeCheck{
	{"a domain comes back as it was saved", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		want := everything(addDomain(t, s, ann, attach(t, s, ann, 1).GUID, "contoso.test"))
		must(t, "save", s.SaveDomain(t.Context(), ann, want))
		byName, err := s.Domain(t.Context(), ann, guid(1), "contoso.test")
		must(t, "by name", err)
		byID, err := s.DomainByID(t.Context(), ann, want.ID)
		must(t, "by id", err)
		for _, got := range []domain.Domain{byName, byID} {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("not as saved (-want +got):\n%s", diff)
			}
		}
	}},
	{"domains are listed by name, finished ones only", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		attach(t, s, ann, 1)
		empty, err := s.Domains(t.Context(), ann, guid(1))
		must(t, "list", err)
		for _, name := range []string{"b.test", "c.test", "a.test"} {
			addDomain(t, s, ann, guid(1), name)
		}
		_, err = s.ReserveDomain(t.Context(), ann, guid(1), "unfinished.test", 12, now)
		must(t, "reserve", err)
		list, err := s.Domains(t.Context(), ann, guid(1))
		must(t, "list", err)
		if len(empty) != 0 || len(list) != 3 || list[0].Name != "a.test" || list[2].Name != "c.test" {
			t.Fatalf("got %+v, before %+v", list, empty)
		}
		_, err = s.Domain(t.Context(), ann, guid(1), "unfinished.test")
		refused(t, "unfinished", err, fault.DomainNotFound)
	}},
	{"another account's domain is as unknown as one that is not there", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		d := addDomain(t, s, ann, attach(t, s, ann, 1).GUID, "contoso.test")
		attach(t, s, bob, 2)
		unknown := d
		unknown.ID, unknown.TenantGUID = string(noGUID), noGUID
		type call = func(o access.AccountID, x domain.Domain) error
		for name, c := range map[string]struct {
			code fault.Code
			call call
		}{
			"list": {fault.TenantNotFound, func(o access.AccountID, x domain.Domain) error {
				_, err := s.Domains(t.Context(), o, x.TenantGUID)
				return err
			}},
			"by name": {fault.TenantNotFound, func(o access.AccountID, x domain.Domain) error {
				_, err := s.Domain(t.Context(), o, x.TenantGUID, x.Name)
				return err
			}},
			"by id": {fault.DomainNotFound, func(o access.AccountID, x domain.Domain) error {
				_, err := s.DomainByID(t.Context(), o, x.ID)
				return err
			}},
			"save": {fault.DomainNotFound, func(o access.AccountID, x domain.Domain) error { return s.SaveDomain(t.Context(), o, x) }},
			"change": {fault.DomainNotFound, func(o access.AccountID, x domain.Domain) error {
				_, err := s.ChangeDomain(t.Context(), o, x, x)
				return err
			}},
			"reserve": {fault.TenantNotFound, func(o access.AccountID, x domain.Domain) error {
				_, err := s.ReserveDomain(t.Context(), o, x.TenantGUID, "new.test", 12, now)
				return err
			}},
		} {
			foreign := c.call(bob, d)
			refused(t, name, foreign, c.code)
			same(t, name, foreign, c.call(ann, unknown))
		}
		_, err := s.Domain(t.Context(), bob, guid(2), d.Name)
		refused(t, "the name at the other tenant", err, fault.DomainNotFound)
	}},
	{"a place is taken once and given back while unfinished", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		attach(t, s, ann, 1)
		first, err := s.ReserveDomain(t.Context(), ann, guid(1), "contoso.test", 1, now)
		must(t, "reserve", err)
		again, err := s.ReserveDomain(t.Context(), ann, guid(1), "contoso.test", 1, now)
		must(t, "reserve again", err)
		if !first.Fresh || again.Fresh || again.ID != first.ID || again.Added || again.TenantGUID != guid(1) {
			t.Fatalf("first %+v\nagain %+v", first, again)
		}
		_, err = s.ReserveDomain(t.Context(), ann, guid(1), "other.test", 1, now)
		refused(t, "beyond the cap", err, fault.DomainLimitReached)
		must(t, "release by another account", s.ReleaseDomain(t.Context(), newAccount(t, s, "bob"), first.ID))
		_, err = s.ReserveDomain(t.Context(), ann, guid(1), "other.test", 1, now)
		refused(t, "still beyond the cap", err, fault.DomainLimitReached)
		must(t, "release", s.ReleaseDomain(t.Context(), ann, first.ID))
		_, err = s.ReserveDomain(t.Context(), ann, guid(1), "other.test", 1, now)
		must(t, "reserve the free place", err)
	}},
	{"an added domain is not given back, and is there at the cap", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		d := addDomain(t, s, ann, attach(t, s, ann, 1).GUID, "contoso.test")
		must(t, "release", s.ReleaseDomain(t.Context(), ann, d.ID))
		again, err := s.ReserveDomain(t.Context(), ann, guid(1), "contoso.test", 1, now)
		must(t, "reserve", err)
		if again.ID != d.ID || !again.Added {
			t.Fatalf("got %+v", again)
		}
	}},
	{"a crowd with many names takes exactly the places there are", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		attach(t, s, ann, 1)
		errs := atOnce(crowd, func(i int) error {
			d, err := s.ReserveDomain(t.Context(), ann, guid(1), fmt.Sprintf("d%d.test", i), domain.MaxPerTenant, now)
			if err != nil {
				return err
			}
			d.Added = true
			return s.SaveDomain(t.Context(), ann, d)
		})
		list, err := s.Domains(t.Context(), ann, guid(1))
		must(t, "list", err)
		if n := winners(t, errs, fault.DomainLimitReached); n != domain.MaxPerTenant || len(list) != n {
			t.Fatalf("%d were let in, %d are stored", n, len(list))
		}
	}},
	{"a crowd with one name takes one place", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		attach(t, s, ann, 1)
		fresh := make([]bool, crowd)
		errs := atOnce(crowd, func(i int) error {
			d, err := s.ReserveDomain(t.Context(), ann, guid(1), "contoso.test", 1, now)
			fresh[i] = d.Fresh
			return err
		})
		took := 0
		for _, f := range fresh {
			if f {
				took++
			}
		}
		if n := winners(t, errs, nil); n != crowd || took != 1 {
			t.Fatalf("%d got the row, %d took the place", n, took)
		}
	}},
	{"two tenants may hold a name each", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		one := addDomain(t, s, ann, attach(t, s, ann, 1).GUID, "contoso.test")
		two := addDomain(t, s, ann, attach(t, s, ann, 2).GUID, "contoso.test")
		got, err := s.Domain(t.Context(), ann, guid(2), "contoso.test")
		must(t, "domain", err)
		if one.ID == two.ID || got.ID != two.ID || got.TenantGUID != guid(2) {
			t.Fatalf("got %+v", got)
		}
	}},
}
