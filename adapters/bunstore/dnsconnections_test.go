// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	compare "github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/dnsconnection"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
)

func dnsConnectionID(n int) string { return fmt.Sprintf("20000000-0000-7000-8000-%012d", n) }

// newDNSConnection returns the nth connection, created n seconds after now.
func newDNSConnection(owner access.AccountID, n int) dnsconnection.Connection {
	at := now.Add(time.Duration(n) * time.Second)
	return dnsconnection.Connection{
		ID: dnsConnectionID(n), AccountID: owner, Provider: "cloudflare", Name: hostileText,
		Status: dnsconnection.Connected, ZonesVisible: n, TestedAt: at, CreatedAt: at,
	}
}

func addDNSConnection(t testing.TB, s *Store, owner access.AccountID, n int) dnsconnection.Connection {
	t.Helper()
	c := newDNSConnection(owner, n)
	must(t, "add DNS connection", s.AddDNSConnection(t.Context(), c, []byte{0, byte(n), 255}))
	return c
}

// requireDNSConnections checks the connections of an account, or of all accounts if owner is empty.
func requireDNSConnections(t testing.TB, s *Store, owner access.AccountID, want ...dnsconnection.Connection) {
	t.Helper()
	got, err := s.DNSConnections(t.Context(), owner)
	must(t, "list DNS connections", err)
	if len(got) != len(want) || len(got) > 0 && !compare.Equal(got, want) {
		t.Fatalf("the connections of %q (-want +got):\n%s", owner, compare.Diff(want, got))
	}
}

func TestDNSConnectionIsStoredWithItsCredential(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		want := addDNSConnection(t, s, ann, 7)
		for _, owner := range []access.AccountID{ann, ""} {
			got, credential, err := s.DNSConnection(t.Context(), owner, want.ID)
			must(t, "find", err)
			if diff := compare.Diff(want, got); diff != "" || !bytes.Equal(credential, []byte{0, 7, 255}) {
				t.Fatalf("found by %q: credential %v (-want +got):\n%s", owner, credential, diff)
			}
		}
	})
}

func TestDNSConnectionsAreListedOldestFirst(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		requireDNSConnections(t, s, ann)
		third, first, bobs := addDNSConnection(t, s, ann, 3), addDNSConnection(t, s, ann, 1), addDNSConnection(t, s, bob, 2)
		requireDNSConnections(t, s, ann, first, third)
		requireDNSConnections(t, s, bob, bobs)
		requireDNSConnections(t, s, "", first, bobs, third)
	})
}

func TestSaveDNSConnectionTestChangesOnlyTheResult(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		want, other := addDNSConnection(t, s, ann, 1), addDNSConnection(t, s, ann, 2)
		want.Status, want.ZonesVisible, want.TestedAt = dnsconnection.Failed, 9, now.Add(time.Hour)
		tested := want
		tested.Name, tested.Provider, tested.CreatedAt = "x", "x", now.Add(time.Hour)
		must(t, "save", s.SaveDNSConnectionTest(t.Context(), tested))
		requireDNSConnections(t, s, ann, want, other)
		_, credential, err := s.DNSConnection(t.Context(), ann, want.ID)
		must(t, "find", err)
		if !bytes.Equal(credential, []byte{0, 1, 255}) {
			t.Fatalf("the credential is %v", credential)
		}
	})
}

func TestRemovedDNSConnectionIsDeleted(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		gone, stays := addDNSConnection(t, s, ann, 1), addDNSConnection(t, s, ann, 2)
		got, err := s.RemoveDNSConnection(t.Context(), gone.ID)
		must(t, "remove", err)
		if got != gone {
			t.Fatalf("removed %+v", got)
		}
		requireDNSConnections(t, s, ann, stays)
		_, err = s.RemoveDNSConnection(t.Context(), gone.ID)
		requireRefusal(t, "remove again", err, fault.DNSConnectionNotFound)
		requireRefusal(t, "save", s.SaveDNSConnectionTest(t.Context(), gone), fault.DNSConnectionNotFound)
	})
}

func TestForeignAndUnknownDNSConnectionsGetTheSameAnswer(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		c := addDNSConnection(t, s, ann, 1)
		find := func(id string) error {
			_, _, err := s.DNSConnection(t.Context(), bob, id)
			return err
		}
		requireRefusal(t, "find", find(c.ID), fault.DNSConnectionNotFound)
		requireSameError(t, "find", find(c.ID), find(dnsConnectionID(9)))
		requireSameError(t, "find by no id", find(c.ID), find("x"))
		foreign := c
		foreign.AccountID, foreign.Status = bob, dnsconnection.Failed
		requireRefusal(t, "save", s.SaveDNSConnectionTest(t.Context(), foreign), fault.DNSConnectionNotFound)
		requireDNSConnections(t, s, ann, c)
	})
}

func TestDNSConnectionNeedsOpenAccount(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		closeAccount(t, s, ann)
		requireRefusal(t, "a closed one", s.AddDNSConnection(t.Context(), newDNSConnection(ann, 1), []byte("x")), fault.AccountClosed)
		unknown := newDNSConnection("10000000-0000-4000-8000-000000000000", 1)
		requireRefusal(t, "an unknown one", s.AddDNSConnection(t.Context(), unknown, []byte("x")), fault.AccountNotFound)
		requireDNSConnections(t, s, "")
	})
}

func TestClosingAccountRemovesItsDNSConnections(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		addDNSConnection(t, s, ann, 1)
		addDNSConnection(t, s, ann, 2)
		bobs := addDNSConnection(t, s, bob, 3)
		if done := closeAccount(t, s, ann); done.DNSConnectionsRemoved != 2 {
			t.Fatalf("got %+v", done)
		}
		requireDNSConnections(t, s, "", bobs)
	})
}

func TestOneOfConcurrentRemovalsOfDNSConnectionSucceeds(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		c := addDNSConnection(t, s, newAccount(t, s, "ann"), 1)
		errs := concurrently(concurrency, func(int) error {
			_, err := s.RemoveDNSConnection(t.Context(), c.ID)
			return err
		})
		if n := countWinners(t, errs, fault.DNSConnectionNotFound); n != 1 {
			t.Fatalf("%d removed it", n)
		}
	})
}

// newOwnedDomain attaches the nth tenant to an account and adds the domain contoso.test to it.
func newOwnedDomain(t testing.TB, s *Store, owner access.AccountID, n int) domain.Domain {
	t.Helper()
	attachTenant(t, s, owner, n)
	return addDomain(t, s, owner, guid(n), "contoso.test")
}

func writtenRecord(value, replaced string) dns.Written {
	return dns.Written{Purpose: dns.Sending, Name: "contoso.test", Type: dns.TXT, Value: value, Replaced: replaced}
}

// requireWritten checks the records that are stored as written for a domain, in any order.
func requireWritten(t testing.TB, s *Store, owner access.AccountID, domainID string, want ...dns.Written) {
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

func TestWrittenRecordIsStoredUnchanged(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		d := newOwnedDomain(t, s, ann, 1)
		want := []dns.Written{
			writtenRecord("v=spf1 -all", ""), writtenRecord("v=spf1 \xff\x00"+hostileText, "v=spf1 \xfe"), writtenRecord(strings.Repeat("long ", 3000), hostileText),
			{Purpose: dns.Ownership, Name: "contoso.test", Type: dns.TXT, Value: "v=spf1 -all"},
			{Purpose: dns.Sending, Name: "www.contoso.test", Type: dns.TXT, Value: "v=spf1 -all"},
			{Purpose: dns.Sending, Name: "contoso.test", Type: dns.MX, Value: "v=spf1 -all"},
		}
		requireWritten(t, s, ann, d.ID)
		must(t, "save nothing", s.SaveWritten(t.Context(), ann, d.ID, nil))
		must(t, "save", s.SaveWritten(t.Context(), ann, d.ID, want[:2]))
		must(t, "save more", s.SaveWritten(t.Context(), ann, d.ID, want[2:]))
		requireWritten(t, s, ann, d.ID, want...)
	})
}

func TestLastOfTwoWritesOfOneValueIsKept(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		d := newOwnedDomain(t, s, ann, 1)
		must(t, "save", s.SaveWritten(t.Context(), ann, d.ID, []dns.Written{writtenRecord("a", ""), writtenRecord("b", "a")}))
		must(t, "save again", s.SaveWritten(t.Context(), ann, d.ID, []dns.Written{writtenRecord("a", "x"), writtenRecord("a", "b")}))
		requireWritten(t, s, ann, d.ID, writtenRecord("a", "b"), writtenRecord("b", "a"))
		got, err := s.Written(t.Context(), ann, d.ID)
		must(t, "list", err)
		if got[len(got)-1].Value != "a" {
			t.Fatalf("the last write is not the last one: %+v", got)
		}
	})
}

func TestWrittenRecordsOfForeignAndUnknownDomainsGetTheSameAnswer(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		d := newOwnedDomain(t, s, ann, 1)
		newOwnedDomain(t, s, bob, 2)
		must(t, "save", s.SaveWritten(t.Context(), ann, d.ID, []dns.Written{writtenRecord("a", "")}))
		unknown := "10000000-0000-4000-8000-000000000000"
		for _, id := range []string{d.ID, unknown, "x"} {
			requireWritten(t, s, bob, id)
			err := s.SaveWritten(t.Context(), bob, id, []dns.Written{writtenRecord("a", "b")})
			requireRefusal(t, "save to "+id, err, fault.DomainNotFound)
			requireSameError(t, "save", err, s.SaveWritten(t.Context(), bob, unknown, []dns.Written{writtenRecord("a", "b")}))
		}
		requireWritten(t, s, ann, d.ID, writtenRecord("a", ""))
	})
}

func TestEachDomainHasItsOwnWrittenRecords(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		one := newOwnedDomain(t, s, ann, 1)
		two := addDomain(t, s, ann, guid(1), "fabrikam.test")
		must(t, "save", s.SaveWritten(t.Context(), ann, one.ID, []dns.Written{writtenRecord("a", "")}))
		requireWritten(t, s, ann, two.ID)
	})
}

func TestWrittenRecordsAreDeletedWithTheirDomain(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		d := newOwnedDomain(t, s, ann, 1)
		must(t, "save", s.SaveWritten(t.Context(), ann, d.ID, []dns.Written{writtenRecord("a", "")}))
		must(t, "delete", s.DeleteTenant(t.Context(), ann, guid(1), nil))
		requireWritten(t, s, ann, d.ID)
	})
}

func TestConcurrentWritesOfOneValueAreAllStored(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		d := newOwnedDomain(t, s, ann, 1)
		for _, err := range concurrently(concurrency, func(i int) error {
			return s.SaveWritten(t.Context(), ann, d.ID, []dns.Written{writtenRecord("a", ""), writtenRecord(strings.Repeat("b", i%3), "")})
		}) {
			must(t, "save", err)
		}
		requireWritten(t, s, ann, d.ID, writtenRecord("", ""), writtenRecord("a", ""), writtenRecord("b", ""), writtenRecord("bb", ""))
	})
}
