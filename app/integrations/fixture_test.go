// SPDX-License-Identifier: Apache-2.0

package integrations_test

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/adapters/testserver/leaks"
	"github.com/tenantry/tenantry/app/apptest"
	"github.com/tenantry/tenantry/app/integrations"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

var (
	must       = apptest.Must
	inFakeTime = apptest.InFakeTime
)

const (
	// the kinds of the periodic jobs
	sessionSweep = "sending_sessions"
	refreshSweep = "sending_refreshes"

	tenantGUID = tenant.GUID("22222222-2222-4333-8444-555555555555")
	zone       = "example.test"
	unknownID  = "10000000-0000-4000-8000-000000000000"
)

// fixture is the service over SQLite and the fakes. Its platforms are `instantly`, which has
// sign-in sessions, and `plusvibe`, which has none. Its tenant has the mailboxes anna and ben. Its
// clock changes only when the test changes it.
type fixture struct {
	*integrations.Service
	store           *bunstore.Store
	platforms       *fake.SendingPlatforms
	instantly       *fake.SendingPlatform
	plusvibe        *fake.SendingPlatform
	sealer          ports.Sealer
	ann, bob        access.Account
	anna, ben       mailbox.Mailbox
	wakeups         *fake.Wakeups
	drifts          []integration.Drift
	createdAccounts int // number of accounts that switchAccount created
	clock           time.Time
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	fx := &fixture{clock: time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC), platforms: &fake.SendingPlatforms{}, wakeups: &fake.Wakeups{}}
	fx.store, fx.sealer = apptest.NewStore(t), apptest.NewSealer(t)
	fx.instantly, fx.plusvibe = fx.addPlatform("instantly", nil), fx.addPlatform("plusvibe", nil)
	fx.plusvibe.Sessionless = true
	fx.Service = fx.service(fx.store, fx.store, fx.platforms)
	fx.ann = fx.createAccount(t, "ann@example.com", tenantGUID)
	fx.bob = fx.createAccount(t, "bob@example.com", "33333333-2222-4333-8444-555555555555")
	fx.anna, fx.ben = fx.createMailbox(t, fx.ann, tenantGUID, "anna"), fx.createMailbox(t, fx.ann, tenantGUID, "ben")
	return fx
}

// switchAccount switches the fixture to a new account with its own mailbox anna. A new fixture
// would take much longer.
func (fx *fixture) switchAccount(t *testing.T) {
	t.Helper()
	fx.createdAccounts++
	guid := tenant.GUID(fmt.Sprintf("%08d-2222-4333-8444-555555555555", fx.createdAccounts))
	fx.ann = fx.createAccount(t, fmt.Sprintf("ann%d@example.com", fx.createdAccounts), guid)
	fx.anna = fx.createMailbox(t, fx.ann, guid, fmt.Sprintf("anna%d", fx.createdAccounts))
}

// service returns the service of a new process that uses these ports.
func (fx *fixture) service(i ports.Integrations, c ports.Connections, p ports.SendingPlatforms) *integrations.Service {
	return &integrations.Service{
		Integrations: i, Connections: c, Tenants: fx.store, Platforms: p, Sealer: fx.sealer, Queue: fx.wakeups,
		Random: rand.Reader, Now: func() time.Time { return fx.clock },
		OnDrift: func(_ string, kind integration.Drift) { fx.drifts = append(fx.drifts, kind) },
	}
}

// addPlatform adds a platform that accepts the credential `key`.
func (fx *fixture) addPlatform(id string, capabilities func(fields []string) integration.Capabilities) *fake.SendingPlatform {
	p := fake.NewSendingPlatform()
	p.Now = func() time.Time { return fx.clock }
	fx.platforms.AddProvider(integration.Provider{ID: id, Title: id, AuthHosts: []string{"login.microsoftonline.com"}}, capabilities)
	for _, workspace := range []string{"", "ws-1"} {
		fx.platforms.AddWorkspace(id, "key", workspace, p)
	}
	return p
}

// createAccount creates an account with a connected tenant and a verified domain.
func (fx *fixture) createAccount(t *testing.T, email string, guid tenant.GUID) access.Account {
	t.Helper()
	account, err := fx.store.CreateAccount(t.Context(), email, "complete", 0, fx.clock)
	must(t, err)
	_, err = fx.store.Attach(t.Context(), account.ID, tenant.Tenant{GUID: guid, Name: "Fabrikam", BuiltinDomain: "f.onmicrosoft.com", ConsentedAt: fx.clock})
	must(t, err)
	d, err := fx.store.ReserveDomain(t.Context(), account.ID, guid, zone, 12, fx.clock)
	must(t, err)
	d.Added, d.Verified = true, true
	must(t, fx.store.SaveDomain(t.Context(), account.ID, d, nil))
	return account
}

// createMailbox adds a mailbox as if the service had created it.
func (fx *fixture) createMailbox(t *testing.T, account access.Account, guid tenant.GUID, name string) mailbox.Mailbox {
	t.Helper()
	d, err := fx.store.Domain(t.Context(), account.ID, guid, zone)
	must(t, err)
	rows, err := fx.store.ReserveMailboxes(t.Context(), account.ID, d.ID, []mailbox.Spec{{DisplayName: name, Address: name + "@" + zone}}, 99, fx.clock)
	must(t, err)
	m := rows[0]
	m.Stage, m.Provisioned, m.PrincipalName = mailbox.Ready, true, name+".login@"+zone
	must(t, fx.store.SaveMailbox(t.Context(), account.ID, m))
	return m
}

// createIntegration adds an integration of the account ann. The platform accepts its credential.
func (fx *fixture) createIntegration(t *testing.T, provider string) string {
	t.Helper()
	return fx.createIntegrationOf(t, fx.ann, provider)
}

func (fx *fixture) createIntegrationOf(t *testing.T, account access.Account, provider string) string {
	t.Helper()
	v, err := fx.Create(t.Context(), integrations.NewIntegration{Account: account.ID, Provider: provider, Name: provider, APIKey: secret.New("key")}, nil)
	must(t, err)
	return v.ID
}

func (fx *fixture) beginSession(t *testing.T, id string, m mailbox.Mailbox) integrations.StartedSession {
	t.Helper()
	started, err := fx.BeginSignIn(t.Context(), fx.ann, id, m.ID, nil)
	must(t, err)
	return started
}

func (fx *fixture) connect(t *testing.T, id string, m mailbox.Mailbox) {
	t.Helper()
	started := fx.beginSession(t, id, m)
	fx.platformOf(t, id).CompleteSignIn(started.AuthURL.Reveal(), m.Address, m.DisplayName)
	fx.requireSession(t, started, integration.SessionConnected)
}

func (fx *fixture) platformOf(t *testing.T, id string) *fake.SendingPlatform {
	t.Helper()
	if fx.storedIntegration(t, id).Provider == "plusvibe" {
		return fx.plusvibe
	}
	return fx.instantly
}

// requireSession reads a session after the minimum interval between two platform checks, and
// requires this status.
func (fx *fixture) requireSession(t *testing.T, started integrations.StartedSession, want integration.SessionStatus) integration.Session {
	t.Helper()
	fx.advance(4 * time.Second)
	s, err := fx.SessionStatus(t.Context(), fx.ann.ID, started.Integration.ID, started.Session.MailboxID, started.Session.ID)
	must(t, err)
	if s.Status != want {
		t.Fatalf("the session is %+v, want the status %s", s, want)
	}
	return s
}

// refresh refreshes an integration, a second after the last operation.
func (fx *fixture) refresh(t *testing.T, id string) integrations.RefreshResult {
	t.Helper()
	fx.advance(time.Second)
	r, err := fx.Refresh(t.Context(), fx.ann.ID, id, nil)
	must(t, err)
	return r
}

func (fx *fixture) advance(d time.Duration) { fx.clock = fx.clock.Add(d) }

func (fx *fixture) storedIntegration(t *testing.T, id string) integration.Integration {
	t.Helper()
	i, _, err := fx.store.Integration(t.Context(), fx.ann.ID, id)
	must(t, err)
	return i
}

func (fx *fixture) storedConnection(t *testing.T, id string, m mailbox.Mailbox) integration.Connection {
	t.Helper()
	e, err := fx.store.EligibleMailbox(t.Context(), fx.ann.ID, id, m.ID)
	must(t, err)
	return e.Connection
}

func (fx *fixture) requireStatus(t *testing.T, id string, m mailbox.Mailbox, want integration.ConnectionStatus) integration.Connection {
	t.Helper()
	c := fx.storedConnection(t, id, m)
	if c.Status != want {
		t.Fatalf("the connection of %s is %+v, want the status %q", m.Address, c, want)
	}
	return c
}

// sweep runs the periodic job of one kind, and handles all wake-ups in the queue.
func (fx *fixture) sweep(t *testing.T, kind string) {
	t.Helper()
	for _, p := range fx.Periodic(time.Minute, 6*time.Hour) {
		if p.Kind == kind {
			must(t, p.Do(t.Context()))
		}
	}
	for _, wakeup := range fx.wakeups.Take() {
		must(t, fx.Handlers()[wakeup.Kind](t.Context(), wakeup))
	}
}

// requireRefusal requires that an error has this published code. The error must not contain s3cret,
// which is the secret part of some tests' credentials.
func requireRefusal(t *testing.T, err error, want fault.Code) *fault.Error {
	t.Helper()
	if fault.ErrorOf(err).Code != want {
		t.Fatalf("got the error %v, want %s", err, want.Name)
	}
	if strings.Contains(err.Error(), "s3cret") {
		t.Errorf("the error contains the credential: %v", err)
	}
	return fault.ErrorOf(err)
}
