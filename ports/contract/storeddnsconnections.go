// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dnsconnection"
	"github.com/tenantry/tenantry/core/fault"
)

func dnsConnectionID(n int) string { return fmt.Sprintf("20000000-0000-7000-8000-%012d", n) }

// dnsConnection is the nth one, added n seconds after now.
func dnsConnection(owner access.AccountID, n int) dnsconnection.Connection {
	at := now.Add(time.Duration(n) * time.Second)
	return dnsconnection.Connection{
		ID: dnsConnectionID(n), AccountID: owner, Provider: "cloudflare", Name: hostile,
		Status: dnsconnection.Connected, ZonesVisible: n, TestedAt: at, CreatedAt: at,
	}
}

func addDNSConnection(t testing.TB, s Stores, owner access.AccountID, n int) dnsconnection.Connection {
	t.Helper()
	c := dnsConnection(owner, n)
	must(t, "add DNS connection", s.AddDNSConnection(t.Context(), c, []byte{0, byte(n), 255}))
	return c
}

// listed checks the list of an account's connections, or of all.
func listed(t testing.TB, s Stores, owner access.AccountID, want ...dnsconnection.Connection) {
	t.Helper()
	got, err := s.DNSConnections(t.Context(), owner)
	must(t, "list DNS connections", err)
	if len(got) != len(want) || len(got) > 0 && !cmp.Equal(got, want) {
		t.Fatalf("the connections of %q (-want +got):\n%s", owner, cmp.Diff(want, got))
	}
}

var dnsConnectionChecks = []storeCheck{
	{"a connection is kept with its credential", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		want := addDNSConnection(t, s, ann, 7)
		for _, owner := range []access.AccountID{ann, ""} {
			got, credential, err := s.DNSConnection(t.Context(), owner, want.ID)
			must(t, "find", err)
			if diff := cmp.Diff(want, got); diff != "" || !bytes.Equal(credential, []byte{0, 7, 255}) {
				t.Fatalf("found by %q: credential %v (-want +got):\n%s", owner, credential, diff)
			}
		}
	}},
	{"connections are listed oldest first, several to one provider too", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		listed(t, s, ann)
		third, first, bobs := addDNSConnection(t, s, ann, 3), addDNSConnection(t, s, ann, 1), addDNSConnection(t, s, bob, 2)
		listed(t, s, ann, first, third)
		listed(t, s, bob, bobs)
		listed(t, s, "", first, bobs, third)
	}},
	{"a test changes what it found out and nothing else", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		want, other := addDNSConnection(t, s, ann, 1), addDNSConnection(t, s, ann, 2)
		want.Status, want.ZonesVisible, want.TestedAt = dnsconnection.Failed, 9, now.Add(time.Hour)
		tested := want
		tested.Name, tested.Provider, tested.CreatedAt = "x", "x", now.Add(time.Hour)
		must(t, "save", s.SaveDNSConnectionTest(t.Context(), tested))
		listed(t, s, ann, want, other)
		_, credential, err := s.DNSConnection(t.Context(), ann, want.ID)
		must(t, "find", err)
		if !bytes.Equal(credential, []byte{0, 1, 255}) {
			t.Fatalf("the credential is %v", credential)
		}
	}},
	{"a removed connection is gone for good", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		gone, stays := addDNSConnection(t, s, ann, 1), addDNSConnection(t, s, ann, 2)
		got, err := s.RemoveDNSConnection(t.Context(), gone.ID)
		must(t, "remove", err)
		if got != gone {
			t.Fatalf("removed %+v", got)
		}
		listed(t, s, ann, stays)
		_, err = s.RemoveDNSConnection(t.Context(), gone.ID)
		refused(t, "remove again", err, fault.DNSConnectionNotFound)
		refused(t, "save", s.SaveDNSConnectionTest(t.Context(), gone), fault.DNSConnectionNotFound)
	}},
	{"foreign and unknown connections are one answer", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		c := addDNSConnection(t, s, ann, 1)
		find := func(id string) error {
			_, _, err := s.DNSConnection(t.Context(), bob, id)
			return err
		}
		refused(t, "find", find(c.ID), fault.DNSConnectionNotFound)
		same(t, "find", find(c.ID), find(dnsConnectionID(9)))
		same(t, "find by no id", find(c.ID), find("x"))
		foreign := c
		foreign.AccountID, foreign.Status = bob, dnsconnection.Failed
		refused(t, "save", s.SaveDNSConnectionTest(t.Context(), foreign), fault.DNSConnectionNotFound)
		listed(t, s, ann, c)
	}},
	{"no account, no connection", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		closeAccount(t, s, ann)
		refused(t, "a closed one", s.AddDNSConnection(t.Context(), dnsConnection(ann, 1), []byte("x")), fault.AccountClosed)
		unknown := dnsConnection("10000000-0000-4000-8000-000000000000", 1)
		refused(t, "an unknown one", s.AddDNSConnection(t.Context(), unknown, []byte("x")), fault.AccountNotFound)
		listed(t, s, "")
	}},
	{"closing an account removes its connections", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		addDNSConnection(t, s, ann, 1)
		addDNSConnection(t, s, ann, 2)
		bobs := addDNSConnection(t, s, bob, 3)
		if done := closeAccount(t, s, ann); done.DNSConnectionsRemoved != 2 {
			t.Fatalf("got %+v", done)
		}
		listed(t, s, "", bobs)
	}},
	{"of many who remove one connection one wins", func(t testing.TB, s Stores) {
		c := addDNSConnection(t, s, newAccount(t, s, "ann"), 1)
		errs := atOnce(crowd, func(int) error {
			_, err := s.RemoveDNSConnection(t.Context(), c.ID)
			return err
		})
		if n := winners(t, errs, fault.DNSConnectionNotFound); n != 1 {
			t.Fatalf("%d removed it", n)
		}
	}},
}
