// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// startSession stores a connect session and the connect flow of its first link.
func startSession(t testing.TB, s *Store, owner access.AccountID, n byte) (tenant.ConnectSession, ports.ConnectFlow) {
	t.Helper()
	flow := ports.ConnectFlow{StateHash: [32]byte{n, 's'}, Account: owner, Step: ports.FlowStarted, ExpiresAt: now.Add(time.Minute)}
	session := tenant.ConnectSession{
		ID: newID(), Status: tenant.SessionPending, Lifetime: time.Minute, ExpiresAt: flow.ExpiresAt, ReturnURL: "https://app.example/" + hostileText, State: hostileText,
	}
	must(t, "start", s.StartConnectSession(t.Context(), session, flow))
	return session, flow
}

func requireSession(t testing.TB, s *Store, owner access.AccountID, want tenant.ConnectSession) {
	t.Helper()
	got, err := s.ConnectSession(t.Context(), owner, want.ID)
	must(t, "session", err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("the session (-want +got):\n%s", diff)
	}
}

func TestSessionIsFoundByItsLinks(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		want, flow := startSession(t, s, ann, 1)
		requireSession(t, s, ann, want)
		renewedFlow := flow
		renewedFlow.StateHash, renewedFlow.ExpiresAt = [32]byte{2}, now.Add(time.Hour)
		must(t, "renew", s.RenewConnectSession(t.Context(), want.ID, renewedFlow, nil))
		want.ExpiresAt = renewedFlow.ExpiresAt
		for _, link := range []ports.ConnectFlow{flow, renewedFlow} {
			owner, got, err := s.ConnectSessionOfLink(t.Context(), link.StateHash)
			must(t, "session of a link", err)
			if diff := cmp.Diff(want, got); diff != "" || owner != ann {
				t.Fatalf("the session belongs to %s, want %s (-want +got):\n%s", owner, ann, diff)
			}
		}
		_, err := s.TakeFlow(t.Context(), flow.StateHash, flow.BrowserHash, ports.FlowStarted, ports.FlowSigningIn, now)
		requireRefusal(t, "the replaced link", err, fault.ConnectLinkInvalid)
		_, err = s.TakeFlow(t.Context(), renewedFlow.StateHash, renewedFlow.BrowserHash, ports.FlowStarted, ports.FlowSigningIn, now)
		must(t, "the new link", err)
		_, foreignErr := s.ConnectSession(t.Context(), bob, want.ID)
		_, unknownErr := s.ConnectSession(t.Context(), bob, newID())
		requireSameError(t, "a foreign and an unknown session", foreignErr, unknownErr)
		requireRefusal(t, "foreign session", foreignErr, fault.ConnectSessionUnknown)
		renewedFlow.Account, renewedFlow.StateHash = bob, [32]byte{3}
		requireRefusal(t, "renew a foreign session", s.RenewConnectSession(t.Context(), want.ID, renewedFlow, nil), fault.ConnectSessionUnknown)
		_, _, err = s.ConnectSessionOfLink(t.Context(), renewedFlow.StateHash)
		requireRefusal(t, "unknown link", err, fault.ConnectSessionUnknown)
	})
}

func TestSessionAdvancesUntilItEnds(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		want, flow := startSession(t, s, ann, 1)
		unchangedSession, _ := startSession(t, s, ann, 2)
		advance := func(owner access.AccountID, status tenant.SessionStatus, id tenant.GUID) {
			t.Helper()
			must(t, "advance", s.AdvanceConnectSession(t.Context(), owner, flow.StateHash, status, id))
		}
		advance(bob, tenant.SessionDeclined, "")
		requireSession(t, s, ann, want)
		advance(ann, tenant.SessionConsented, guid(1))
		want.Status, want.Tenant = tenant.SessionConsented, guid(1)
		requireSession(t, s, ann, want)
		advance(ann, tenant.SessionDeclined, "")
		want.Status = tenant.SessionDeclined
		requireSession(t, s, ann, want)
		advance(ann, tenant.SessionConsented, guid(2))
		requireSession(t, s, ann, want)
		renewedFlow := flow
		renewedFlow.StateHash = [32]byte{3}
		must(t, "renew", s.RenewConnectSession(t.Context(), want.ID, renewedFlow, nil))
		want.Status, want.Tenant = tenant.SessionPending, ""
		advance(ann, tenant.SessionConsented, guid(2)) // by the replaced link
		requireSession(t, s, ann, want)
		requireSession(t, s, ann, unchangedSession)
	})
}

// TestAttachConnectsTheSession checks that Attach connects a session only if it attaches the tenant
// to the account of the session.
func TestAttachConnectsTheSession(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		want, flow := startSession(t, s, ann, 1)
		attachTenant(t, s, bob, 2)
		_, err := s.Attach(t.Context(), ann, tenant.Tenant{GUID: guid(2), ConsentedAt: now}, want.ID)
		requireRefusal(t, "attach", err, fault.TenantHeld)
		requireSession(t, s, ann, want)
		_, err = s.Attach(t.Context(), bob, tenant.Tenant{GUID: guid(3), ConsentedAt: now}, want.ID)
		must(t, "attach to the wrong account", err)
		requireSession(t, s, ann, want)
		_, err = s.Attach(t.Context(), ann, tenant.Tenant{GUID: guid(1), ConsentedAt: now}, want.ID)
		must(t, "attach", err)
		want.Status, want.Tenant = tenant.SessionConnected, guid(1)
		requireSession(t, s, ann, want)
		flow.StateHash = [32]byte{9}
		requireRefusal(t, "renew", s.RenewConnectSession(t.Context(), want.ID, flow, nil), fault.SessionConnected)
	})
}

func TestSessionIsKeptLongerThanItsFlow(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		want, flow := startSession(t, s, ann, 1)
		must(t, "drop flows", s.DeleteFlows(t.Context(), flow.ExpiresAt.Add(time.Second)))
		must(t, "drop sessions that expired earlier", s.DeleteConnectSessions(t.Context(), flow.ExpiresAt))
		requireSession(t, s, ann, want)
		must(t, "drop sessions", s.DeleteConnectSessions(t.Context(), flow.ExpiresAt.Add(time.Second)))
		_, err := s.ConnectSession(t.Context(), ann, want.ID)
		requireRefusal(t, "a dropped session", err, fault.ConnectSessionUnknown)
		_, _, err = s.ConnectSessionOfLink(t.Context(), flow.StateHash)
		requireRefusal(t, "link of a dropped session", err, fault.ConnectSessionUnknown)
	})
}

func TestAccountSettingsAreReplaced(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		requireSettings := func(want access.Settings) {
			t.Helper()
			got, err := s.Settings(t.Context(), ann)
			must(t, "settings", err)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("the settings (-want +got):\n%s", diff)
			}
		}
		requireSettings(access.Settings{ReturnHosts: []string{}})
		for _, want := range []access.Settings{
			{DisplayName: hostileText, SupportURL: "https://help.example", ReturnHosts: []string{"a.example", "b.example:1"}},
			{DisplayName: "Acme", ReturnHosts: []string{}},
		} {
			_, err := s.ChangeSettings(t.Context(), ann, func(access.Settings) (access.Settings, error) { return want, nil })
			must(t, "change", err)
			requireSettings(want)
		}
		refusal := errors.New("refused")
		if _, err := s.ChangeSettings(t.Context(), ann, func(access.Settings) (access.Settings, error) { return access.Settings{}, refusal }); !errors.Is(err, refusal) {
			t.Fatalf("a refused change returned %v, want %v", err, refusal)
		}
		requireSettings(access.Settings{DisplayName: "Acme", ReturnHosts: []string{}})
		_, err := s.ChangeSettings(t.Context(), "nobody", func(s access.Settings) (access.Settings, error) { return s, nil })
		requireRefusal(t, "unknown account", err, fault.AccountNotFound)
	})
}
