// SPDX-License-Identifier: Apache-2.0

package tenants_test

import (
	"crypto/rand"
	"net/url"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/app/apptest"
	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/app/tenants"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
)

const (
	guid      tenant.GUID = "7b1d9c52-6a0e-4a55-8f0e-0c2f5b6a9d11"
	otherGUID tenant.GUID = "1c2d3e4f-6a0e-4a55-8f0e-0c2f5b6a9d12"

	admin      = "admin@t7b1d9c52.onmicrosoft.com"
	otherAdmin = "admin@t1c2d3e4f.onmicrosoft.com"
)

// fixture is the service over a store and the fake platform. The platform has the tenants guid and
// otherGUID, which are not connected. ann and bob have two slots each.
type fixture struct {
	*tenants.Service
	store    *bunstore.Store
	platform *fake.Platform
	now      time.Time
	ann, bob access.Account
}

var (
	must           = apptest.Must
	requireRefusal = apptest.RequireRefusal
	inFakeTime     = apptest.InFakeTime
)

func newFixture(t *testing.T) *fixture {
	t.Helper()
	store := apptest.NewStore(t)
	fx := &fixture{store: store, platform: fake.New(), now: time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)}
	fx.platform.AddTenant(guid, fake.Setup{Name: "One"})
	fx.platform.AddTenant(otherGUID, fake.Setup{Name: "Other"})
	clock := func() time.Time { return fx.now }
	fx.Service = &tenants.Service{
		Tenants: store, Assignments: store, Discoveries: store, Domains: store, Flows: store, Sessions: store, Settings: store, Accounts: store, Policies: store, Claims: store, Capacity: store,
		Platform: fx.platform, Sealer: apptest.NewSealer(t), Random: rand.Reader, Now: clock, PublicURL: "https://tenantry.test", PlatformName: "microsoft365",
		RequireSMTPAuth: true, ConsentTimeout: apptest.HangTimeout, Pause: time.Millisecond,
		Reconciler: &reconcile.Reconciler{
			Platform: fx.platform, Domains: store, DNS: fx.platform.DNS, Facts: fx.platform, Now: clock,
			Timeout: apptest.HangTimeout, Pause: time.Millisecond,
		},
	}
	fx.ann, fx.bob = fx.createAccount(t, "ann@example.com", 2), fx.createAccount(t, "bob@example.com", 2)
	return fx
}

func (fx *fixture) createAccount(t *testing.T, email string, slots int) access.Account {
	t.Helper()
	account, err := fx.store.CreateAccount(t.Context(), email, "complete", slots, fx.now)
	must(t, err)
	return account
}

// grantConsent grants the consent with a new link. It returns the query string with which the
// platform redirects to the callback.
func (fx *fixture) grantConsent(t *testing.T, account access.Account, username string) (query string) {
	t.Helper()
	link, err := fx.ConnectURL(t.Context(), account, tenants.LinkRequest{})
	must(t, err)
	return fx.visitPage(t, link.URL, username)
}

// visitPage consents or signs in as this user on a page of the platform. It returns the query of
// the redirect.
func (fx *fixture) visitPage(t *testing.T, page, username string) (query string) {
	t.Helper()
	query, err := fx.platform.Visit(page, username, true)
	must(t, err)
	return query
}

// browser has the state of an administrator's browser after the callback.
type browser struct {
	*fixture
	page   string
	cookie secret.Text
}

// openCallback opens the callback in a new browser.
func (fx *fixture) openCallback(t *testing.T, query string) browser {
	t.Helper()
	redirect, err := fx.Callback(t.Context(), query)
	must(t, err)
	return browser{fx, redirect.URL, redirect.Cookie}
}

func (b browser) signIn(t *testing.T, username string) (tenants.ConfirmationPage, error) {
	t.Helper()
	return b.FinishSignIn(t.Context(), b.visitPage(t, b.page, username), b.cookie)
}

// openConfirmationPage runs the connect flow up to the confirmation page.
func (fx *fixture) openConfirmationPage(t *testing.T, account access.Account, username string) (browser, tenants.ConfirmationPage) {
	t.Helper()
	b := fx.openCallback(t, fx.grantConsent(t, account, username))
	confirmation, err := b.signIn(t, username)
	must(t, err)
	return b, confirmation
}

// connect runs the whole connect flow in a new browser and returns the connected tenant.
func (fx *fixture) connect(t *testing.T, account access.Account, username string) tenant.Tenant {
	t.Helper()
	b, confirmation := fx.openConfirmationPage(t, account, username)
	connected, err := fx.Confirm(t.Context(), b.cookie, confirmation.CSRF, true)
	must(t, err)
	return connected
}

// listedTenants returns the ids of the tenants that List shows to an account.
func (fx *fixture) listedTenants(t *testing.T, account access.Account) []tenant.GUID {
	t.Helper()
	list, err := fx.List(t.Context(), account.ID)
	must(t, err)
	var guids []tenant.GUID
	for _, listed := range list {
		guids = append(guids, listed.GUID)
	}
	return guids
}

// readiness returns the readiness of the tenant of ann.
func (fx *fixture) readiness(t *testing.T) tenant.Readiness {
	t.Helper()
	_, readiness, err := fx.Get(t.Context(), fx.ann, guid)
	must(t, err)
	return readiness
}

// withParam returns the query with one parameter set to value.
func withParam(t *testing.T, query, name, value string) string {
	t.Helper()
	params, err := url.ParseQuery(query)
	must(t, err)
	params.Set(name, value)
	return params.Encode()
}
