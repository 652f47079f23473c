// SPDX-License-Identifier: Apache-2.0

package integrations_test

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/fake"
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

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	must       = apptest.Must
	inFakeTime = apptest.InFakeTime
)

const (
	sessions  = "sending_sessions"
	refreshes = "sending_refreshes"

	theTenant = tenant.GUID("22222222-2222-4333-8444-555555555555")
	zone      = "example.test"
	stranger  = "10000000-0000-4000-8000-000000000000"
)

// fixture is the service over SQLite and the fakes. Its platforms are `instantly`, which has
// sessions, and `plusvibe`, which has none. Its tenant has the mailboxes anna and ben, created by
// tenantry. Its clock stands still.
type fixture struct {
	*integrations.Service
	store     *bunstore.Store
	platforms *fake.SendingPlatforms
	instantly *fake.SendingPlatform
	plusvibe  *fake.SendingPlatform
	sealer    ports.Sealer
	acc, bob  access.Account
	anna, ben mailbox.Mailbox
	wakeups   *fake.Wakeups
	drifts    []integration.Drift
	accounts  int
	clock     time.Time
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	w := &fixture{clock: time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC), platforms: &fake.SendingPlatforms{}, wakeups: &fake.Wakeups{}}
	w.store, w.sealer = apptest.NewStore(t), apptest.NewSealer(t)
	w.instantly, w.plusvibe = w.platform("instantly", nil), w.platform("plusvibe", nil)
	w.plusvibe.Sessionless = true
	w.Service = w.service(w.store, w.store, w.platforms)
	w.acc = w.account(t, "ann@example.com", theTenant)
	w.bob = w.account(t, "bob@example.com", "33333333-2222-4333-8444-555555555555")
	w.anna, w.ben = w.mailbox(t, w.acc, theTenant, "anna"), w.mailbox(t, w.acc, theTenant, "ben")
	return w
}

// switchAccount switches the fixture to a new account with its own mailbox anna. A new fixture
// would take much longer.
func (w *fixture) switchAccount(t *testing.T) {
	t.Helper()
	w.accounts++
	guid := tenant.GUID(fmt.Sprintf("%08d-2222-4333-8444-555555555555", w.accounts))
	w.acc = w.account(t, fmt.Sprintf("ann%d@example.com", w.accounts), guid)
	w.anna = w.mailbox(t, w.acc, guid, fmt.Sprintf("anna%d", w.accounts))
}

// service returns the service of a new process, with these ports.
func (w *fixture) service(i ports.Integrations, c ports.Connections, p ports.SendingPlatforms) *integrations.Service {
	return &integrations.Service{
		Integrations: i, Connections: c, Tenants: w.store, Platforms: p, Sealer: w.sealer, Queue: w.wakeups,
		Random: rand.Reader, Now: func() time.Time { return w.clock },
		Drift: func(_ string, kind integration.Drift) { w.drifts = append(w.drifts, kind) },
	}
}

// platform adds a platform that accepts the credential `key`.
func (w *fixture) platform(id string, can func(given []string) integration.Capabilities) *fake.SendingPlatform {
	p := fake.NewSendingPlatform()
	p.Now = func() time.Time { return w.clock }
	w.platforms.Know(integration.Provider{ID: id, Title: id, AuthHosts: []string{"login.microsoftonline.com"}}, can)
	for _, workspace := range []string{"", "ws-1"} {
		w.platforms.Hold(id, "key", workspace, p)
	}
	return p
}

func (w *fixture) account(t *testing.T, email string, guid tenant.GUID) access.Account {
	t.Helper()
	acc, err := w.store.CreateAccount(t.Context(), email, "complete", 0, w.clock)
	must(t, err)
	_, err = w.store.Attach(t.Context(), acc.ID, tenant.Tenant{GUID: guid, Name: "Fabrikam", BuiltinDomain: "f.onmicrosoft.com", ConsentedAt: w.clock})
	must(t, err)
	d, err := w.store.ReserveDomain(t.Context(), acc.ID, guid, zone, 12, w.clock)
	must(t, err)
	d.Added, d.Verified = true, true
	must(t, w.store.SaveDomain(t.Context(), acc.ID, d, nil))
	return acc
}

// mailbox adds a mailbox as if tenantry had created it.
func (w *fixture) mailbox(t *testing.T, acc access.Account, guid tenant.GUID, name string) mailbox.Mailbox {
	t.Helper()
	d, err := w.store.Domain(t.Context(), acc.ID, guid, zone)
	must(t, err)
	rows, err := w.store.ReserveMailboxes(t.Context(), acc.ID, d.ID, []mailbox.Spec{{DisplayName: name, Address: name + "@" + zone}}, 99, w.clock)
	must(t, err)
	m := rows[0]
	m.Stage, m.Provisioned, m.PrincipalName = mailbox.Ready, true, name+".login@"+zone
	must(t, w.store.SaveMailbox(t.Context(), acc.ID, m))
	return m
}

// integrate adds an integration whose credential the platform accepts.
func (w *fixture) integrate(t *testing.T, provider string) string {
	t.Helper()
	return w.integrateFor(t, w.acc, provider)
}

func (w *fixture) integrateFor(t *testing.T, acc access.Account, provider string) string {
	t.Helper()
	v, err := w.Create(t.Context(), integrations.New{Account: acc.ID, Provider: provider, Name: provider, APIKey: secret.New("key")}, nil)
	must(t, err)
	return v.ID
}

func (w *fixture) begin(t *testing.T, id string, m mailbox.Mailbox) integrations.Begun {
	t.Helper()
	b, err := w.Begin(t.Context(), w.acc, id, m.ID, nil)
	must(t, err)
	return b
}

// connect connects a mailbox by a completed sign-in.
func (w *fixture) connect(t *testing.T, id string, m mailbox.Mailbox) {
	t.Helper()
	b := w.begin(t, id, m)
	w.at(t, id).Complete(b.AuthURL.Reveal(), m.Address, m.DisplayName)
	w.status(t, b, integration.SessionConnected)
}

func (w *fixture) at(t *testing.T, id string) *fake.SendingPlatform {
	t.Helper()
	if w.integration(t, id).Provider == "plusvibe" {
		return w.plusvibe
	}
	return w.instantly
}

// status reads a session after the minimum interval between two platform checks.
func (w *fixture) status(t *testing.T, b integrations.Begun, want integration.SessionStatus) integration.Session {
	t.Helper()
	w.wait(4 * time.Second)
	s, err := w.Status(t.Context(), w.acc.ID, b.Integration.ID, b.Session.MailboxID, b.Session.ID)
	must(t, err)
	if s.Status != want {
		t.Fatalf("the session is %+v, want %s", s, want)
	}
	return s
}

func (w *fixture) refresh(t *testing.T, id string) integrations.Refreshed {
	t.Helper()
	w.wait(time.Second)
	r, err := w.Refresh(t.Context(), w.acc.ID, id, nil)
	must(t, err)
	return r
}

func (w *fixture) wait(d time.Duration) { w.clock = w.clock.Add(d) }

func (w *fixture) integration(t *testing.T, id string) integration.Integration {
	t.Helper()
	i, _, err := w.store.Integration(t.Context(), w.acc.ID, id)
	must(t, err)
	return i
}

func (w *fixture) connection(t *testing.T, id string, m mailbox.Mailbox) integration.Connection {
	t.Helper()
	e, err := w.store.EligibleMailbox(t.Context(), w.acc.ID, id, m.ID)
	must(t, err)
	return e.Connection
}

func (w *fixture) requireStatus(t *testing.T, id string, m mailbox.Mailbox, want integration.ConnectionStatus) integration.Connection {
	t.Helper()
	c := w.connection(t, id, m)
	if c.Status != want {
		t.Fatalf("%s is %+v, want %s", m.Address, c, want)
	}
	return c
}

// sweep runs the periodic job of one kind and handles its wake-ups.
func (w *fixture) sweep(t *testing.T, kind string) {
	t.Helper()
	for _, p := range w.Periodic(time.Minute, 6*time.Hour) {
		if p.Kind == kind {
			must(t, p.Do(t.Context()))
		}
	}
	for _, wakeup := range w.wakeups.Take() {
		must(t, w.Handlers()[wakeup.Kind](t.Context(), wakeup))
	}
}

// refused checks that an error has a published code and does not contain the credential.
func refused(t *testing.T, err error, want fault.Code) *fault.Error {
	t.Helper()
	if fault.Of(err).Code != want {
		t.Fatalf("%v, want %s", err, want.Name)
	}
	if strings.Contains(err.Error(), "s3cret") {
		t.Errorf("%v holds the credential", err)
	}
	return fault.Of(err)
}
