// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

func startFlow(t testing.TB, s Stores, owner access.AccountID, n byte) ports.ConnectFlow {
	t.Helper()
	f := ports.ConnectFlow{StateHash: [32]byte{n, 's'}, Account: owner, Step: ports.FlowStarted, ExpiresAt: now.Add(time.Minute)}
	must(t, "start", s.StartFlow(t.Context(), f))
	return f
}

var flowChecks = []storeCheck{
	{"a flow carries what its steps add", func(t testing.TB, s Stores) {
		want := startFlow(t, s, newAccount(t, s, "ann"), 1)
		got, err := s.TakeFlow(t.Context(), want.StateHash, ports.FlowStarted, ports.FlowSigningIn, now)
		must(t, "first step", err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("the flow before the step (-want +got):\n%s", diff)
		}
		want.Step, want.Browser, want.Claimed = ports.FlowSigningIn, [32]byte{2, 'b'}, guid(1)
		want.SignInHash, want.Nonce, want.Verifier = [32]byte{3}, "nonce", []byte{0, 1, 255}
		want.Administrator = tenant.Administrator{Tenant: guid(1), Address: "admin@contoso.test", Name: hostile}
		want.Profile = tenant.Profile{Name: hostile, BuiltinDomain: "contoso.onmicrosoft.com", DefaultDomain: "contoso.test"}
		must(t, "save", s.SaveFlow(t.Context(), want))
		got, err = s.TakeFlow(t.Context(), want.StateHash, ports.FlowSigningIn, ports.FlowProving, now)
		must(t, "second step", err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("the flow after saving (-want +got):\n%s", diff)
		}
	}},
	{"only the flow at that step, in time, moves on", func(t testing.TB, s Stores) {
		f := startFlow(t, s, newAccount(t, s, "ann"), 1)
		for _, tt := range []struct {
			name string
			hash [32]byte
			from ports.ConnectStep
			at   time.Time
		}{
			{"unknown state", [32]byte{9}, ports.FlowStarted, now},
			{"a later step", f.StateHash, ports.FlowConfirm, now},
			{"at its expiry", f.StateHash, ports.FlowStarted, f.ExpiresAt},
			{"long expired", f.StateHash, ports.FlowStarted, f.ExpiresAt.Add(time.Hour)},
		} {
			_, err := s.TakeFlow(t.Context(), tt.hash, tt.from, ports.FlowDone, tt.at)
			refused(t, tt.name, err, fault.ConnectLinkInvalid)
		}
		_, err := s.TakeFlow(t.Context(), f.StateHash, ports.FlowStarted, ports.FlowSigningIn, now)
		must(t, "the flow afterwards", err)
		_, err = s.TakeFlow(t.Context(), f.StateHash, ports.FlowStarted, ports.FlowSigningIn, now)
		refused(t, "used again", err, fault.ConnectLinkInvalid)
	}},
	{"of several that take one step at once one wins", func(t testing.TB, s Stores) {
		f := startFlow(t, s, newAccount(t, s, "ann"), 1)
		errs := atOnce(crowd, func(int) error {
			_, err := s.TakeFlow(t.Context(), f.StateHash, ports.FlowStarted, ports.FlowSigningIn, now)
			return err
		})
		if n := winners(t, errs, fault.ConnectLinkInvalid); n != 1 {
			t.Fatalf("%d took the step", n)
		}
	}},
	{"a flow that moved on is not saved over", func(t testing.TB, s Stores) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		f := startFlow(t, s, ann, 1)
		foreign := f
		foreign.Account = bob
		refused(t, "save for another account", s.SaveFlow(t.Context(), foreign), fault.ConnectLinkInvalid)
		_, err := s.TakeFlow(t.Context(), f.StateHash, ports.FlowStarted, ports.FlowSigningIn, now)
		must(t, "step", err)
		refused(t, "save at the step before", s.SaveFlow(t.Context(), f), fault.ConnectLinkInvalid)
	}},
	{"expired flows are dropped, others stay", func(t testing.TB, s Stores) {
		ann := newAccount(t, s, "ann")
		old, live := startFlow(t, s, ann, 1), startFlow(t, s, ann, 2)
		late := live
		late.StateHash, late.ExpiresAt = [32]byte{3}, live.ExpiresAt.Add(time.Hour)
		must(t, "start", s.StartFlow(t.Context(), late))
		must(t, "drop", s.DropFlows(t.Context(), old.ExpiresAt.Add(time.Second)))
		_, err := s.TakeFlow(t.Context(), old.StateHash, ports.FlowStarted, ports.FlowDone, now)
		refused(t, "dropped", err, fault.ConnectLinkInvalid)
		_, err = s.TakeFlow(t.Context(), late.StateHash, ports.FlowStarted, ports.FlowDone, now)
		must(t, "kept", err)
	}},
}
