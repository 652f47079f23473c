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
	guid  tenant.GUID = "7b1d9c52-6a0e-4a55-8f0e-0c2f5b6a9d11"
	other tenant.GUID = "1c2d3e4f-6a0e-4a55-8f0e-0c2f5b6a9d12"

	admin      = "admin@t7b1d9c52.onmicrosoft.com"
	otherAdmin = "admin@t1c2d3e4f.onmicrosoft.com"
)

// fixture is the service over a store and the fake platform, with two tenants that are not
// connected.
type fixture struct {
	*tenants.Service
	store    *bunstore.Store
	platform *fake.Platform
	now      time.Time
	ann, bob access.Account
}

var (
	refused    = apptest.RequireRefusal
	inFakeTime = apptest.InFakeTime
)

func newFixture(t *testing.T) *fixture {
	t.Helper()
	store := apptest.NewStore(t)
	fx := &fixture{store: store, platform: fake.New(), now: time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)}
	fx.platform.AddTenant(guid, fake.Setup{Name: "One"})
	fx.platform.AddTenant(other, fake.Setup{Name: "Other"})
	clock := func() time.Time { return fx.now }
	fx.Service = &tenants.Service{
		Tenants: store, Assignments: store, Discoveries: store, Domains: store, Flows: store, Sessions: store, Settings: store, Accounts: store, Policies: store, Runs: store, Capacity: store,
		Platform: fx.platform, Sealer: apptest.NewSealer(t), Random: rand.Reader, Now: clock, PublicURL: "https://tenantry.test", PlatformName: "microsoft365",
		RequireSMTPAuth: true, ConsentTimeout: apptest.HangTimeout, Pause: time.Millisecond,
		Reconciler: &reconcile.Reconciler{
			Platform: fx.platform, Domains: store, DNS: fx.platform.DNS, Facts: fx.platform, Now: clock,
			Limit: apptest.HangTimeout, Pause: time.Millisecond,
		},
	}
	fx.ann, fx.bob = fx.account(t, "ann@example.com", 2), fx.account(t, "bob@example.com", 2)
	return fx
}

func (fx *fixture) account(t *testing.T, email string, slots int) access.Account {
	t.Helper()
	acc, err := fx.store.CreateAccount(t.Context(), email, "complete", slots, fx.now)
	apptest.Must(t, err)
	return acc
}

// consent returns the callback query of a new link.
func (fx *fixture) consent(t *testing.T, acc access.Account, username string) (query string) {
	t.Helper()
	link, err := fx.ConnectURL(t.Context(), acc, tenants.LinkRequest{})
	apptest.Must(t, err)
	return fx.visit(t, link.URL, username)
}

func (fx *fixture) visit(t *testing.T, page, username string) (query string) {
	t.Helper()
	query, err := fx.platform.Visit(page, username, true)
	apptest.Must(t, err)
	return query
}

// browser holds the state of an administrator's browser after the callback.
type browser struct {
	*fixture
	page   string
	cookie secret.Text
}

func (fx *fixture) callback(t *testing.T, query string) browser {
	t.Helper()
	redirect, err := fx.Callback(t.Context(), query)
	apptest.Must(t, err)
	return browser{fx, redirect.URL, redirect.Cookie}
}

func (b browser) signIn(t *testing.T, username string) (tenants.ConfirmationPage, error) {
	t.Helper()
	return b.FinishSignIn(t.Context(), b.visit(t, b.page, username), b.cookie)
}

// offer runs the connect flow up to the confirmation page.
func (fx *fixture) offer(t *testing.T, acc access.Account, username string) (browser, tenants.ConfirmationPage) {
	t.Helper()
	b := fx.callback(t, fx.consent(t, acc, username))
	offer, err := b.signIn(t, username)
	apptest.Must(t, err)
	return b, offer
}

// connect runs the whole connect flow.
func (fx *fixture) connect(t *testing.T, acc access.Account, username string) tenant.Tenant {
	t.Helper()
	b, offer := fx.offer(t, acc, username)
	held, err := fx.Confirm(t.Context(), b.cookie, offer.CSRF, true)
	apptest.Must(t, err)
	return held
}

func (fx *fixture) heldTenants(t *testing.T, acc access.Account) []tenant.GUID {
	t.Helper()
	list, err := fx.List(t.Context(), acc.ID)
	apptest.Must(t, err)
	var guids []tenant.GUID
	for _, held := range list {
		guids = append(guids, held.GUID)
	}
	return guids
}

func (fx *fixture) readiness(t *testing.T) tenant.Readiness {
	t.Helper()
	_, readiness, err := fx.Get(t.Context(), fx.ann, guid)
	apptest.Must(t, err)
	return readiness
}

// withParam returns the query with one parameter replaced.
func withParam(t *testing.T, query, name, value string) string {
	t.Helper()
	q, err := url.ParseQuery(query)
	apptest.Must(t, err)
	q.Set(name, value)
	return q.Encode()
}
