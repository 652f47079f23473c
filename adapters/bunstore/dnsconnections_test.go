// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	compare "github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/access"
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
	connection := newDNSConnection(owner, n)
	must(t, "add DNS connection", s.AddDNSConnection(t.Context(), connection, []byte{0, byte(n), 255}))
	return connection
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
		newest, oldest, bobConnection := addDNSConnection(t, s, ann, 3), addDNSConnection(t, s, ann, 1), addDNSConnection(t, s, bob, 2)
		requireDNSConnections(t, s, ann, oldest, newest)
		requireDNSConnections(t, s, bob, bobConnection)
		requireDNSConnections(t, s, "", oldest, bobConnection, newest)
	})
}

func TestSaveDNSConnectionTestChangesOnlyTheResult(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		want, untested := addDNSConnection(t, s, ann, 1), addDNSConnection(t, s, ann, 2)
		want.Status, want.ZonesVisible, want.TestedAt = dnsconnection.Failed, 9, now.Add(time.Hour)
		tested := want
		tested.Name, tested.Provider, tested.CreatedAt = "x", "x", now.Add(time.Hour)
		must(t, "save", s.SaveDNSConnectionTest(t.Context(), tested))
		requireDNSConnections(t, s, ann, want, untested)
		_, credential, err := s.DNSConnection(t.Context(), ann, want.ID)
		must(t, "find", err)
		if !bytes.Equal(credential, []byte{0, 1, 255}) {
			t.Fatalf("the credential after the saved test is %v, want it unchanged", credential)
		}
		older := want
		older.Status, older.TestedAt = dnsconnection.Connected, now.Add(time.Minute)
		must(t, "save an older test", s.SaveDNSConnectionTest(t.Context(), older))
		requireDNSConnections(t, s, ann, want, untested)
	})
}

func TestRemovedDNSConnectionIsDeleted(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		removed, kept := addDNSConnection(t, s, ann, 1), addDNSConnection(t, s, ann, 2)
		got, err := s.RemoveDNSConnection(t.Context(), removed.ID)
		must(t, "remove", err)
		if got != removed {
			t.Fatalf("removed %+v, want %+v", got, removed)
		}
		requireDNSConnections(t, s, ann, kept)
		_, err = s.RemoveDNSConnection(t.Context(), removed.ID)
		requireRefusal(t, "remove again", err, fault.DNSConnectionNotFound)
		requireRefusal(t, "save", s.SaveDNSConnectionTest(t.Context(), removed), fault.DNSConnectionNotFound)
	})
}

func TestForeignAndUnknownDNSConnectionsGetTheSameAnswer(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		connection := addDNSConnection(t, s, ann, 1)
		findError := func(id string) error {
			_, _, err := s.DNSConnection(t.Context(), bob, id)
			return err
		}
		requireRefusal(t, "find", findError(connection.ID), fault.DNSConnectionNotFound)
		requireSameError(t, "find", findError(connection.ID), findError(dnsConnectionID(9)))
		requireSameError(t, "find by a malformed id", findError(connection.ID), findError("x"))
		foreignConnection := connection
		foreignConnection.AccountID, foreignConnection.Status = bob, dnsconnection.Failed
		requireRefusal(t, "save", s.SaveDNSConnectionTest(t.Context(), foreignConnection), fault.DNSConnectionNotFound)
		requireDNSConnections(t, s, ann, connection)
	})
}

func TestDNSConnectionNeedsOpenAccount(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		closeAccount(t, s, ann)
		requireRefusal(t, "add to a closed account", s.AddDNSConnection(t.Context(), newDNSConnection(ann, 1), []byte("x")), fault.AccountClosed)
		unknown := newDNSConnection("10000000-0000-4000-8000-000000000000", 1)
		requireRefusal(t, "add to an unknown account", s.AddDNSConnection(t.Context(), unknown, []byte("x")), fault.AccountNotFound)
		requireDNSConnections(t, s, "")
	})
}

func TestClosingAccountRemovesItsDNSConnections(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		addDNSConnection(t, s, ann, 1)
		addDNSConnection(t, s, ann, 2)
		bobConnection := addDNSConnection(t, s, bob, 3)
		if closing := closeAccount(t, s, ann); closing.DNSConnectionsRemoved != 2 {
			t.Fatalf("the closing is %+v, want 2 removed DNS connections", closing)
		}
		requireDNSConnections(t, s, "", bobConnection)
	})
}

func TestOneOfConcurrentRemovalsOfDNSConnectionSucceeds(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		connection := addDNSConnection(t, s, newAccount(t, s, "ann"), 1)
		errs := concurrently(concurrency, func(int) error {
			_, err := s.RemoveDNSConnection(t.Context(), connection.ID)
			return err
		})
		if n := countWinners(t, errs, fault.DNSConnectionNotFound); n != 1 {
			t.Fatalf("%d removals succeeded, want 1", n)
		}
	})
}

// newOwnedDomain attaches the nth tenant to an account and adds the domain contoso.test to it.
func newOwnedDomain(t testing.TB, s *Store, owner access.AccountID, n int) domain.Domain {
	t.Helper()
	attachTenant(t, s, owner, n)
	return addDomain(t, s, owner, guid(n), "contoso.test")
}
