// SPDX-License-Identifier: Apache-2.0

package tenants_test

import (
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
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
)

func TestConnect(t *testing.T) {
	w := newWorld(t)
	link, err := w.ConnectURL(t.Context(), w.ann)
	if err != nil {
		t.Fatal(err)
	}
	if !link.ExpiresAt.Equal(w.now.Add(15 * time.Minute)) {
		t.Errorf("the link lives until %v", link.ExpiresAt)
	}
	b, offer := w.offer(t, w.ann, admin)
	if offer.Account.ID != w.ann.ID || offer.Account.Email != "ann@example.com" || offer.Tenant != guid ||
		offer.Profile.Name != "One" || offer.Administrator.Address != admin {
		t.Fatalf("the page offers %+v", offer)
	}
	if held := w.holds(t, w.ann); len(held) != 0 {
		t.Fatalf("attached before the confirmation: %v", held)
	}
	held, err := w.Confirm(t.Context(), b.cookie, offer.CSRF, true)
	if err != nil {
		t.Fatal(err)
	}
	if held.GUID != guid || held.Name != "One" || held.ConnectedBy != admin || !held.ConsentedAt.Equal(w.now) ||
		held.Consent != tenant.ConsentGranted || held.Bootstrap != tenant.BootstrapPending || held.Managed {
		t.Fatalf("attached as %+v", held)
	}
	if calls := w.platform.Calls("Bootstrap"); calls != 0 {
		t.Error("the page did the sync's work")
	}
	if next := w.readiness(t).NextStep; next != tenant.NextSync {
		t.Errorf("next step %q", next)
	}
}

func TestALinkIsBoundAndUnguessable(t *testing.T) {
	w := newWorld(t)
	states := map[string]bool{}
	for range 3 {
		link, err := w.ConnectURL(t.Context(), w.ann)
		if err != nil {
			t.Fatal(err)
		}
		u, _ := url.Parse(link.URL)
		state := u.Query().Get("state")
		if states[state] || strings.Contains(state, string(w.ann.ID)) || len(state) < 100 {
			t.Fatalf("state %q", state)
		}
		states[state] = true
		if redirect := u.Query().Get("redirect"); redirect != "https://tenantry.test/connect/microsoft365/callback" {
			t.Fatalf("comes back to %s", redirect)
		}
	}
}

func TestCallbackRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(t *testing.T, w *world, query string) string
		want fault.Code
	}{
		{"no state", func(*testing.T, *world, string) string { return "admin_consent=True&tenant=" + string(guid) }, fault.ConnectLinkInvalid},
		{"two states", func(_ *testing.T, _ *world, q string) string { return q + "&state=x" }, fault.ConnectLinkInvalid},
		{"forged state", func(t *testing.T, _ *world, q string) string { return with(t, q, "state", "forged") }, fault.ConnectLinkInvalid},
		{"no query", func(*testing.T, *world, string) string { return "%zz" }, fault.ConnectLinkInvalid},
		{"changed state", func(t *testing.T, _ *world, q string) string {
			v, _ := url.ParseQuery(q)
			state := []byte(v.Get("state"))
			state[len(state)/2] ^= 1
			return with(t, q, "state", string(state))
		}, fault.ConnectLinkInvalid},
		{"state of another installation", func(t *testing.T, _ *world, _ string) string {
			elsewhere := newWorld(t)
			return elsewhere.consent(t, elsewhere.ann, admin)
		}, fault.ConnectLinkInvalid},
		{"expired", func(_ *testing.T, w *world, q string) string {
			w.now = w.now.Add(15 * time.Minute)
			return q
		}, fault.ConnectLinkInvalid},
		{"reused", func(t *testing.T, w *world, q string) string {
			w.callback(t, q)
			return q
		}, fault.ConnectLinkInvalid},
		{"declined", func(t *testing.T, _ *world, q string) string { return with(t, q, "error", "access_denied") }, fault.ConsentDeclined},
		{"names no tenant", func(t *testing.T, _ *world, q string) string { return with(t, q, "tenant", "x") }, fault.InvalidRequest},
		{"names the zero tenant", func(t *testing.T, _ *world, q string) string { return with(t, q, "tenant", string(tenant.NoGUID)) }, fault.InvalidRequest},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			_, err := w.Callback(t.Context(), tt.edit(t, w, w.consent(t, w.ann, admin)))
			refused(t, err, tt.want)
			if held := w.holds(t, w.ann); len(held) != 0 {
				t.Fatalf("attached %v", held)
			}
		})
	}
}

func TestADeclinedLinkIsUsedUp(t *testing.T) {
	w := newWorld(t)
	query := w.consent(t, w.ann, admin)
	_, err := w.Callback(t.Context(), with(t, query, "error", "access_denied"))
	refused(t, err, fault.ConsentDeclined)
	_, err = w.Callback(t.Context(), query)
	refused(t, err, fault.ConnectLinkInvalid)
}

// TestForgedGUID is the confused deputy: the tenant of another customer, whose
// consent works, is named in the callback of one's own link.
func TestForgedGUID(t *testing.T) {
	w := newWorld(t)
	w.connect(t, w.bob, otherAdmin)
	forged := with(t, w.consent(t, w.ann, admin), "tenant", string(other))

	t.Run("signing in there is for its people", func(t *testing.T) {
		b := w.callback(t, forged)
		_, err := b.signIn(t, admin)
		refused(t, err, fault.ConsentDeclined)
	})
	t.Run("a code of one's own tenant does not count", func(t *testing.T) {
		b := w.callback(t, with(t, w.consent(t, w.ann, admin), "tenant", string(other)))
		page, _ := url.Parse(b.page)
		q := page.Query()
		q.Set("tenant", string(guid))
		page.RawQuery = q.Encode()
		_, err := w.SignedIn(t.Context(), w.visit(t, page.String(), admin, true), b.cookie)
		refused(t, err, fault.ConnectLinkInvalid)
	})
	if held := w.holds(t, w.ann); len(held) != 0 {
		t.Fatalf("attached %v", held)
	}
}

func TestSignInRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		try  func(t *testing.T, w *world, b browser) error
		want fault.Code
	}{
		{"a member", func(t *testing.T, _ *world, b browser) error {
			_, err := b.signIn(t, "member@t7b1d9c52.onmicrosoft.com")
			return err
		}, fault.NotAdministrator},
		{"a guest", func(t *testing.T, _ *world, b browser) error {
			_, err := b.signIn(t, "guest@t7b1d9c52.onmicrosoft.com")
			return err
		}, fault.NotAdministrator},
		{"a stranger", func(t *testing.T, _ *world, b browser) error {
			_, err := b.signIn(t, otherAdmin)
			return err
		}, fault.ConsentDeclined},
		{"without a cookie", func(t *testing.T, w *world, b browser) error {
			_, err := w.SignedIn(t.Context(), w.visit(t, b.page, admin, true), secret.Text{})
			return err
		}, fault.ConnectLinkInvalid},
		{"a cookie of nonsense", func(t *testing.T, w *world, b browser) error {
			_, err := w.SignedIn(t.Context(), w.visit(t, b.page, admin, true), secret.New("x.y"))
			return err
		}, fault.ConnectLinkInvalid},
		{"forged state", func(t *testing.T, w *world, b browser) error {
			_, err := w.SignedIn(t.Context(), with(t, w.visit(t, b.page, admin, true), "state", "x"), b.cookie)
			return err
		}, fault.ConnectLinkInvalid},
		{"forged code", func(t *testing.T, w *world, b browser) error {
			_, err := w.SignedIn(t.Context(), with(t, w.visit(t, b.page, admin, true), "code", "x"), b.cookie)
			return err
		}, fault.ConnectLinkInvalid},
		{"no code", func(t *testing.T, w *world, b browser) error {
			q, _ := url.ParseQuery(w.visit(t, b.page, admin, true))
			q.Del("code")
			_, err := w.SignedIn(t.Context(), q.Encode(), b.cookie)
			return err
		}, fault.ConnectLinkInvalid},
		{"too late", func(t *testing.T, w *world, b browser) error {
			w.now = w.now.Add(15 * time.Minute)
			_, err := b.signIn(t, admin)
			return err
		}, fault.ConnectLinkInvalid},
		{"twice", func(t *testing.T, w *world, b browser) error {
			answer := w.visit(t, b.page, admin, true)
			if _, err := w.SignedIn(t.Context(), answer, b.cookie); err != nil {
				return err
			}
			_, err := w.SignedIn(t.Context(), answer, b.cookie)
			return err
		}, fault.ConnectLinkInvalid},
		{"the platform is away", func(t *testing.T, w *world, b browser) error {
			defer w.platform.Fail(fake.Fault{Method: "Profile", Kind: outcome.Down})()
			_, err := b.signIn(t, admin)
			return err
		}, fault.ProviderUnavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			refused(t, tt.try(t, w, w.callback(t, w.consent(t, w.ann, admin))), tt.want)
			if held := w.holds(t, w.ann); len(held) != 0 {
				t.Fatalf("attached %v", held)
			}
		})
	}
}

// TestOtherBrowser shows that who merely sees the addresses of the pages gets
// nowhere, and does not end the walk of the right browser.
func TestOtherBrowser(t *testing.T) {
	w := newWorld(t)
	b := w.callback(t, w.consent(t, w.ann, admin))
	intruder := w.callback(t, w.consent(t, w.bob, otherAdmin))
	answer := w.visit(t, b.page, admin, true)
	_, err := w.SignedIn(t.Context(), answer, intruder.cookie)
	refused(t, err, fault.ConnectLinkInvalid)
	offer, err := w.SignedIn(t.Context(), answer, b.cookie)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Confirm(t.Context(), intruder.cookie, offer.CSRF, true)
	refused(t, err, fault.ConnectLinkInvalid)
	if _, err := w.Confirm(t.Context(), b.cookie, offer.CSRF, true); err != nil {
		t.Fatal(err)
	}
	if _, err := intruder.signIn(t, otherAdmin); err != nil {
		t.Fatalf("the other walk ended: %v", err)
	}
}

// TestACookieOfTheRightFlowIsNotEnough forges what the initiator of a link can
// know of its flow.
func TestACookieOfTheRightFlowIsNotEnough(t *testing.T) {
	w := newWorld(t)
	b, _ := w.offer(t, w.ann, admin)
	name, _, _ := strings.Cut(b.cookie.Reveal(), ".")
	forged := secret.New(name + ".AAAA")
	_, err := w.Confirm(t.Context(), forged, tokenOf(forged), true)
	refused(t, err, fault.ConnectLinkInvalid)
	if held := w.holds(t, w.ann); len(held) != 0 {
		t.Fatalf("attached %v", held)
	}
}

// tokenOf makes the CSRF token of a cookie, as anyone can who read the code.
func tokenOf(cookie secret.Text) string {
	sum := sha256.Sum256([]byte("csrf\x00" + cookie.Reveal()))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func TestConfirmRefused(t *testing.T) {
	w := newWorld(t)
	b, offer := w.offer(t, w.ann, admin)
	for _, csrf := range []string{"", "x", offer.CSRF + "x"} {
		_, err := w.Confirm(t.Context(), b.cookie, csrf, true)
		refused(t, err, fault.ConnectLinkInvalid)
	}
	_, err := w.Confirm(t.Context(), secret.Text{}, offer.CSRF, true)
	refused(t, err, fault.ConnectLinkInvalid)
	if _, err := w.Confirm(t.Context(), b.cookie, offer.CSRF, true); err != nil {
		t.Fatalf("a bad token used the flow up: %v", err)
	}
	_, err = w.Confirm(t.Context(), b.cookie, offer.CSRF, true)
	refused(t, err, fault.ConnectLinkInvalid)
}

func TestConfirmTooLate(t *testing.T) {
	w := newWorld(t)
	b, offer := w.offer(t, w.ann, admin)
	w.now = w.now.Add(15 * time.Minute)
	_, err := w.Confirm(t.Context(), b.cookie, offer.CSRF, true)
	refused(t, err, fault.ConnectLinkInvalid)
}

func TestCancel(t *testing.T) {
	w := newWorld(t)
	b, offer := w.offer(t, w.ann, admin)
	held, err := w.Confirm(t.Context(), b.cookie, offer.CSRF, false)
	if err != nil || held != (tenant.Tenant{}) || len(w.holds(t, w.ann)) != 0 {
		t.Fatalf("got %+v, %v", held, err)
	}
	_, err = w.Confirm(t.Context(), b.cookie, offer.CSRF, true)
	refused(t, err, fault.ConnectLinkInvalid)
}

func TestOfManyConfirmationsAtOnceOneWins(t *testing.T) {
	w := newWorld(t)
	b, offer := w.offer(t, w.ann, admin)
	var wait sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wait.Go(func() { _, errs[i] = w.Confirm(t.Context(), b.cookie, offer.CSRF, true) })
	}
	wait.Wait()
	lost := 0
	for _, err := range errs {
		if errors.Is(err, fault.ConnectLinkInvalid) {
			lost++
		}
	}
	if lost != len(errs)-1 || len(w.holds(t, w.ann)) != 1 {
		t.Fatalf("%v", errs)
	}
}

func TestHeldElsewhere(t *testing.T) {
	w := newWorld(t)
	w.connect(t, w.bob, admin)
	b, offer := w.offer(t, w.ann, admin)
	_, err := w.Confirm(t.Context(), b.cookie, offer.CSRF, true)
	refused(t, err, fault.TenantHeld)
	if strings.Contains(fault.Of(err).Detail, "bob") || !slices.Equal(w.holds(t, w.bob), []tenant.GUID{guid}) {
		t.Fatalf("%v", err)
	}
}

func TestCeiling(t *testing.T) {
	w := newWorld(t)
	w.ann = w.account(t, "small@example.com", 1)

	t.Run("reached before the sign-in", func(t *testing.T) {
		query := w.consent(t, w.ann, admin)
		w.connect(t, w.ann, otherAdmin)
		_, err := w.callback(t, query).signIn(t, admin)
		refused(t, err, fault.TenantLimitReached)
	})
	t.Run("no link while every slot works", func(t *testing.T) {
		_, err := w.ConnectURL(t.Context(), w.ann)
		refused(t, err, fault.TenantLimitReached)
	})
	t.Run("reached between page and confirmation", func(t *testing.T) {
		if _, err := w.Delete(t.Context(), w.ann.ID, other); err != nil {
			t.Fatal(err)
		}
		b, offer := w.offer(t, w.ann, admin)
		w.connect(t, w.ann, otherAdmin)
		_, err := w.Confirm(t.Context(), b.cookie, offer.CSRF, true)
		refused(t, err, fault.TenantLimitReached)
		if held := w.holds(t, w.ann); !slices.Equal(held, []tenant.GUID{other}) {
			t.Fatalf("holds %v", held)
		}
	})
}

func TestPlanLapsedMeanwhile(t *testing.T) {
	w := newWorld(t)
	lapse := func(active bool) {
		t.Helper()
		if _, err := w.store.SetActive(t.Context(), w.ann.ID, active); err != nil {
			t.Fatal(err)
		}
	}
	b, offer := w.offer(t, w.ann, admin)
	lapse(false)
	_, err := w.Confirm(t.Context(), b.cookie, offer.CSRF, true)
	refused(t, err, fault.NoAPIPlan)
	lapse(true)
	c := w.callback(t, w.consent(t, w.ann, admin))
	lapse(false)
	_, err = c.signIn(t, admin)
	refused(t, err, fault.NoAPIPlan)
}

func TestReconnectByTheHolder(t *testing.T) {
	w := newWorld(t)
	w.ann = w.account(t, "small@example.com", 1)
	first := w.connect(t, w.ann, admin)
	w.platform.Revoke(guid, "consent")
	if _, err := w.Sync(t.Context(), w.ann.ID, guid); !errors.Is(err, fault.AccessDenied) {
		t.Fatalf("the sync of a revoked tenant: %v", err)
	}
	if next := w.readiness(t).NextStep; next != tenant.NextReconnect {
		t.Fatalf("next step %q", next)
	}
	w.now = w.now.Add(time.Hour)
	again := w.connect(t, w.ann, admin)
	if again.ID != first.ID || !again.ConsentedAt.Equal(w.now) || again.Consent != tenant.ConsentGranted || len(w.holds(t, w.ann)) != 1 {
		t.Fatalf("reconnected as %+v", again)
	}
}

func TestReconnectGivesALostGrantANewChance(t *testing.T) {
	w := newWorld(t)
	held := w.connect(t, w.ann, admin)
	held.Bootstrap, held.BootstrapStep = tenant.BootstrapFailed, tenant.StepGrantRole
	if err := w.store.SaveTenant(t.Context(), w.ann.ID, held); err != nil {
		t.Fatal(err)
	}
	again := w.connect(t, w.ann, admin)
	if next := w.readiness(t).NextStep; again.Bootstrap != tenant.BootstrapPending || next != tenant.NextSync {
		t.Fatalf("bootstrap %s, next step %q", again.Bootstrap, next)
	}
}

func TestASignInWithoutConsentGivesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.Patience = 20 * time.Millisecond
		forged := with(t, w.consent(t, w.ann, admin), "tenant", string(other))
		_, err := w.callback(t, forged).signIn(t, otherAdmin)
		refused(t, err, fault.ConsentDeclined)
	})
}

func TestAConsentThatSpreadsSlowly(t *testing.T) {
	w := newWorld(t)
	w.platform.Fail(fake.Fault{Method: "Profile", Kind: outcome.Refused, Code: fault.AccessDenied, Times: 3})
	if held := w.connect(t, w.ann, admin); held.GUID != guid {
		t.Fatalf("attached %+v", held)
	}
}
