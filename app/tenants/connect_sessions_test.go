// SPDX-License-Identifier: Apache-2.0

package tenants_test

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/app/tenants"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
)

const returnURL = "https://app.acme.example/done"

// newSession registers the host of returnURL for ann and creates a session.
func (fx *fixture) newSession(t *testing.T, lifetime time.Duration) tenants.Link {
	t.Helper()
	_, err := fx.store.ChangeSettings(t.Context(), fx.ann.ID, func(access.Settings) (access.Settings, error) {
		return access.Settings{DisplayName: "Acme", SupportURL: "mailto:help@acme.example", ReturnHosts: []string{"app.acme.example"}}, nil
	})
	must(t, err)
	link, err := fx.ConnectURL(t.Context(), fx.ann, tenants.LinkRequest{ReturnURL: new(returnURL), State: "s-1", Lifetime: lifetime})
	must(t, err)
	return link
}

func (fx *fixture) requireSession(t *testing.T, id string, status tenant.SessionStatus, connected tenant.GUID) {
	t.Helper()
	got, err := fx.ConnectSession(t.Context(), fx.ann.ID, id)
	if err != nil || got.Status != status || got.Tenant != connected {
		t.Errorf("the session is %+v (%v), want %s of %q", got, err, status, connected)
	}
}

func TestSessionFollowsTheFlow(t *testing.T) {
	fx := newFixture(t)
	link := fx.newSession(t, 7*24*time.Hour)
	if want := fx.now.Add(7 * 24 * time.Hour); !link.ExpiresAt.Equal(want) {
		t.Errorf("the link expires at %v, want %v", link.ExpiresAt, want)
	}
	fx.requireSession(t, link.SessionID, tenant.SessionPending, "")
	fx.now = fx.now.Add(6 * 24 * time.Hour)
	adminBrowser := fx.openCallback(t, fx.visitPage(t, link.URL, admin))
	fx.requireSession(t, link.SessionID, tenant.SessionPending, "") // the callback does not prove the consent
	confirmation, err := adminBrowser.signIn(t, admin)
	must(t, err)
	if confirmation.Origin.DisplayName != "Acme" || confirmation.Origin.SupportURL != "mailto:help@acme.example" {
		t.Errorf("the page shows %+v, want the name and the support URL of Acme", confirmation.Origin)
	}
	fx.requireSession(t, link.SessionID, tenant.SessionConsented, guid)
	_, err = fx.Confirm(t.Context(), adminBrowser.cookie, confirmation.CSRF, true)
	must(t, err)
	fx.requireSession(t, link.SessionID, tenant.SessionConnected, guid)
	origin, err := fx.BrowserOrigin(t.Context(), adminBrowser.cookie)
	if err != nil || origin.ReturnURL != returnURL+"?result=connected&session_id="+link.SessionID+"&state=s-1" {
		t.Errorf("the return URL is %q (%v), want %s with the result, the session and the state", origin.ReturnURL, err, returnURL)
	}
	_, err = fx.RenewLink(t.Context(), fx.ann, link.SessionID, nil)
	requireRefusal(t, err, fault.SessionConnected)
	// ConnectURL deletes expired flows at once, but sessions only after ports.SessionRetention.
	for _, days := range []int{30, 31} {
		fx.now = link.ExpiresAt.Add(time.Duration(days) * 24 * time.Hour)
		_, err = fx.ConnectURL(t.Context(), fx.ann, tenants.LinkRequest{})
		must(t, err)
		if days == 30 {
			fx.requireSession(t, link.SessionID, tenant.SessionConnected, guid)
		}
	}
	_, err = fx.ConnectSession(t.Context(), fx.ann.ID, link.SessionID)
	requireRefusal(t, err, fault.ConnectSessionUnknown)
}

func TestFailedRequestDeclinesTheSessionOrLeavesItPending(t *testing.T) {
	for _, tc := range []struct {
		name           string
		failingRequest func(t *testing.T, fx *fixture, query string) error
		want           tenant.SessionStatus
	}{
		{"the person declines the consent", func(t *testing.T, fx *fixture, query string) error {
			_, err := fx.Callback(t.Context(), withParam(t, query, "error", "access_denied"))
			return err
		}, tenant.SessionDeclined},
		{"the person declines the sign-in", func(t *testing.T, fx *fixture, query string) error {
			b := fx.openCallback(t, query)
			_, err := fx.FinishSignIn(t.Context(), withParam(t, fx.visitPage(t, b.page, admin), "error", "access_denied"), b.cookie)
			return err
		}, tenant.SessionDeclined},
		{"the person is not an administrator", func(t *testing.T, fx *fixture, query string) error {
			_, err := fx.openCallback(t, query).signIn(t, "member@t7b1d9c52.onmicrosoft.com")
			return err
		}, tenant.SessionDeclined},
		{"a different account connects the tenant meanwhile", func(t *testing.T, fx *fixture, query string) error {
			b := fx.openCallback(t, query)
			confirmation, err := b.signIn(t, admin)
			must(t, err)
			fx.connect(t, fx.bob, admin)
			_, err = fx.Confirm(t.Context(), b.cookie, confirmation.CSRF, true)
			return err
		}, tenant.SessionDeclined},
		{"the platform is down", func(t *testing.T, fx *fixture, query string) error {
			defer fx.platform.Fail(fake.Fault{Method: "Profile", Kind: outcome.Down})()
			_, err := fx.openCallback(t, query).signIn(t, admin)
			return err
		}, tenant.SessionPending},
		{"the callback has a forged state", func(t *testing.T, fx *fixture, query string) error {
			_, err := fx.Callback(t.Context(), withParam(t, query, "state", "x"))
			return err
		}, tenant.SessionPending},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fx := newFixture(t)
			link := fx.newSession(t, 0)
			if err := tc.failingRequest(t, fx, fx.visitPage(t, link.URL, admin)); err == nil {
				t.Fatal("the request did not fail")
			}
			got, err := fx.ConnectSession(t.Context(), fx.ann.ID, link.SessionID)
			if err != nil || got.Status != tc.want {
				t.Errorf("the session is %+v, %v, want it %s", got, err, tc.want)
			}
		})
	}
}

func TestCancelledSessionIsDeclined(t *testing.T) {
	fx := newFixture(t)
	link := fx.newSession(t, 0)
	b := fx.openCallback(t, fx.visitPage(t, link.URL, admin))
	confirmation, err := b.signIn(t, admin)
	must(t, err)
	_, err = fx.Confirm(t.Context(), b.cookie, confirmation.CSRF, false)
	must(t, err)
	fx.requireSession(t, link.SessionID, tenant.SessionDeclined, guid)
}

// TestExpiredLinkShowsTheReturnURL checks that the page of an expired link shows the return URL of
// the session, even if the flow of the link has already been deleted.
func TestExpiredLinkShowsTheReturnURL(t *testing.T) {
	fx := newFixture(t)
	link := fx.newSession(t, time.Hour)
	query := fx.visitPage(t, link.URL, admin)
	fx.now = link.ExpiresAt
	_, err := fx.ConnectURL(t.Context(), fx.ann, tenants.LinkRequest{})
	must(t, err)
	_, err = fx.Callback(t.Context(), query)
	requireRefusal(t, err, fault.ConnectLinkInvalid)
	fx.requireSession(t, link.SessionID, tenant.SessionExpired, "")
	origin, err := fx.CallbackOrigin(t.Context(), query)
	if err != nil || origin.ReturnURL != returnURL+"?result=expired&session_id="+link.SessionID+"&state=s-1" || origin.DisplayName != "Acme" {
		t.Errorf("the page shows %+v (%v), want the return URL with the result expired, and Acme", origin, err)
	}
	for _, forged := range []string{"", "%zz", "state=x", withParam(t, query, "state", "x")} {
		if origin, err := fx.CallbackOrigin(t.Context(), forged); err != nil || origin != (tenants.Origin{}) {
			t.Errorf("the page of the forged query %q shows %+v (%v), want no origin", forged, origin, err)
		}
	}
	if origin, err := fx.BrowserOrigin(t.Context(), secret.New("x")); err != nil || origin != (tenants.Origin{}) {
		t.Errorf("the page for an unknown cookie shows %+v (%v), want no origin", origin, err)
	}
}

// TestRenewedLinkReplacesTheEarlierLink checks that a renewal ends the flow of the earlier link,
// and that the renewed link connects the tenant.
func TestRenewedLinkReplacesTheEarlierLink(t *testing.T) {
	fx := newFixture(t)
	earlierLink := fx.newSession(t, time.Hour)
	oldBrowser := fx.openCallback(t, fx.visitPage(t, earlierLink.URL, admin))
	fx.now = fx.now.Add(30 * time.Minute)
	renewedLink, err := fx.RenewLink(t.Context(), fx.ann, earlierLink.SessionID, nil)
	must(t, err)
	if renewedLink.SessionID != earlierLink.SessionID || renewedLink.URL == earlierLink.URL || !renewedLink.ExpiresAt.Equal(fx.now.Add(time.Hour)) {
		t.Errorf("renewed as %+v, want a new URL of the same session that is valid for an hour", renewedLink)
	}
	_, err = oldBrowser.signIn(t, admin)
	requireRefusal(t, err, fault.ConnectLinkInvalid)
	fx.requireSession(t, earlierLink.SessionID, tenant.SessionPending, "")
	newBrowser := fx.openCallback(t, fx.visitPage(t, renewedLink.URL, admin))
	confirmation, err := newBrowser.signIn(t, admin)
	must(t, err)
	_, err = fx.Confirm(t.Context(), newBrowser.cookie, confirmation.CSRF, true)
	must(t, err)
	fx.requireSession(t, earlierLink.SessionID, tenant.SessionConnected, guid)
}

func TestRenewalReopensADeclinedOrExpiredSession(t *testing.T) {
	fx := newFixture(t)
	link := fx.newSession(t, time.Hour)
	_, err := fx.Callback(t.Context(), withParam(t, fx.visitPage(t, link.URL, admin), "error", "access_denied"))
	requireRefusal(t, err, fault.ConsentDeclined)
	_, err = fx.RenewLink(t.Context(), fx.ann, link.SessionID, nil)
	must(t, err)
	fx.requireSession(t, link.SessionID, tenant.SessionPending, "")
	fx.now = fx.now.Add(time.Hour)
	fx.requireSession(t, link.SessionID, tenant.SessionExpired, "")
	_, err = fx.RenewLink(t.Context(), fx.ann, link.SessionID, nil)
	must(t, err)
	fx.requireSession(t, link.SessionID, tenant.SessionPending, "")
	_, err = fx.RenewLink(t.Context(), fx.bob, link.SessionID, nil)
	requireRefusal(t, err, fault.ConnectSessionUnknown)
	_, err = fx.ConnectSession(t.Context(), fx.bob.ID, link.SessionID)
	requireRefusal(t, err, fault.ConnectSessionUnknown)
	_, err = fx.store.ChangeSettings(t.Context(), fx.ann.ID, func(s access.Settings) (access.Settings, error) {
		s.ReturnHosts = nil
		return s, nil
	})
	must(t, err)
	_, err = fx.RenewLink(t.Context(), fx.ann, link.SessionID, nil)
	requireRefusal(t, err, fault.InvalidReturnURL)
}

func TestReturnURLIsCheckedBeforeTheSlots(t *testing.T) {
	fx := newFixture(t)
	fx.connect(t, fx.ann, admin)
	fx.connect(t, fx.ann, otherAdmin)
	_, err := fx.ConnectURL(t.Context(), fx.ann, tenants.LinkRequest{ReturnURL: new("https://app.acme.example")})
	requireRefusal(t, err, fault.InvalidReturnURL)
	_, err = fx.ConnectURL(t.Context(), fx.ann, tenants.LinkRequest{})
	requireRefusal(t, err, fault.TenantLimitReached)
}

// TestLinkWithoutASessionConnects completes the flow of a link without a session. Earlier releases
// created links without sessions.
func TestLinkWithoutASessionConnects(t *testing.T) {
	fx := newFixture(t)
	query := fx.grantConsent(t, fx.ann, admin)
	must(t, fx.store.DeleteConnectSessions(t.Context(), fx.now.Add(time.Hour)))
	adminBrowser := fx.openCallback(t, query)
	confirmation, err := adminBrowser.signIn(t, admin)
	must(t, err)
	if confirmation.Origin != (tenants.Origin{}) {
		t.Errorf("the page shows %+v, want no origin", confirmation.Origin)
	}
	_, err = fx.Confirm(t.Context(), adminBrowser.cookie, confirmation.CSRF, true)
	must(t, err)
	if guids := fx.listedTenants(t, fx.ann); len(guids) != 1 {
		t.Errorf("ann has the tenants %v, want one", guids)
	}
}
