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

// signIn signs a person in at the simulator and returns the result of Administrator.
func (env *testEnv) signIn(t *testing.T, ctx context.Context, tenantInfo contract.Tenant, username string) (tenant.Administrator, error) {
	t.Helper()
	request := sdk.SignIn{
		Tenant: tenantInfo.GUID, State: "s", Nonce: "n", Redirect: "http://127.0.0.1:8080/connect/microsoft365/signin",
		Verifier: secret.New("a-verifier-of-at-least-forty-three-characters"),
	}
	page, err := env.platform.SignInURL(ctx, request)
	if err != nil {
		t.Fatal(err)
	}
	query, err := url.ParseQuery(env.Visit(t, page, username, true))
	if err != nil {
		t.Fatal(err)
	}
	return env.platform.Administrator(ctx, request, secret.New(query.Get("code")))
}

func TestSignInWaitsForANewConsent(t *testing.T) {
	env := newTestEnv(t)
	tenantInfo, _ := env.consentedTenant(t, contract.Setup{}, nil)
	env.Revoke(t, tenantInfo.GUID, contract.GrantConsent)
	// The consent takes effect one minute after Visit. Profile is called in this minute.
	env.setBehaviour(t, tenantInfo.GUID, options{"consent_ms": 60_000})
	page, err := env.platform.ConsentURL(t.Context(), "s", "http://127.0.0.1:8080/connect/microsoft365/callback")
	if err != nil {
		t.Fatal(err)
	}
	env.Visit(t, page, tenantInfo.Admin, true)
	// Only a sign-in waits for the consent. Profile fails at once.
	_, err = env.platform.For(tenantInfo.GUID).Profile(t.Context())
	expectOutcome(t, err, outcome.Refused, fault.AccessDenied)
	env.Advance(t, 59_700*time.Millisecond) // the sign-in waits for the rest of the minute
	admin, err := env.signIn(t, t.Context(), tenantInfo, tenantInfo.Admin)
	if err != nil || admin.Tenant != tenantInfo.GUID || admin.Address != tenantInfo.Admin || admin.Name == "" {
		t.Fatalf("got %+v, %v, want the administrator %s of the tenant %s", admin, err, tenantInfo.Admin, tenantInfo.GUID)
	}
}

// Tests advance the clock of the simulator, so it can be days ahead of the local clock.
func TestSignInWorksWhenThePlatformsClockIsAhead(t *testing.T) {
	env := newTestEnv(t)
	tenantInfo, client := env.consentedTenant(t, contract.Setup{}, nil)
	env.Advance(t, 48*time.Hour)
	if _, err := env.signIn(t, t.Context(), tenantInfo, tenantInfo.Admin); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Profile(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestSignInFailsWhenTheConsentNeverTakesEffect checks the result of a sign-in whose deadline
// leaves no time for another pause.
func TestSignInFailsWhenTheConsentNeverTakesEffect(t *testing.T) {
	env := newTestEnv(t)
	tenantInfo, _ := env.consentedTenant(t, contract.Setup{}, options{"consent_ms": 3_600_000})
	env.Revoke(t, tenantInfo.GUID, contract.GrantConsent)
	page, err := env.platform.ConsentURL(t.Context(), "s", "http://127.0.0.1:8080/connect/microsoft365/callback")
	if err != nil {
		t.Fatal(err)
	}
	env.Visit(t, page, tenantInfo.Admin, true)
	env.platform.(*platform).state.retry.BaseDelay = time.Hour // longer than the deadline
	ctx, cancel := context.WithTimeout(t.Context(), hangTimeout)
	defer cancel()
	_, err = env.signIn(t, ctx, tenantInfo, tenantInfo.Admin)
	expectOutcome(t, err, outcome.Refused, fault.ConsentDeclined)
}

func TestAdministratorRoleIsReadFromTheIDToken(t *testing.T) {
	env := newTestEnv(t)
	env.control(t, http.MethodPost, "/app", options{"wids_in_id_token": true})
	tenantInfo, _ := env.consentedTenant(t, contract.Setup{}, nil)
	if _, err := env.signIn(t, t.Context(), tenantInfo, tenantInfo.Admin); err != nil {
		t.Fatal(err)
	}
	if n := env.calls(t)["GET /graph/v1.0/roleManagement/directory/roleAssignments"]; n != 0 {
		t.Fatalf("role assignments were read %d times, want never", n)
	}
	_, err := env.signIn(t, t.Context(), tenantInfo, tenantInfo.Member)
	expectOutcome(t, err, outcome.Refused, fault.NotAdministrator)
}

func TestNobodyIsAdministratorWithoutPermissionToReadRoles(t *testing.T) {
	env := newTestEnv(t)
	env.control(t, http.MethodPost, "/app", options{"permissions": []string{
		"Organization.Read.All", "Domain.ReadWrite.All", "Exchange.ManageAsApp",
	}})
	tenantInfo, _ := env.consentedTenant(t, contract.Setup{}, nil)
	_, err := env.signIn(t, t.Context(), tenantInfo, tenantInfo.Admin)
	expectOutcome(t, err, outcome.Refused, fault.NotAdministrator)
}

func TestOnlyDirectoryWideRoleAssignmentsCount(t *testing.T) {
	const oid = "c0a8f7de-3b51-4d7e-9f55-7a2f0d6e1b90"
	for name, tc := range map[string]struct {
		assignment roleAssignment
		isGranted  bool
	}{
		"whole directory":         {roleAssignment{oid, globalAdministrator, "/"}, true},
		"upper case":              {roleAssignment{"C0A8F7DE-3B51-4D7E-9F55-7A2F0D6E1B90", globalAdministrator, "/"}, true},
		"one administrative unit": {roleAssignment{oid, globalAdministrator, "/administrativeUnits/x"}, false},
		"no scope":                {roleAssignment{oid, globalAdministrator, ""}, false},
		"a different person":      {roleAssignment{"11111111-3b51-4d7e-9f55-7a2f0d6e1b90", globalAdministrator, "/"}, false},
		"a different role":        {roleAssignment{oid, exchangeAdministrator, "/"}, false},
		"nothing filled in":       {roleAssignment{}, false},
	} {
		if got := tc.assignment.grants(oid, globalAdministrator); got != tc.isGranted {
			t.Errorf("%s: grants returns %v, want %v", name, got, tc.isGranted)
		}
	}
}

func TestAnExpiredClientSecretIsReportedAsDown(t *testing.T) {
	env := newTestEnv(t)
	tenantInfo, client := env.consentedTenant(t, contract.Setup{}, nil)
	env.control(t, http.MethodPost, "/app", options{"expire_secret": true})
	env.platform.(*platform).tokens(tenantInfo.GUID, defaults["graph_scope"]).Renew(0)
	_, err := client.Profile(t.Context())
	expectOutcome(t, err, outcome.Down, fault.ProviderUnavailable)
}

func TestADisabledApplicationIsDeniedAccess(t *testing.T) {
	env := newTestEnv(t)
	tenantInfo, client := env.consentedTenant(t, contract.Setup{}, options{"app_disabled": true})
	env.platform.(*platform).tokens(tenantInfo.GUID, defaults["graph_scope"]).Renew(0)
	_, err := client.Profile(t.Context())
	expectOutcome(t, err, outcome.Refused, fault.AccessDenied)
}
