// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	compare "github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
)

// ownDomain is a domain of an account that holds one tenant, the nth.
func ownDomain(t testing.TB, s Stores, owner access.AccountID, n int) domain.Domain {
	t.Helper()
	attach(t, s, owner, n)
	return addDomain(t, s, owner, guid(n), "contoso.test")
}

func write(value, replaced string) dns.Written {
	return dns.Written{Purpose: dns.Sending, Name: "contoso.test", Type: dns.TXT, Value: value, Replaced: replaced}
}

// written checks what was written for a domain, in any order.
func written(t testing.TB, s Stores, owner access.AccountID, domainID string, want ...dns.Written) {
	t.Helper()
	got, err := s.Written(t.Context(), owner, domainID)
	must(t, "list writes", err)
	byText := func(a, b dns.Written) int {
		return cmp.Or(cmp.Compare(a.Purpose, b.Purpose), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Value, b.Value))
	}
	slices.SortFunc(got, byText)
	slices.SortFunc(want, byText)
	if len(got) != len(want) || len(got) > 0 && !slices.Equal(got, want) {
		t.Fatalf("the writes (-want +got):\n%s", compare.Diff(want, got))
	}
}

var dnsWriteChecks = []storeCheck{
	{"what was written is kept, whatever its bytes and length", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		d := ownDomain(t, s, ann, 1)
		want := []dns.Written{
			write("v=spf1 -all", ""), write("v=spf1 \xff\x00"+hostile, "v=spf1 \xfe"), write(strings.Repeat("long ", 3000), hostile),
			{Purpose: dns.Ownership, Name: "contoso.test", Type: dns.TXT, Value: "v=spf1 -all"},
			{Purpose: dns.Sending, Name: "www.contoso.test", Type: dns.TXT, Value: "v=spf1 -all"},
			{Purpose: dns.Sending, Name: "contoso.test", Type: dns.MX, Value: "v=spf1 -all"},
		}
		written(t, s, ann, d.ID)
		must(t, "save nothing", s.SaveWritten(t.Context(), ann, d.ID, nil))
		must(t, "save", s.SaveWritten(t.Context(), ann, d.ID, want[:2]))
		must(t, "save more", s.SaveWritten(t.Context(), ann, d.ID, want[2:]))
		written(t, s, ann, d.ID, want...)
	}},
	{"of one value the last write is kept", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		d := ownDomain(t, s, ann, 1)
		must(t, "save", s.SaveWritten(t.Context(), ann, d.ID, []dns.Written{write("a", ""), write("b", "a")}))
		must(t, "save again", s.SaveWritten(t.Context(), ann, d.ID, []dns.Written{write("a", "x"), write("a", "b")}))
		written(t, s, ann, d.ID, write("a", "b"), write("b", "a"))
		got, err := s.Written(t.Context(), ann, d.ID)
		must(t, "list", err)
		if got[len(got)-1].Value != "a" {
			t.Fatalf("the last write is not the last one: %+v", got)
		}
	}},
	{"a foreign domain is read and written as an unknown one", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		d := ownDomain(t, s, ann, 1)
		ownDomain(t, s, bob, 2)
		must(t, "save", s.SaveWritten(t.Context(), ann, d.ID, []dns.Written{write("a", "")}))
		unknown := "10000000-0000-4000-8000-000000000000"
		for _, id := range []string{d.ID, unknown, "x"} {
			written(t, s, bob, id)
			err := s.SaveWritten(t.Context(), bob, id, []dns.Written{write("a", "b")})
			refused(t, "save to "+id, err, fault.DomainNotFound)
			same(t, "save", err, s.SaveWritten(t.Context(), bob, unknown, []dns.Written{write("a", "b")}))
		}
		written(t, s, ann, d.ID, write("a", ""))
	}},
	{"each domain has its own", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		one := ownDomain(t, s, ann, 1)
		two := addDomain(t, s, ann, guid(1), "fabrikam.test")
		must(t, "save", s.SaveWritten(t.Context(), ann, one.ID, []dns.Written{write("a", "")}))
		written(t, s, ann, two.ID)
	}},
	{"what was written is forgotten with its domain", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		d := ownDomain(t, s, ann, 1)
		must(t, "save", s.SaveWritten(t.Context(), ann, d.ID, []dns.Written{write("a", "")}))
		must(t, "delete", s.DeleteTenant(t.Context(), ann, guid(1)))
		written(t, s, ann, d.ID)
	}},
	{"many who write one value at once do not lose each other", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		d := ownDomain(t, s, ann, 1)
		for _, err := range atOnce(crowd, func(i int) error {
			return s.SaveWritten(t.Context(), ann, d.ID, []dns.Written{write("a", ""), write(strings.Repeat("b", i%3), "")})
		}) {
			must(t, "save", err)
		}
		written(t, s, ann, d.ID, write("", ""), write("a", ""), write("b", ""), write("bb", ""))
	}},
}
