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
	"github.com/tenantry/tenantry/app/apptest"
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
	apptest.Must(t, err)
	if !link.ExpiresAt.Equal(fx.now.Add(15 * time.Minute)) {
		t.Errorf("the link expires at %v", link.ExpiresAt)
	}
	b, offer := fx.offer(t, fx.ann, admin)
	if offer.Account.ID != fx.ann.ID || offer.Account.Email != "ann@example.com" || offer.Tenant != guid ||
		offer.Profile.Name != "One" || offer.Administrator.Address != admin {
		t.Fatalf("the page offers %+v", offer)
	}
	if held := fx.heldTenants(t, fx.ann); len(held) != 0 {
		t.Fatalf("attached before the confirmation: %v", held)
	}
	held, err := fx.Confirm(t.Context(), b.cookie, offer.CSRF, true)
	apptest.Must(t, err)
	if held.GUID != guid || held.Name != "One" || held.ConnectedBy != admin || !held.ConsentedAt.Equal(fx.now) ||
		held.Consent != tenant.ConsentGranted || held.Bootstrap != tenant.BootstrapPending || held.Managed {
		t.Fatalf("attached as %+v", held)
	}
	if calls := fx.platform.Calls("Bootstrap"); calls != 0 {
		t.Error("the page did the sync's work")
	}
	if next := fx.readiness(t).NextStep; next != tenant.NextSync {
		t.Errorf("next step %q", next)
	}
}

func TestLinkIsBoundAndUnguessable(t *testing.T) {
	fx := newFixture(t)
	states := map[string]bool{}
	for range 3 {
		link, err := fx.ConnectURL(t.Context(), fx.ann, tenants.LinkRequest{})
		apptest.Must(t, err)
		u, _ := url.Parse(link.URL)
		state := u.Query().Get("state")
		if states[state] || strings.Contains(state, string(fx.ann.ID)) || len(state) < 100 {
			t.Fatalf("state %q", state)
		}
		states[state] = true
		if redirect := u.Query().Get("redirect"); redirect != "https://tenantry.test/connect/microsoft365/callback" {
			t.Fatalf("comes back to %s", redirect)
		}
	}
}

func TestCallbackRefusesAChangedRequest(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(t *testing.T, fx *fixture, query string) string
		want fault.Code
	}{
		{"no state", func(*testing.T, *fixture, string) string { return "admin_consent=True&tenant=" + string(guid) }, fault.ConnectLinkInvalid},
		{"two states", func(_ *testing.T, _ *fixture, q string) string { return q + "&state=x" }, fault.ConnectLinkInvalid},
		{"forged state", func(t *testing.T, _ *fixture, q string) string { return withParam(t, q, "state", "forged") }, fault.ConnectLinkInvalid},
		{"no query", func(*testing.T, *fixture, string) string { return "%zz" }, fault.ConnectLinkInvalid},
		{"changed state", func(t *testing.T, _ *fixture, q string) string {
			v, _ := url.ParseQuery(q)
			state := []byte(v.Get("state"))
			state[len(state)/2] ^= 1
			return withParam(t, q, "state", string(state))
		}, fault.ConnectLinkInvalid},
		{"state of another installation", func(t *testing.T, _ *fixture, _ string) string {
			elsewhere := newFixture(t)
			return elsewhere.consent(t, elsewhere.ann, admin)
		}, fault.ConnectLinkInvalid},
		{"expired", func(_ *testing.T, fx *fixture, q string) string {
			fx.now = fx.now.Add(15 * time.Minute)
			return q
		}, fault.ConnectLinkInvalid},
		{"reused", func(t *testing.T, fx *fixture, q string) string {
			fx.callback(t, q)
			return q
		}, fault.ConnectLinkInvalid},
		{"declined", func(t *testing.T, _ *fixture, q string) string { return withParam(t, q, "error", "access_denied") }, fault.ConsentDeclined},
		{"names no tenant", func(t *testing.T, _ *fixture, q string) string { return withParam(t, q, "tenant", "x") }, fault.InvalidRequest},
		{"names the zero tenant", func(t *testing.T, _ *fixture, q string) string {
			return withParam(t, q, "tenant", string(tenant.NoGUID))
		}, fault.InvalidRequest},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fx := newFixture(t)
			_, err := fx.Callback(t.Context(), tt.edit(t, fx, fx.consent(t, fx.ann, admin)))
			refused(t, err, tt.want)
			if held := fx.heldTenants(t, fx.ann); len(held) != 0 {
				t.Fatalf("attached %v", held)
			}
		})
	}
}

func TestDeclinedLinkIsUsedUp(t *testing.T) {
	fx := newFixture(t)
	query := fx.consent(t, fx.ann, admin)
	_, err := fx.Callback(t.Context(), withParam(t, query, "error", "access_denied"))
	refused(t, err, fault.ConsentDeclined)
	_, err = fx.Callback(t.Context(), query)
	refused(t, err, fault.ConnectLinkInvalid)
}

// A caller puts the tenant of another customer, whose consent works, into the callback of his own
// link (confused deputy).
func TestForgedGUID(t *testing.T) {
	fx := newFixture(t)
	fx.connect(t, fx.bob, otherAdmin)
	forged := withParam(t, fx.consent(t, fx.ann, admin), "tenant", string(other))

	t.Run("signing in there is for its people", func(t *testing.T) {
		b := fx.callback(t, forged)
		_, err := b.signIn(t, admin)
		refused(t, err, fault.ConsentDeclined)
	})
	t.Run("a code of one's own tenant does not count", func(t *testing.T) {
		b := fx.callback(t, withParam(t, fx.consent(t, fx.ann, admin), "tenant", string(other)))
		page, _ := url.Parse(b.page)
		q := page.Query()
		q.Set("tenant", string(guid))
		page.RawQuery = q.Encode()
		_, err := fx.FinishSignIn(t.Context(), fx.visit(t, page.String(), admin), b.cookie)
		refused(t, err, fault.ConnectLinkInvalid)
	})
	if held := fx.heldTenants(t, fx.ann); len(held) != 0 {
		t.Fatalf("attached %v", held)
	}
}

// lyingPlatform says of each administrator that he belongs to the tenant other.
type lyingPlatform struct{ ports.MailPlatform }

func (p lyingPlatform) Administrator(ctx context.Context, s ports.SignIn, code secret.Text) (tenant.Administrator, error) {
	a, err := p.MailPlatform.Administrator(ctx, s, code)
	a.Tenant = other
	return a, err
}

func TestSignInRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		try  func(t *testing.T, fx *fixture, b browser) error
		want fault.Code
	}{
		{"a member", func(t *testing.T, _ *fixture, b browser) error {
			_, err := b.signIn(t, "member@t7b1d9c52.onmicrosoft.com")
			return err
		}, fault.NotAdministrator},
		{"a guest", func(t *testing.T, _ *fixture, b browser) error {
			_, err := b.signIn(t, "guest@t7b1d9c52.onmicrosoft.com")
			return err
		}, fault.NotAdministrator},
		{"a stranger", func(t *testing.T, _ *fixture, b browser) error {
			_, err := b.signIn(t, otherAdmin)
			return err
		}, fault.ConsentDeclined},
		{"without a cookie", func(t *testing.T, fx *fixture, b browser) error {
			_, err := fx.FinishSignIn(t.Context(), fx.visit(t, b.page, admin), secret.Text{})
			return err
		}, fault.ConnectLinkInvalid},
		{"a cookie of nonsense", func(t *testing.T, fx *fixture, b browser) error {
			_, err := fx.FinishSignIn(t.Context(), fx.visit(t, b.page, admin), secret.New("x.y"))
			return err
		}, fault.ConnectLinkInvalid},
		{"forged state", func(t *testing.T, fx *fixture, b browser) error {
			_, err := fx.FinishSignIn(t.Context(), withParam(t, fx.visit(t, b.page, admin), "state", "x"), b.cookie)
			return err
		}, fault.ConnectLinkInvalid},
		{"forged code", func(t *testing.T, fx *fixture, b browser) error {
			_, err := fx.FinishSignIn(t.Context(), withParam(t, fx.visit(t, b.page, admin), "code", "x"), b.cookie)
			return err
		}, fault.ConnectLinkInvalid},
		{"no code", func(t *testing.T, fx *fixture, b browser) error {
			q, _ := url.ParseQuery(fx.visit(t, b.page, admin))
			q.Del("code")
			_, err := fx.FinishSignIn(t.Context(), q.Encode(), b.cookie)
			return err
		}, fault.ConnectLinkInvalid},
		{"too late", func(t *testing.T, fx *fixture, b browser) error {
			fx.now = fx.now.Add(15 * time.Minute)
			_, err := b.signIn(t, admin)
			return err
		}, fault.ConnectLinkInvalid},
		{"twice", func(t *testing.T, fx *fixture, b browser) error {
			answer := fx.visit(t, b.page, admin)
			if _, err := fx.FinishSignIn(t.Context(), answer, b.cookie); err != nil {
				return err
			}
			_, err := fx.FinishSignIn(t.Context(), answer, b.cookie)
			return err
		}, fault.ConnectLinkInvalid},
		{"the plugin proves a different tenant", func(t *testing.T, fx *fixture, b browser) error {
			fx.Platform = lyingPlatform{fx.Platform}
			_, err := b.signIn(t, admin)
			return err
		}, fault.ConnectLinkInvalid},
		{"the platform is away", func(t *testing.T, fx *fixture, b browser) error {
			defer fx.platform.Fail(fake.Fault{Method: "Profile", Kind: outcome.Down})()
			_, err := b.signIn(t, admin)
			return err
		}, fault.ProviderUnavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fx := newFixture(t)
			refused(t, tt.try(t, fx, fx.callback(t, fx.consent(t, fx.ann, admin))), tt.want)
			if held := fx.heldTenants(t, fx.ann); len(held) != 0 {
				t.Fatalf("attached %v", held)
			}
		})
	}
}

// A different browser that knows the URLs of the flow cannot continue it. Its attempt does not end
// the flow for the first browser.
func TestADifferentBrowserCannotContinueTheFlow(t *testing.T) {
	fx := newFixture(t)
	b := fx.callback(t, fx.consent(t, fx.ann, admin))
	intruder := fx.callback(t, fx.consent(t, fx.bob, otherAdmin))
	answer := fx.visit(t, b.page, admin)
	_, err := fx.FinishSignIn(t.Context(), answer, intruder.cookie)
	refused(t, err, fault.ConnectLinkInvalid)
	offer, err := fx.FinishSignIn(t.Context(), answer, b.cookie)
	apptest.Must(t, err)
	_, err = fx.Confirm(t.Context(), intruder.cookie, offer.CSRF, true)
	refused(t, err, fault.ConnectLinkInvalid)
	if _, err := fx.Confirm(t.Context(), b.cookie, offer.CSRF, true); err != nil {
		t.Fatal(err)
	}
	if _, err := intruder.signIn(t, otherAdmin); err != nil {
		t.Fatalf("the flow of the other browser was ended: %v", err)
	}
}

// An attacker who requested the link forges a cookie from all that he knows about the flow.
func TestAForgedCookieIsRefused(t *testing.T) {
	fx := newFixture(t)
	b, _ := fx.offer(t, fx.ann, admin)
	name, _, _ := strings.Cut(b.cookie.Reveal(), ".")
	forged := secret.New(name + ".AAAA")
	_, err := fx.Confirm(t.Context(), forged, csrfOf(forged), true)
	refused(t, err, fault.ConnectLinkInvalid)
	if held := fx.heldTenants(t, fx.ann); len(held) != 0 {
		t.Fatalf("attached %v", held)
	}
}

// csrfOf computes the CSRF token of a cookie, as an attacker who read the code could.
func csrfOf(cookie secret.Text) string {
	sum := sha256.Sum256([]byte("csrf\x00" + cookie.Reveal()))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func TestConfirmNeedsTheCookieAndTheCSRFToken(t *testing.T) {
	fx := newFixture(t)
	b, offer := fx.offer(t, fx.ann, admin)
	for _, csrf := range []string{"", "x", offer.CSRF + "x"} {
		_, err := fx.Confirm(t.Context(), b.cookie, csrf, true)
		refused(t, err, fault.ConnectLinkInvalid)
	}
	_, err := fx.Confirm(t.Context(), secret.Text{}, offer.CSRF, true)
	refused(t, err, fault.ConnectLinkInvalid)
	if _, err := fx.Confirm(t.Context(), b.cookie, offer.CSRF, true); err != nil {
		t.Fatalf("an invalid token ended the flow: %v", err)
	}
	_, err = fx.Confirm(t.Context(), b.cookie, offer.CSRF, true)
	refused(t, err, fault.ConnectLinkInvalid)
}

// busyTenants is a store that refuses the first attachment because the database does not answer.
type busyTenants struct {
	tenantStore

	refused bool
}

type tenantStore = ports.Tenants // a field cannot have the name of a method

func (b *busyTenants) Attach(ctx context.Context, owner access.AccountID, t tenant.Tenant, sessions ...string) (tenant.Tenant, error) {
	if !b.refused {
		b.refused = true
		return tenant.Tenant{}, fault.ServiceUnavailable.With("the database does not answer right now")
	}
	return b.tenantStore.Attach(ctx, owner, t, sessions...)
}

func TestConfirmAgainAfterTheStoreWasUnavailable(t *testing.T) {
	fx := newFixture(t)
	b, offer := fx.offer(t, fx.ann, admin)
	fx.Tenants = &busyTenants{tenantStore: fx.Tenants}
	_, err := fx.Confirm(t.Context(), b.cookie, offer.CSRF, true)
	refused(t, err, fault.ServiceUnavailable)
	if _, err := fx.Confirm(t.Context(), b.cookie, offer.CSRF, true); err != nil {
		t.Fatal(err)
	}
	_, err = fx.Confirm(t.Context(), b.cookie, offer.CSRF, true)
	refused(t, err, fault.ConnectLinkInvalid)
}

func TestConfirmTooLate(t *testing.T) {
	fx := newFixture(t)
	b, offer := fx.offer(t, fx.ann, admin)
	fx.now = fx.now.Add(15 * time.Minute)
	_, err := fx.Confirm(t.Context(), b.cookie, offer.CSRF, true)
	refused(t, err, fault.ConnectLinkInvalid)
}

func TestACancelledConfirmationAttachesNothing(t *testing.T) {
	fx := newFixture(t)
	b, offer := fx.offer(t, fx.ann, admin)
	held, err := fx.Confirm(t.Context(), b.cookie, offer.CSRF, false)
	if err != nil || held != (tenant.Tenant{}) || len(fx.heldTenants(t, fx.ann)) != 0 {
		t.Fatalf("got %+v, %v", held, err)
	}
	_, err = fx.Confirm(t.Context(), b.cookie, offer.CSRF, true)
	refused(t, err, fault.ConnectLinkInvalid)
}

func TestOneOfConcurrentConfirmationsWins(t *testing.T) {
	fx := newFixture(t)
	b, offer := fx.offer(t, fx.ann, admin)
	var wait sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wait.Go(func() { _, errs[i] = fx.Confirm(t.Context(), b.cookie, offer.CSRF, true) })
	}
	wait.Wait()
	lost := 0
	for _, err := range errs {
		if errors.Is(err, fault.ConnectLinkInvalid) {
			lost++
		}
	}
	if lost != len(errs)-1 || len(fx.heldTenants(t, fx.ann)) != 1 {
		t.Fatalf("%v", errs)
	}
}

func TestConfirmRefusesATenantOfAnotherAccount(t *testing.T) {
	fx := newFixture(t)
	fx.connect(t, fx.bob, admin)
	b, offer := fx.offer(t, fx.ann, admin)
	_, err := fx.Confirm(t.Context(), b.cookie, offer.CSRF, true)
	refused(t, err, fault.TenantHeld)
	if strings.Contains(fault.ErrorOf(err).Detail, "bob") || !slices.Equal(fx.heldTenants(t, fx.bob), []tenant.GUID{guid}) {
		t.Fatalf("%v", err)
	}
}

func TestConnectRespectsTheTenantLimit(t *testing.T) {
	fx := newFixture(t)
	fx.ann = fx.account(t, "small@example.com", 1)

	t.Run("reached before the sign-in", func(t *testing.T) {
		query := fx.consent(t, fx.ann, admin)
		fx.connect(t, fx.ann, otherAdmin)
		_, err := fx.callback(t, query).signIn(t, admin)
		refused(t, err, fault.TenantLimitReached)
	})
	t.Run("no link while every slot works", func(t *testing.T) {
		_, err := fx.ConnectURL(t.Context(), fx.ann, tenants.LinkRequest{})
		refused(t, err, fault.TenantLimitReached)
	})
	t.Run("reached between page and confirmation", func(t *testing.T) {
		if _, err := fx.Delete(t.Context(), fx.ann.ID, other, nil); err != nil {
			t.Fatal(err)
		}
		b, offer := fx.offer(t, fx.ann, admin)
		fx.connect(t, fx.ann, otherAdmin)
		_, err := fx.Confirm(t.Context(), b.cookie, offer.CSRF, true)
		refused(t, err, fault.TenantLimitReached)
		if held := fx.heldTenants(t, fx.ann); !slices.Equal(held, []tenant.GUID{other}) {
			t.Fatalf("the account has %v", held)
		}
	})
}

func TestPlanLapsedDuringFlow(t *testing.T) {
	fx := newFixture(t)
	lapse := func(active bool) {
		t.Helper()
		if _, err := fx.store.SetActive(t.Context(), fx.ann.ID, active); err != nil {
			t.Fatal(err)
		}
	}
	b, offer := fx.offer(t, fx.ann, admin)
	lapse(false)
	_, err := fx.Confirm(t.Context(), b.cookie, offer.CSRF, true)
	refused(t, err, fault.NoAPIPlan)
	lapse(true)
	c := fx.callback(t, fx.consent(t, fx.ann, admin))
	lapse(false)
	_, err = c.signIn(t, admin)
	refused(t, err, fault.NoAPIPlan)
}

func TestReconnectByTheHolder(t *testing.T) {
	fx := newFixture(t)
	fx.ann = fx.account(t, "small@example.com", 1)
	first := fx.connect(t, fx.ann, admin)
	fx.platform.Revoke(guid, "consent")
	if _, err := fx.Sync(t.Context(), fx.ann.ID, guid); !errors.Is(err, fault.AccessDenied) {
		t.Fatalf("the sync of a revoked tenant: %v", err)
	}
	if next := fx.readiness(t).NextStep; next != tenant.NextReconnect {
		t.Fatalf("next step %q", next)
	}
	fx.now = fx.now.Add(time.Hour)
	again := fx.connect(t, fx.ann, admin)
	if again.ID != first.ID || !again.ConsentedAt.Equal(fx.now) || again.Consent != tenant.ConsentGranted || len(fx.heldTenants(t, fx.ann)) != 1 {
		t.Fatalf("reconnected as %+v", again)
	}
}

func TestReconnectRetriesBootstrap(t *testing.T) {
	fx := newFixture(t)
	held := fx.connect(t, fx.ann, admin)
	held.Bootstrap, held.BootstrapStep = tenant.BootstrapFailed, tenant.StepGrantRole
	apptest.Must(t, fx.store.SaveTenant(t.Context(), fx.ann.ID, held))
	again := fx.connect(t, fx.ann, admin)
	if next := fx.readiness(t).NextStep; again.Bootstrap != tenant.BootstrapPending || next != tenant.NextSync {
		t.Fatalf("bootstrap %s, next step %q", again.Bootstrap, next)
	}
}

func TestSignInWithoutConsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t)
		fx.ConsentTimeout = 20 * time.Millisecond
		forged := withParam(t, fx.consent(t, fx.ann, admin), "tenant", string(other))
		_, err := fx.callback(t, forged).signIn(t, otherAdmin)
		refused(t, err, fault.ConsentDeclined)
	})
}

func TestConnectWaitsForASlowConsent(t *testing.T) {
	fx := newFixture(t)
	fx.platform.Fail(fake.Fault{Method: "Profile", Kind: outcome.Refused, Code: fault.AccessDenied, Times: 3})
	if held := fx.connect(t, fx.ann, admin); held.GUID != guid {
		t.Fatalf("attached %+v", held)
	}
}
