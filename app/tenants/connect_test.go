// SPDX-License-Identifier: Apache-2.0

package tenants_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/app/tenants"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

func TestConnectAttachesTheConfirmedTenant(t *testing.T) {
	fx := newFixture(t)
	link, err := fx.ConnectURL(t.Context(), fx.ann, tenants.LinkRequest{})
	must(t, err)
	if want := fx.now.Add(tenant.DefaultLinkLifetime); !link.ExpiresAt.Equal(want) {
		t.Errorf("the link expires at %v, want %v", link.ExpiresAt, want)
	}
	adminBrowser, confirmation := fx.openConfirmationPage(t, fx.ann, admin)
	if confirmation.Account.ID != fx.ann.ID || confirmation.Account.Email != "ann@example.com" || confirmation.Tenant != guid ||
		confirmation.Profile.Name != "One" || confirmation.Administrator.Address != admin {
		t.Fatalf("the page shows %+v, want the account ann and the tenant One with its administrator", confirmation)
	}
	if guids := fx.listedTenants(t, fx.ann); len(guids) != 0 {
		t.Fatalf("attached before the confirmation: %v", guids)
	}
	attached, err := fx.Confirm(t.Context(), adminBrowser.cookie, confirmation.CSRF, true)
	must(t, err)
	if attached.GUID != guid || attached.Name != "One" || attached.ConnectedBy != admin || !attached.ConsentedAt.Equal(fx.now) ||
		attached.Consent != tenant.ConsentGranted || attached.Bootstrap != tenant.BootstrapPending || attached.Managed {
		t.Fatalf("attached as %+v, want the tenant One with the consent of now and a pending bootstrap", attached)
	}
	if calls := fx.platform.Calls("Bootstrap"); calls != 0 {
		t.Errorf("the confirmation called Bootstrap %d times, want no call", calls)
	}
	if next := fx.readiness(t).NextStep; next != tenant.NextSync {
		t.Errorf("the next step is %q, want %q", next, tenant.NextSync)
	}
}

func TestStateOfALinkIsUnguessableAndHidesTheAccount(t *testing.T) {
	fx := newFixture(t)
	states := map[string]bool{}
	for range 3 {
		link, err := fx.ConnectURL(t.Context(), fx.ann, tenants.LinkRequest{})
		must(t, err)
		consentURL, _ := url.Parse(link.URL)
		state := consentURL.Query().Get("state")
		if states[state] || strings.Contains(state, string(fx.ann.ID)) || len(state) < 100 {
			t.Fatalf("the state %q is repeated, is shorter than 100 characters or contains the account id", state)
		}
		states[state] = true
		if redirect := consentURL.Query().Get("redirect"); redirect != "https://tenantry.test/connect/microsoft365/callback" {
			t.Fatalf("the redirect is %s, want the callback of the service", redirect)
		}
	}
}

func TestRefusedCallbackAttachesNothing(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(t *testing.T, fx *fixture, query string) string
		want   fault.Code
	}{
		{"no state parameter", func(*testing.T, *fixture, string) string { return "admin_consent=True&tenant=" + string(guid) }, fault.ConnectLinkInvalid},
		{"two state parameters", func(_ *testing.T, _ *fixture, q string) string { return q + "&state=x" }, fault.ConnectLinkInvalid},
		{"a forged state", func(t *testing.T, _ *fixture, q string) string { return withParam(t, q, "state", "forged") }, fault.ConnectLinkInvalid},
		{"an invalid query", func(*testing.T, *fixture, string) string { return "%zz" }, fault.ConnectLinkInvalid},
		{"a changed state", func(t *testing.T, _ *fixture, q string) string {
			v, _ := url.ParseQuery(q)
			state := []byte(v.Get("state"))
			state[len(state)/2] ^= 1
			return withParam(t, q, "state", string(state))
		}, fault.ConnectLinkInvalid},
		{"a state of a different installation", func(t *testing.T, _ *fixture, _ string) string {
			otherInstallation := newFixture(t)
			return otherInstallation.grantConsent(t, otherInstallation.ann, admin)
		}, fault.ConnectLinkInvalid},
		{"an expired link", func(_ *testing.T, fx *fixture, q string) string {
			fx.now = fx.now.Add(15 * time.Minute)
			return q
		}, fault.ConnectLinkInvalid},
		{"a link that was used before", func(t *testing.T, fx *fixture, q string) string {
			fx.openCallback(t, q)
			return q
		}, fault.ConnectLinkInvalid},
		{"a declined consent", func(t *testing.T, _ *fixture, q string) string { return withParam(t, q, "error", "access_denied") }, fault.ConsentDeclined},
		{"an invalid tenant id", func(t *testing.T, _ *fixture, q string) string { return withParam(t, q, "tenant", "x") }, fault.InvalidRequest},
		{"the zero tenant id", func(t *testing.T, _ *fixture, q string) string {
			return withParam(t, q, "tenant", string(tenant.NoGUID))
		}, fault.InvalidRequest},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fx := newFixture(t)
			_, err := fx.Callback(t.Context(), tc.change(t, fx, fx.grantConsent(t, fx.ann, admin)))
			requireRefusal(t, err, tc.want)
			if guids := fx.listedTenants(t, fx.ann); len(guids) != 0 {
				t.Fatalf("a refused callback attached %v", guids)
			}
		})
	}
}

func TestDeclinedLinkIsUsedUp(t *testing.T) {
	fx := newFixture(t)
	query := fx.grantConsent(t, fx.ann, admin)
	_, err := fx.Callback(t.Context(), withParam(t, query, "error", "access_denied"))
	requireRefusal(t, err, fault.ConsentDeclined)
	_, err = fx.Callback(t.Context(), query)
	requireRefusal(t, err, fault.ConnectLinkInvalid)
}

// TestForgedGUIDAttachesNothing puts the tenant of a different account into the callback of a link
// of ann. The consent of that tenant is valid. A service that checked only the consent would attach
// the tenant to ann (confused deputy).
func TestForgedGUIDAttachesNothing(t *testing.T) {
	fx := newFixture(t)
	fx.connect(t, fx.bob, otherAdmin)
	forged := withParam(t, fx.grantConsent(t, fx.ann, admin), "tenant", string(otherGUID))

	t.Run("an administrator of a different tenant cannot sign in", func(t *testing.T) {
		b := fx.openCallback(t, forged)
		_, err := b.signIn(t, admin)
		requireRefusal(t, err, fault.ConsentDeclined)
	})
	t.Run("a code for the administrator's own tenant is refused", func(t *testing.T) {
		b := fx.openCallback(t, withParam(t, fx.grantConsent(t, fx.ann, admin), "tenant", string(otherGUID)))
		page, _ := url.Parse(b.page)
		q := page.Query()
		q.Set("tenant", string(guid))
		page.RawQuery = q.Encode()
		_, err := fx.FinishSignIn(t.Context(), fx.visitPage(t, page.String(), admin), b.cookie)
		requireRefusal(t, err, fault.ConnectLinkInvalid)
	})
	if guids := fx.listedTenants(t, fx.ann); len(guids) != 0 {
		t.Fatalf("a forged callback attached %v", guids)
	}
}

// lyingPlatform reports each administrator as an administrator of the tenant otherGUID.
type lyingPlatform struct{ ports.MailPlatform }

func (p lyingPlatform) Administrator(ctx context.Context, s ports.SignIn, code secret.Text) (tenant.Administrator, error) {
	a, err := p.MailPlatform.Administrator(ctx, s, code)
	a.Tenant = otherGUID
	return a, err
}

func TestRefusedSignInAttachesNothing(t *testing.T) {
	for _, tc := range []struct {
		name   string
		signIn func(t *testing.T, fx *fixture, b browser) error
		want   fault.Code
	}{
		{"a member", func(t *testing.T, _ *fixture, b browser) error {
			_, err := b.signIn(t, "member@t7b1d9c52.onmicrosoft.com")
			return err
		}, fault.NotAdministrator},
		{"a guest", func(t *testing.T, _ *fixture, b browser) error {
			_, err := b.signIn(t, "guest@t7b1d9c52.onmicrosoft.com")
			return err
		}, fault.NotAdministrator},
		{"an administrator of a different tenant", func(t *testing.T, _ *fixture, b browser) error {
			_, err := b.signIn(t, otherAdmin)
			return err
		}, fault.ConsentDeclined},
		{"no cookie", func(t *testing.T, fx *fixture, b browser) error {
			_, err := fx.FinishSignIn(t.Context(), fx.visitPage(t, b.page, admin), secret.Text{})
			return err
		}, fault.ConnectLinkInvalid},
		{"an invalid cookie", func(t *testing.T, fx *fixture, b browser) error {
			_, err := fx.FinishSignIn(t.Context(), fx.visitPage(t, b.page, admin), secret.New("x.y"))
			return err
		}, fault.ConnectLinkInvalid},
		{"a forged state", func(t *testing.T, fx *fixture, b browser) error {
			_, err := fx.FinishSignIn(t.Context(), withParam(t, fx.visitPage(t, b.page, admin), "state", "x"), b.cookie)
			return err
		}, fault.ConnectLinkInvalid},
		{"a forged code", func(t *testing.T, fx *fixture, b browser) error {
			_, err := fx.FinishSignIn(t.Context(), withParam(t, fx.visitPage(t, b.page, admin), "code", "x"), b.cookie)
			return err
		}, fault.ConnectLinkInvalid},
		{"no code", func(t *testing.T, fx *fixture, b browser) error {
			q, _ := url.ParseQuery(fx.visitPage(t, b.page, admin))
			q.Del("code")
			_, err := fx.FinishSignIn(t.Context(), q.Encode(), b.cookie)
			return err
		}, fault.ConnectLinkInvalid},
		{"an expired link", func(t *testing.T, fx *fixture, b browser) error {
			fx.now = fx.now.Add(15 * time.Minute)
			_, err := b.signIn(t, admin)
			return err
		}, fault.ConnectLinkInvalid},
		{"the same answer twice", func(t *testing.T, fx *fixture, b browser) error {
			answer := fx.visitPage(t, b.page, admin)
			_, err := fx.FinishSignIn(t.Context(), answer, b.cookie)
			must(t, err)
			_, err = fx.FinishSignIn(t.Context(), answer, b.cookie)
			return err
		}, fault.ConnectLinkInvalid},
		{"the plugin reports a different tenant", func(t *testing.T, fx *fixture, b browser) error {
			fx.Platform = lyingPlatform{fx.Platform}
			_, err := b.signIn(t, admin)
			return err
		}, fault.ConnectLinkInvalid},
		{"the platform is down", func(t *testing.T, fx *fixture, b browser) error {
			defer fx.platform.Fail(fake.Fault{Method: "Profile", Kind: outcome.Down})()
			_, err := b.signIn(t, admin)
			return err
		}, fault.ProviderUnavailable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fx := newFixture(t)
			requireRefusal(t, tc.signIn(t, fx, fx.openCallback(t, fx.grantConsent(t, fx.ann, admin))), tc.want)
			if guids := fx.listedTenants(t, fx.ann); len(guids) != 0 {
				t.Fatalf("a refused sign-in attached %v", guids)
			}
		})
	}
}

// TestADifferentBrowserCannotContinueTheFlow checks that a browser which knows only the URLs of a
// flow cannot continue the flow. The attempt ends neither this flow nor the flow that the browser
// itself has begun.
func TestADifferentBrowserCannotContinueTheFlow(t *testing.T) {
	fx := newFixture(t)
	annsBrowser := fx.openCallback(t, fx.grantConsent(t, fx.ann, admin))
	bobsBrowser := fx.openCallback(t, fx.grantConsent(t, fx.bob, otherAdmin))
	answer := fx.visitPage(t, annsBrowser.page, admin)
	_, err := fx.FinishSignIn(t.Context(), answer, bobsBrowser.cookie)
	requireRefusal(t, err, fault.ConnectLinkInvalid)
	confirmation, err := fx.FinishSignIn(t.Context(), answer, annsBrowser.cookie)
	must(t, err)
	_, err = fx.Confirm(t.Context(), bobsBrowser.cookie, confirmation.CSRF, true)
	requireRefusal(t, err, fault.ConnectLinkInvalid)
	if _, err := fx.Confirm(t.Context(), annsBrowser.cookie, confirmation.CSRF, true); err != nil {
		t.Fatalf("the attempt ended the flow of ann: %v", err)
	}
	if _, err := bobsBrowser.signIn(t, otherAdmin); err != nil {
		t.Fatalf("the attempt ended the flow of bob: %v", err)
	}
}

// TestAForgedCookieIsRefused forges a cookie. An attacker who requested the link knows the id of
// the flow, but not the random part of the cookie. The flow stays usable for the real browser.
func TestAForgedCookieIsRefused(t *testing.T) {
	fx := newFixture(t)
	adminBrowser, confirmation := fx.openConfirmationPage(t, fx.ann, admin)
	flowID, _, _ := strings.Cut(adminBrowser.cookie.Reveal(), ".")
	forged := secret.New(flowID + ".AAAA")
	_, err := fx.Confirm(t.Context(), forged, csrfOf(forged), true)
	requireRefusal(t, err, fault.ConnectLinkInvalid)
	if guids := fx.listedTenants(t, fx.ann); len(guids) != 0 {
		t.Fatalf("a forged cookie attached %v", guids)
	}
	if _, err := fx.Confirm(t.Context(), adminBrowser.cookie, confirmation.CSRF, true); err != nil {
		t.Fatalf("the forged cookie ended the flow: %v", err)
	}
}

// csrfOf computes the CSRF token of a cookie. An attacker can compute it too, because the code is
// public.
func csrfOf(cookie secret.Text) string {
	sum := sha256.Sum256([]byte("csrf\x00" + cookie.Reveal()))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func TestConfirmNeedsTheCookieAndTheCSRFToken(t *testing.T) {
	fx := newFixture(t)
	adminBrowser, confirmation := fx.openConfirmationPage(t, fx.ann, admin)
	for _, csrf := range []string{"", "x", confirmation.CSRF + "x"} {
		_, err := fx.Confirm(t.Context(), adminBrowser.cookie, csrf, true)
		requireRefusal(t, err, fault.ConnectLinkInvalid)
	}
	_, err := fx.Confirm(t.Context(), secret.Text{}, confirmation.CSRF, true)
	requireRefusal(t, err, fault.ConnectLinkInvalid)
	if _, err := fx.Confirm(t.Context(), adminBrowser.cookie, confirmation.CSRF, true); err != nil {
		t.Fatalf("an invalid token ended the flow: %v", err)
	}
	_, err = fx.Confirm(t.Context(), adminBrowser.cookie, confirmation.CSRF, true)
	requireRefusal(t, err, fault.ConnectLinkInvalid)
}

// busyTenants is a store whose first Attach fails because the database does not answer.
type busyTenants struct {
	tenantStore

	hasFailed bool
}

type tenantStore = ports.Tenants // an embedded ports.Tenants would hide its method Tenants

func (b *busyTenants) Attach(ctx context.Context, owner access.AccountID, t tenant.Tenant, sessions ...string) (tenant.Tenant, error) {
	if !b.hasFailed {
		b.hasFailed = true
		return tenant.Tenant{}, fault.ServiceUnavailable.With("the database does not answer right now")
	}
	return b.tenantStore.Attach(ctx, owner, t, sessions...)
}

func TestConfirmCanBeRepeatedAfterTheStoreWasUnavailable(t *testing.T) {
	fx := newFixture(t)
	adminBrowser, confirmation := fx.openConfirmationPage(t, fx.ann, admin)
	fx.Tenants = &busyTenants{tenantStore: fx.Tenants}
	_, err := fx.Confirm(t.Context(), adminBrowser.cookie, confirmation.CSRF, true)
	requireRefusal(t, err, fault.ServiceUnavailable)
	if _, err := fx.Confirm(t.Context(), adminBrowser.cookie, confirmation.CSRF, true); err != nil {
		t.Fatalf("the repeated confirmation: %v", err)
	}
	_, err = fx.Confirm(t.Context(), adminBrowser.cookie, confirmation.CSRF, true)
	requireRefusal(t, err, fault.ConnectLinkInvalid)
}

// silentTenants is a store that cannot read a tenant because the database does not answer.
type silentTenants struct{ tenantStore }

func (silentTenants) Tenant(context.Context, access.AccountID, tenant.GUID) (tenant.Tenant, error) {
	return tenant.Tenant{}, fault.ServiceUnavailable.With("the database does not answer right now")
}

// TestFailedReadDoesNotCountAsAMissingTenant connects a tenant again that the account already has,
// while all slots of the account are in use and the tenant cannot be read.
func TestFailedReadDoesNotCountAsAMissingTenant(t *testing.T) {
	fx := newFixture(t)
	fx.connect(t, fx.ann, admin)
	query := fx.grantConsent(t, fx.ann, admin)
	fx.connect(t, fx.ann, otherAdmin)
	b := fx.openCallback(t, query)
	fx.Tenants = silentTenants{fx.Tenants}
	_, err := b.signIn(t, admin)
	requireRefusal(t, err, fault.ServiceUnavailable)
}

// disconnectingTenants is a store whose Attach first cancels the context of the request, as the
// server does when the browser disconnects.
type disconnectingTenants struct {
	tenantStore

	disconnect context.CancelFunc
}

func (d disconnectingTenants) Attach(ctx context.Context, owner access.AccountID, t tenant.Tenant, sessions ...string) (tenant.Tenant, error) {
	d.disconnect()
	return d.tenantStore.Attach(ctx, owner, t, sessions...)
}

// TestConfirmFinishesAfterTheBrowserDisconnects checks that Confirm attaches the tenant although
// the request was cancelled. The administrator could not repeat the request, because the link is
// used up.
func TestConfirmFinishesAfterTheBrowserDisconnects(t *testing.T) {
	fx := newFixture(t)
	adminBrowser, confirmation := fx.openConfirmationPage(t, fx.ann, admin)
	ctx, disconnect := context.WithCancel(t.Context())
	defer disconnect()
	fx.Tenants = disconnectingTenants{fx.Tenants, disconnect}
	if _, err := fx.Confirm(ctx, adminBrowser.cookie, confirmation.CSRF, true); err != nil {
		t.Fatal(err)
	}
	if guids := fx.listedTenants(t, fx.ann); !slices.Equal(guids, []tenant.GUID{guid}) {
		t.Fatalf("ann has the tenants %v, want %s", guids, guid)
	}
}

func TestLateConfirmIsRefused(t *testing.T) {
	fx := newFixture(t)
	b, confirmation := fx.openConfirmationPage(t, fx.ann, admin)
	fx.now = fx.now.Add(15 * time.Minute)
	_, err := fx.Confirm(t.Context(), b.cookie, confirmation.CSRF, true)
	requireRefusal(t, err, fault.ConnectLinkInvalid)
}

func TestACancelledConfirmationAttachesNothing(t *testing.T) {
	fx := newFixture(t)
	adminBrowser, confirmation := fx.openConfirmationPage(t, fx.ann, admin)
	attached, err := fx.Confirm(t.Context(), adminBrowser.cookie, confirmation.CSRF, false)
	if err != nil || attached != (tenant.Tenant{}) || len(fx.listedTenants(t, fx.ann)) != 0 {
		t.Fatalf("a cancelled confirmation returned %+v, %v, want neither a tenant nor an error", attached, err)
	}
	_, err = fx.Confirm(t.Context(), adminBrowser.cookie, confirmation.CSRF, true)
	requireRefusal(t, err, fault.ConnectLinkInvalid)
}

func TestOneOfConcurrentConfirmationsWins(t *testing.T) {
	fx := newFixture(t)
	adminBrowser, confirmation := fx.openConfirmationPage(t, fx.ann, admin)
	var confirmations sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		confirmations.Go(func() { _, errs[i] = fx.Confirm(t.Context(), adminBrowser.cookie, confirmation.CSRF, true) })
	}
	confirmations.Wait()
	refused := 0
	for _, err := range errs {
		if errors.Is(err, fault.ConnectLinkInvalid) {
			refused++
		}
	}
	if refused != len(errs)-1 || len(fx.listedTenants(t, fx.ann)) != 1 {
		t.Fatalf("the confirmations ended with %v, want one success and one tenant", errs)
	}
}

func TestConfirmRefusesATenantOfADifferentAccount(t *testing.T) {
	fx := newFixture(t)
	fx.connect(t, fx.bob, admin)
	b, confirmation := fx.openConfirmationPage(t, fx.ann, admin)
	_, err := fx.Confirm(t.Context(), b.cookie, confirmation.CSRF, true)
	requireRefusal(t, err, fault.TenantHeld)
	if strings.Contains(fault.ErrorOf(err).Detail, "bob") || !slices.Equal(fx.listedTenants(t, fx.bob), []tenant.GUID{guid}) {
		t.Fatalf("the error must not name bob, and bob must keep the tenant: %v", err)
	}
}

func TestConnectRespectsTheTenantLimit(t *testing.T) {
	fx := newFixture(t)
	fx.ann = fx.createAccount(t, "small@example.com", 1)

	t.Run("the limit is reached before the sign-in", func(t *testing.T) {
		query := fx.grantConsent(t, fx.ann, admin)
		fx.connect(t, fx.ann, otherAdmin)
		_, err := fx.openCallback(t, query).signIn(t, admin)
		requireRefusal(t, err, fault.TenantLimitReached)
	})
	t.Run("no link while every slot is used", func(t *testing.T) {
		_, err := fx.ConnectURL(t.Context(), fx.ann, tenants.LinkRequest{})
		requireRefusal(t, err, fault.TenantLimitReached)
	})
	t.Run("the limit is reached between the sign-in and the confirmation", func(t *testing.T) {
		if _, err := fx.Delete(t.Context(), fx.ann.ID, otherGUID, nil); err != nil {
			t.Fatal(err)
		}
		b, confirmation := fx.openConfirmationPage(t, fx.ann, admin)
		fx.connect(t, fx.ann, otherAdmin)
		_, err := fx.Confirm(t.Context(), b.cookie, confirmation.CSRF, true)
		requireRefusal(t, err, fault.TenantLimitReached)
		if guids := fx.listedTenants(t, fx.ann); !slices.Equal(guids, []tenant.GUID{otherGUID}) {
			t.Fatalf("the account has %v, want only %s", guids, otherGUID)
		}
	})
}

func TestFlowOfAnInactiveAccountIsRefused(t *testing.T) {
	fx := newFixture(t)
	setActive := func(active bool) {
		t.Helper()
		if _, err := fx.store.SetActive(t.Context(), fx.ann.ID, active); err != nil {
			t.Fatal(err)
		}
	}
	confirmingBrowser, confirmation := fx.openConfirmationPage(t, fx.ann, admin)
	setActive(false)
	_, err := fx.Confirm(t.Context(), confirmingBrowser.cookie, confirmation.CSRF, true)
	requireRefusal(t, err, fault.NoAPIPlan)
	setActive(true)
	signingInBrowser := fx.openCallback(t, fx.grantConsent(t, fx.ann, admin))
	setActive(false)
	_, err = signingInBrowser.signIn(t, admin)
	requireRefusal(t, err, fault.NoAPIPlan)
}

func TestReconnectNeedsNoFreeSlotAndKeepsTheRow(t *testing.T) {
	fx := newFixture(t)
	fx.ann = fx.createAccount(t, "small@example.com", 1)
	connected := fx.connect(t, fx.ann, admin)
	fx.platform.Revoke(guid, "consent")
	if _, err := fx.Sync(t.Context(), fx.ann.ID, guid); !errors.Is(err, fault.AccessDenied) {
		t.Fatalf("the sync without consent ended with %v, want access_denied", err)
	}
	if next := fx.readiness(t).NextStep; next != tenant.NextReconnect {
		t.Fatalf("the next step is %q, want %q", next, tenant.NextReconnect)
	}
	fx.now = fx.now.Add(time.Hour)
	reconnected := fx.connect(t, fx.ann, admin)
	if reconnected.ID != connected.ID || !reconnected.ConsentedAt.Equal(fx.now) || reconnected.Consent != tenant.ConsentGranted || len(fx.listedTenants(t, fx.ann)) != 1 {
		t.Fatalf("reconnected as %+v, want the row %s with the consent of now", reconnected, connected.ID)
	}
}

func TestReconnectSetsAFailedBootstrapToPending(t *testing.T) {
	fx := newFixture(t)
	connected := fx.connect(t, fx.ann, admin)
	connected.Bootstrap, connected.BootstrapStep = tenant.BootstrapFailed, tenant.StepGrantRole
	must(t, fx.store.SaveTenant(t.Context(), fx.ann.ID, connected))
	reconnected := fx.connect(t, fx.ann, admin)
	if next := fx.readiness(t).NextStep; reconnected.Bootstrap != tenant.BootstrapPending || next != tenant.NextSync {
		t.Fatalf("the bootstrap is %s and the next step %q, want %s and %q", reconnected.Bootstrap, next, tenant.BootstrapPending, tenant.NextSync)
	}
}

func TestSignInWithoutConsentIsDeclined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t)
		fx.ConsentTimeout = 20 * time.Millisecond
		forged := withParam(t, fx.grantConsent(t, fx.ann, admin), "tenant", string(otherGUID))
		_, err := fx.openCallback(t, forged).signIn(t, otherAdmin)
		requireRefusal(t, err, fault.ConsentDeclined)
	})
}

// TestSignInAtAHangingPlatformEndsBeforeThePageTimeout checks sign-ins at a platform that does not
// answer one of the calls. Each call has a timeout shorter than the timeout of the page, which is
// 55 s.
func TestSignInAtAHangingPlatformEndsBeforeThePageTimeout(t *testing.T) {
	for method, callTimeout := range map[string]time.Duration{"SignInURL": 20 * time.Second, "Administrator": 35 * time.Second, "Profile": 20 * time.Second} {
		inFakeTime(t, method, func(t *testing.T) {
			fx := newFixture(t)
			query := fx.grantConsent(t, fx.ann, admin)
			ctx, cancel := context.WithTimeout(t.Context(), 55*time.Second)
			defer cancel()
			fx.platform.Hold(method)
			redirect, err := fx.Callback(ctx, query)
			if err == nil {
				_, err = fx.FinishSignIn(ctx, fx.visitPage(t, redirect.URL, admin), redirect.Cookie)
			}
			deadline, _ := ctx.Deadline()
			requireRefusal(t, err, fault.ProviderTimeout)
			if left := time.Until(deadline); left != 55*time.Second-callTimeout {
				t.Errorf("the request left %s of the 55 s, want an end after %s", left, callTimeout)
			}
		})
	}
}

func TestSignInWaitsUntilTheConsentTakesEffect(t *testing.T) {
	fx := newFixture(t)
	fx.platform.Fail(fake.Fault{Method: "Profile", Kind: outcome.Refused, Code: fault.AccessDenied, Times: 3})
	if connected := fx.connect(t, fx.ann, admin); connected.GUID != guid {
		t.Fatalf("attached %+v, want the tenant %s", connected, guid)
	}
}
