// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/ports/contract"
)

// signIn signs a person in and redeems the code.
func (w *world) signIn(t *testing.T, ctx context.Context, who contract.Tenant, username string) (tenant.Administrator, error) {
	t.Helper()
	s := sdk.SignIn{
		Tenant: who.GUID, State: "s", Nonce: "n", Redirect: "http://127.0.0.1:8080/connect/microsoft365/signin",
		Verifier: secret.New("a-verifier-of-at-least-forty-three-characters"),
	}
	page, err := w.platform.SignInURL(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	q, err := url.ParseQuery(w.Visit(t, page, username, true))
	if err != nil {
		t.Fatal(err)
	}
	return w.platform.Administrator(ctx, s, secret.New(q.Get("code")))
}

func TestAFreshConsentIsAwaited(t *testing.T) {
	w := newWorld(t)
	who, _ := w.consented(t, contract.Setup{}, nil)
	w.Revoke(t, who.GUID, contract.GrantConsent)
	w.behave(t, who.GUID, knobs{"consent_ms": 300})
	page, err := w.platform.ConsentURL(t.Context(), "s", "http://127.0.0.1:8080/connect/microsoft365/callback")
	if err != nil {
		t.Fatal(err)
	}
	w.Visit(t, page, who.Admin, true)
	// Outside the connect flow nothing is awaited.
	_, err = w.platform.For(who.GUID).Profile(t.Context())
	ends(t, err, outcome.Refused, fault.AccessDenied)
	admin, err := w.signIn(t, t.Context(), who, who.Admin)
	if err != nil || admin.Tenant != who.GUID || admin.Address != who.Admin || admin.Name == "" {
		t.Fatalf("got %+v, %v", admin, err)
	}
}

// The sandbox's clock moves days ahead, ours does not.
func TestSigningInAfterThePlatformsClockWasMoved(t *testing.T) {
	w := newWorld(t)
	who, c := w.consented(t, contract.Setup{}, nil)
	w.Advance(t, 48*time.Hour)
	if _, err := w.signIn(t, t.Context(), who, who.Admin); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Profile(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestAConsentThatNeverShowsIsDeclined checks how a sign-in ends when the consent
// does not show and the deadline leaves no time for another pause.
func TestAConsentThatNeverShowsIsDeclined(t *testing.T) {
	w := newWorld(t)
	who, _ := w.consented(t, contract.Setup{}, knobs{"consent_ms": 3_600_000})
	w.Revoke(t, who.GUID, contract.GrantConsent)
	page, err := w.platform.ConsentURL(t.Context(), "s", "http://127.0.0.1:8080/connect/microsoft365/callback")
	if err != nil {
		t.Fatal(err)
	}
	w.Visit(t, page, who.Admin, true)
	w.platform.(*platform).house.patience.Base = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	_, err = w.signIn(t, ctx, who, who.Admin)
	ends(t, err, outcome.Refused, fault.ConsentDeclined)
}

func TestTheRoleIsReadWhereTheTokenTellsIt(t *testing.T) {
	w := newWorld(t)
	w.control(t, http.MethodPost, "/app", knobs{"wids_in_id_token": true})
	who, _ := w.consented(t, contract.Setup{}, nil)
	if _, err := w.signIn(t, t.Context(), who, who.Admin); err != nil {
		t.Fatal(err)
	}
	if n := w.calls(t)["GET /graph/v1.0/roleManagement/directory/roleAssignments"]; n != 0 {
		t.Fatalf("the directory was asked %d times", n)
	}
	_, err := w.signIn(t, t.Context(), who, who.Member)
	ends(t, err, outcome.Refused, fault.NotAdministrator)
}

func TestWithoutLeaveToSeeRolesNobodyIsAdministrator(t *testing.T) {
	w := newWorld(t)
	w.control(t, http.MethodPost, "/app", knobs{"permissions": []string{
		"Organization.Read.All", "Domain.ReadWrite.All", "Exchange.ManageAsApp",
	}})
	who, _ := w.consented(t, contract.Setup{}, nil)
	_, err := w.signIn(t, t.Context(), who, who.Admin)
	ends(t, err, outcome.Refused, fault.NotAdministrator)
}

func TestRolesThatDoNotCount(t *testing.T) {
	const oid = "c0a8f7de-3b51-4d7e-9f55-7a2f0d6e1b90"
	for name, tt := range map[string]struct {
		row  roleAssignment
		want bool
	}{
		"whole directory":   {roleAssignment{oid, globalAdministrator, "/"}, true},
		"upper case":        {roleAssignment{"C0A8F7DE-3B51-4D7E-9F55-7A2F0D6E1B90", globalAdministrator, "/"}, true},
		"one unit":          {roleAssignment{oid, globalAdministrator, "/administrativeUnits/x"}, false},
		"no scope":          {roleAssignment{oid, globalAdministrator, ""}, false},
		"another person":    {roleAssignment{"11111111-3b51-4d7e-9f55-7a2f0d6e1b90", globalAdministrator, "/"}, false},
		"another role":      {roleAssignment{oid, exchangeAdministrator, "/"}, false},
		"nothing filled in": {roleAssignment{}, false},
	} {
		if got := tt.row.holds(oid, globalAdministrator); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestOurOwnCredentialIsNeverTheCustomersFault(t *testing.T) {
	w := newWorld(t)
	who, c := w.consented(t, contract.Setup{}, nil)
	w.control(t, http.MethodPost, "/app", knobs{"expire_secret": true})
	w.platform.(*platform).tokens(who.GUID, defaults["graph_scope"]).Renew(0)
	_, err := c.Profile(t.Context())
	ends(t, err, outcome.Down, fault.ProviderUnavailable)
}

func TestDisabledByTheTenant(t *testing.T) {
	w := newWorld(t)
	who, c := w.consented(t, contract.Setup{}, knobs{"app_disabled": true})
	w.platform.(*platform).tokens(who.GUID, defaults["graph_scope"]).Renew(0)
	_, err := c.Profile(t.Context())
	ends(t, err, outcome.Refused, fault.AccessDenied)
}
