// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
)

func storedDomain(t testing.TB, s Stores, owner access.AccountID, d domain.Domain) domain.Domain {
	t.Helper()
	got, err := s.Domain(t.Context(), owner, d.TenantGUID, d.Name)
	must(t, "domain", err)
	return got
}

var changedDomainChecks = []storeCheck{
	{"a change is stored, and what it leaves alone stays as others have it", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		was := addDomain(t, s, ann, attach(t, s, ann, 1).GUID, "contoso.test")
		theirs := everything(was)
		theirs.Verified, theirs.DKIM, theirs.Signing.Enabled, theirs.Service = false, false, false, nil
		_, err := s.ChangeDomain(t.Context(), ann, was, theirs)
		must(t, "change", err)
		ours := was
		ours.Verified, ours.Service = true, everything(was).Service
		got, err := s.ChangeDomain(t.Context(), ann, was, ours)
		must(t, "change beside it", err)
		want := theirs
		want.Verified, want.Service = true, ours.Service
		for what, d := range map[string]domain.Domain{"answered": got, "stored": storedDomain(t, s, ann, was)} {
			if diff := cmp.Diff(want, d); diff != "" {
				t.Fatalf("%s (-want +got):\n%s", what, diff)
			}
		}
	}},
	{"of two looks at the DNS the later one stands, whoever comes last", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		was := addDomain(t, s, ann, attach(t, s, ann, 1).GUID, "contoso.test")
		early, late := was, was
		early.CheckedAt, early.Status.SPF = now.Add(time.Hour), "early"
		late.CheckedAt, late.Status.SPF = now.Add(2*time.Hour), "late"
		for _, look := range []domain.Domain{late, early} {
			_, err := s.ChangeDomain(t.Context(), ann, was, look)
			must(t, "change", err)
		}
		if got := storedDomain(t, s, ann, was); got.Status.SPF != "late" || !got.CheckedAt.Equal(late.CheckedAt) {
			t.Fatalf("stored is %+v", got)
		}
	}},
	{"of a crowd of changes none is lost", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		was := addDomain(t, s, ann, attach(t, s, ann, 1).GUID, "contoso.test")
		record := dns.Record{Type: dns.CNAME, Name: "x.contoso.test", Content: "y.contoso.test"}
		changes := []func(*domain.Domain){
			func(d *domain.Domain) { d.Default = true },
			func(d *domain.Domain) { d.Verified = true },
			func(d *domain.Domain) { d.DKIM = true },
			func(d *domain.Domain) { d.MailReady = true },
			func(d *domain.Domain) { d.Verification = []dns.Record{record} },
			func(d *domain.Domain) { d.Service = []dns.Record{record} },
			func(d *domain.Domain) { d.Signing.Selector1 = record },
			func(d *domain.Domain) { d.Signing.Selector2 = record },
			func(d *domain.Domain) { d.CheckedAt, d.Status.SPF = now.Add(time.Hour), "seen" },
		}
		want := was
		for _, change := range changes {
			change(&want)
		}
		want.Signing.Enabled = true
		for _, err := range atOnce(crowd, func(i int) error {
			mine := was
			changes[i%len(changes)](&mine)
			_, err := s.ChangeDomain(t.Context(), ann, was, mine)
			return err
		}) {
			must(t, "change", err)
		}
		if diff := cmp.Diff(want, storedDomain(t, s, ann, was)); diff != "" {
			t.Fatalf("stored (-want +got):\n%s", diff)
		}
	}},
	{"a domain whose adding is not finished is not changed", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		attach(t, s, ann, 1)
		d, err := s.ReserveDomain(t.Context(), ann, guid(1), "contoso.test", 1, now)
		must(t, "reserve", err)
		_, err = s.ChangeDomain(t.Context(), ann, d, everything(d))
		refused(t, "change", err, fault.DomainNotFound)
	}},
}
