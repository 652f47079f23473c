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
	if !link.ExpiresAt.Equal(fx.now.Add(7 * 24 * time.Hour)) {
		t.Errorf("the link expires at %v", link.ExpiresAt)
	}
	fx.requireSession(t, link.SessionID, tenant.SessionPending, "")
	fx.now = fx.now.Add(6 * 24 * time.Hour)
	b := fx.openCallback(t, fx.visitPage(t, link.URL, admin))
	fx.requireSession(t, link.SessionID, tenant.SessionPending, "") // the callback does not prove the consent
	confirmation, err := b.signIn(t, admin)
	must(t, err)
	if confirmation.Origin.DisplayName != "Acme" || confirmation.Origin.SupportURL != "mailto:help@acme.example" {
		t.Errorf("the page shows %+v", confirmation.Origin)
	}
	fx.requireSession(t, link.SessionID, tenant.SessionConsented, guid)
	_, err = fx.Confirm(t.Context(), b.cookie, confirmation.CSRF, true)
	must(t, err)
	fx.requireSession(t, link.SessionID, tenant.SessionConnected, guid)
	origin, err := fx.BrowserOrigin(t.Context(), b.cookie)
	if err != nil || origin.ReturnURL != returnURL+"?result=connected&session_id="+link.SessionID+"&state=s-1" {
		t.Errorf("the return URL is %q (%v)", origin.ReturnURL, err)
	}
	_, err = fx.RenewLink(t.Context(), fx.ann, link.SessionID, nil)
	requireRefusal(t, err, fault.SessionConnected)
	// The session is kept for 30 days after its link has expired. The flow is deleted earlier.
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

func TestSessionStatusAfterAFailedRequest(t *testing.T) {
	for _, tt := range []struct {
		name string
		use  func(t *testing.T, fx *fixture, query string) error
		want tenant.SessionStatus
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
		{"a person who is not an administrator", func(t *testing.T, fx *fixture, query string) error {
			_, err := fx.openCallback(t, query).signIn(t, "member@t7b1d9c52.onmicrosoft.com")
			return err
		}, tenant.SessionDeclined},
		{"a tenant of another account", func(t *testing.T, fx *fixture, query string) error {
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
		{"a forged state", func(t *testing.T, fx *fixture, query string) error {
			_, err := fx.Callback(t.Context(), withParam(t, query, "state", "x"))
			return err
		}, tenant.SessionPending},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fx := newFixture(t)
			link := fx.newSession(t, 0)
			if err := tt.use(t, fx, fx.visitPage(t, link.URL, admin)); err == nil {
				t.Fatal("the request did not fail")
			}
			got, err := fx.ConnectSession(t.Context(), fx.ann.ID, link.SessionID)
			if err != nil || got.Status != tt.want {
				t.Errorf("the session is %+v, %v", got, err)
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

// TestExpiredLinkLeadsBack checks that the page of an expired link shows the return URL of its
// session, even if the flow has already been deleted.
func TestExpiredLinkLeadsBack(t *testing.T) {
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
		t.Errorf("the page shows %+v (%v)", origin, err)
	}
	for _, forged := range []string{"", "%zz", "state=x", withParam(t, query, "state", "x")} {
		if origin, err := fx.CallbackOrigin(t.Context(), forged); err != nil || origin != (tenants.Origin{}) {
			t.Errorf("%q shows %+v (%v)", forged, origin, err)
		}
	}
	if origin, err := fx.BrowserOrigin(t.Context(), secret.New("x")); err != nil || origin != (tenants.Origin{}) {
		t.Errorf("an unknown cookie shows %+v (%v)", origin, err)
	}
}

// TestRenewedLinkReplacesTheEarlierOne checks that a renewal ends the flow of the earlier link, and
// that the new link connects the tenant.
func TestRenewedLinkReplacesTheEarlierOne(t *testing.T) {
	fx := newFixture(t)
	first := fx.newSession(t, time.Hour)
	oldBrowser := fx.openCallback(t, fx.visitPage(t, first.URL, admin))
	fx.now = fx.now.Add(30 * time.Minute)
	renewed, err := fx.RenewLink(t.Context(), fx.ann, first.SessionID, nil)
	must(t, err)
	if renewed.SessionID != first.SessionID || renewed.URL == first.URL || !renewed.ExpiresAt.Equal(fx.now.Add(time.Hour)) {
		t.Errorf("renewed as %+v", renewed)
	}
	_, err = oldBrowser.signIn(t, admin)
	requireRefusal(t, err, fault.ConnectLinkInvalid)
	fx.requireSession(t, first.SessionID, tenant.SessionPending, "")
	b := fx.openCallback(t, fx.visitPage(t, renewed.URL, admin))
	confirmation, err := b.signIn(t, admin)
	must(t, err)
	_, err = fx.Confirm(t.Context(), b.cookie, confirmation.CSRF, true)
	must(t, err)
	fx.requireSession(t, first.SessionID, tenant.SessionConnected, guid)
}

func TestRenewReopensAnEndedSession(t *testing.T) {
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
	b := fx.openCallback(t, query)
	confirmation, err := b.signIn(t, admin)
	must(t, err)
	if confirmation.Origin != (tenants.Origin{}) {
		t.Errorf("the page shows %+v", confirmation.Origin)
	}
	_, err = fx.Confirm(t.Context(), b.cookie, confirmation.CSRF, true)
	must(t, err)
	if guids := fx.listedTenants(t, fx.ann); len(guids) != 1 {
		t.Errorf("the account has %v", guids)
	}
}
