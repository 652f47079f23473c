// SPDX-License-Identifier: Apache-2.0

package tenants_test

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/app/apptest"
	"github.com/tenantry/tenantry/app/tenants"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
)

const returnURL = "https://app.acme.example/done"

// newSession registers the return host for ann and starts a session.
func (fx *fixture) newSession(t *testing.T, lifetime time.Duration) tenants.Link {
	t.Helper()
	_, err := fx.store.ChangeSettings(t.Context(), fx.ann.ID, func(access.Settings) (access.Settings, error) {
		return access.Settings{DisplayName: "Acme", SupportURL: "mailto:help@acme.example", ReturnHosts: []string{"app.acme.example"}}, nil
	})
	apptest.Must(t, err)
	link, err := fx.ConnectURL(t.Context(), fx.ann, tenants.LinkRequest{ReturnURL: new(returnURL), State: "s-1", Lifetime: lifetime})
	apptest.Must(t, err)
	return link
}

// checkSession checks the status and the tenant of a session.
func (fx *fixture) checkSession(t *testing.T, id string, status tenant.SessionStatus, of tenant.GUID) {
	t.Helper()
	got, err := fx.ConnectSession(t.Context(), fx.ann.ID, id)
	if err != nil || got.Status != status || got.Tenant != of {
		t.Errorf("the session is %+v (%v), want %s of %q", got, err, status, of)
	}
}

func TestSessionFollowsTheFlow(t *testing.T) {
	fx := newFixture(t)
	link := fx.newSession(t, 7*24*time.Hour)
	if !link.ExpiresAt.Equal(fx.now.Add(7 * 24 * time.Hour)) {
		t.Errorf("the link expires at %v", link.ExpiresAt)
	}
	fx.checkSession(t, link.SessionID, tenant.SessionPending, "")
	fx.now = fx.now.Add(6 * 24 * time.Hour)
	b := fx.callback(t, fx.visit(t, link.URL, admin))
	fx.checkSession(t, link.SessionID, tenant.SessionPending, "") // the callback proves nothing
	offer, err := b.signIn(t, admin)
	apptest.Must(t, err)
	if offer.Origin.DisplayName != "Acme" || offer.Origin.SupportURL != "mailto:help@acme.example" {
		t.Errorf("the page shows %+v", offer.Origin)
	}
	fx.checkSession(t, link.SessionID, tenant.SessionConsented, guid)
	_, err = fx.Confirm(t.Context(), b.cookie, offer.CSRF, true)
	apptest.Must(t, err)
	fx.checkSession(t, link.SessionID, tenant.SessionConnected, guid)
	origin, err := fx.BrowserOrigin(t.Context(), b.cookie)
	if err != nil || origin.ReturnURL != returnURL+"?result=connected&session_id="+link.SessionID+"&state=s-1" {
		t.Errorf("leads back to %q (%v)", origin.ReturnURL, err)
	}
	_, err = fx.RenewLink(t.Context(), fx.ann, link.SessionID, nil)
	refused(t, err, fault.SessionConnected)
	// The status survives the flow, for 30 days after the expiry.
	for _, days := range []int{30, 31} {
		fx.now = link.ExpiresAt.Add(time.Duration(days) * 24 * time.Hour)
		_, err = fx.ConnectURL(t.Context(), fx.ann, tenants.LinkRequest{})
		apptest.Must(t, err)
		if days == 30 {
			fx.checkSession(t, link.SessionID, tenant.SessionConnected, guid)
		}
	}
	_, err = fx.ConnectSession(t.Context(), fx.ann.ID, link.SessionID)
	refused(t, err, fault.ConnectSessionUnknown)
}

func TestSessionOfARefusedLinkIsDeclined(t *testing.T) {
	for _, tt := range []struct {
		name string
		try  func(t *testing.T, fx *fixture, query string) error
		want tenant.SessionStatus
	}{
		{"declined at the platform", func(t *testing.T, fx *fixture, query string) error {
			_, err := fx.Callback(t.Context(), withParam(t, query, "error", "access_denied"))
			return err
		}, tenant.SessionDeclined},
		{"nobody signs in", func(t *testing.T, fx *fixture, query string) error {
			b := fx.callback(t, query)
			_, err := fx.FinishSignIn(t.Context(), withParam(t, fx.visit(t, b.page, admin), "error", "access_denied"), b.cookie)
			return err
		}, tenant.SessionDeclined},
		{"no administrator", func(t *testing.T, fx *fixture, query string) error {
			_, err := fx.callback(t, query).signIn(t, "member@t7b1d9c52.onmicrosoft.com")
			return err
		}, tenant.SessionDeclined},
		{"held elsewhere", func(t *testing.T, fx *fixture, query string) error {
			b := fx.callback(t, query)
			offer, err := b.signIn(t, admin)
			apptest.Must(t, err)
			fx.connect(t, fx.bob, admin)
			_, err = fx.Confirm(t.Context(), b.cookie, offer.CSRF, true)
			return err
		}, tenant.SessionDeclined},
		{"the platform is away", func(t *testing.T, fx *fixture, query string) error {
			defer fx.platform.Fail(fake.Fault{Method: "Profile", Kind: outcome.Down})()
			_, err := fx.callback(t, query).signIn(t, admin)
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
			if err := tt.try(t, fx, fx.visit(t, link.URL, admin)); err == nil {
				t.Fatal("the request was not refused")
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
	b := fx.callback(t, fx.visit(t, link.URL, admin))
	offer, err := b.signIn(t, admin)
	apptest.Must(t, err)
	_, err = fx.Confirm(t.Context(), b.cookie, offer.CSRF, false)
	apptest.Must(t, err)
	fx.checkSession(t, link.SessionID, tenant.SessionDeclined, guid)
}

// TestExpiredLinkLeadsBack checks that the page of an expired link leads back to the return URL of
// its session, even if the flow has already been deleted.
func TestExpiredLinkLeadsBack(t *testing.T) {
	fx := newFixture(t)
	link := fx.newSession(t, time.Hour)
	query := fx.visit(t, link.URL, admin)
	fx.now = link.ExpiresAt
	_, err := fx.ConnectURL(t.Context(), fx.ann, tenants.LinkRequest{})
	apptest.Must(t, err)
	_, err = fx.Callback(t.Context(), query)
	refused(t, err, fault.ConnectLinkInvalid)
	fx.checkSession(t, link.SessionID, tenant.SessionExpired, "")
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

// TestRenewedLinkReplacesTheEarlierOne checks that only the latest link of a session works.
func TestRenewedLinkReplacesTheEarlierOne(t *testing.T) {
	fx := newFixture(t)
	first := fx.newSession(t, time.Hour)
	begun := fx.callback(t, fx.visit(t, first.URL, admin))
	fx.now = fx.now.Add(30 * time.Minute)
	renewed, err := fx.RenewLink(t.Context(), fx.ann, first.SessionID, nil)
	apptest.Must(t, err)
	if renewed.SessionID != first.SessionID || renewed.URL == first.URL || !renewed.ExpiresAt.Equal(fx.now.Add(time.Hour)) {
		t.Errorf("renewed as %+v", renewed)
	}
	_, err = begun.signIn(t, admin)
	refused(t, err, fault.ConnectLinkInvalid)
	fx.checkSession(t, first.SessionID, tenant.SessionPending, "")
	b := fx.callback(t, fx.visit(t, renewed.URL, admin))
	offer, err := b.signIn(t, admin)
	apptest.Must(t, err)
	_, err = fx.Confirm(t.Context(), b.cookie, offer.CSRF, true)
	apptest.Must(t, err)
	fx.checkSession(t, first.SessionID, tenant.SessionConnected, guid)
}

func TestRenewAfterTheLinkEnded(t *testing.T) {
	fx := newFixture(t)
	link := fx.newSession(t, time.Hour)
	_, err := fx.Callback(t.Context(), withParam(t, fx.visit(t, link.URL, admin), "error", "access_denied"))
	refused(t, err, fault.ConsentDeclined)
	_, err = fx.RenewLink(t.Context(), fx.ann, link.SessionID, nil)
	apptest.Must(t, err)
	fx.checkSession(t, link.SessionID, tenant.SessionPending, "")
	fx.now = fx.now.Add(time.Hour)
	fx.checkSession(t, link.SessionID, tenant.SessionExpired, "")
	_, err = fx.RenewLink(t.Context(), fx.ann, link.SessionID, nil)
	apptest.Must(t, err)
	fx.checkSession(t, link.SessionID, tenant.SessionPending, "")
	_, err = fx.RenewLink(t.Context(), fx.bob, link.SessionID, nil)
	refused(t, err, fault.ConnectSessionUnknown)
	_, err = fx.ConnectSession(t.Context(), fx.bob.ID, link.SessionID)
	refused(t, err, fault.ConnectSessionUnknown)
	_, err = fx.store.ChangeSettings(t.Context(), fx.ann.ID, func(s access.Settings) (access.Settings, error) {
		s.ReturnHosts = nil
		return s, nil
	})
	apptest.Must(t, err)
	_, err = fx.RenewLink(t.Context(), fx.ann, link.SessionID, nil)
	refused(t, err, fault.InvalidReturnURL)
}

func TestReturnURLIsCheckedBeforeTheSlots(t *testing.T) {
	fx := newFixture(t)
	fx.connect(t, fx.ann, admin)
	fx.connect(t, fx.ann, otherAdmin)
	_, err := fx.ConnectURL(t.Context(), fx.ann, tenants.LinkRequest{ReturnURL: new("https://app.acme.example")})
	refused(t, err, fault.InvalidReturnURL)
	_, err = fx.ConnectURL(t.Context(), fx.ann, tenants.LinkRequest{})
	refused(t, err, fault.TenantLimitReached)
}

// TestLinkWithoutASession walks through the flow of a link that a release without sessions created.
func TestLinkWithoutASession(t *testing.T) {
	fx := newFixture(t)
	query := fx.consent(t, fx.ann, admin)
	apptest.Must(t, fx.store.DeleteConnectSessions(t.Context(), fx.now.Add(time.Hour)))
	b := fx.callback(t, query)
	offer, err := b.signIn(t, admin)
	apptest.Must(t, err)
	if offer.Origin != (tenants.Origin{}) {
		t.Errorf("the page shows %+v", offer.Origin)
	}
	_, err = fx.Confirm(t.Context(), b.cookie, offer.CSRF, true)
	apptest.Must(t, err)
	if held := fx.heldTenants(t, fx.ann); len(held) != 1 {
		t.Errorf("the account has %v", held)
	}
}
