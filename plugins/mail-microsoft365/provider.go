// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/exchange"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/graph"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/login"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// house is what outlives a call: connections, tokens, pacing. Credentials are
// not in it.
type house struct {
	http     *http.Client
	tokens   *login.Tokens
	keys     *login.Keys
	gates    *exchange.Gates
	hydrated *marks // tenants whose customization was asked for
	hidden   *marks // tenants that do not let us read service principals
	waiting  *marks // tenants whose bootstrap was told to wait
	patience call.Patience
	now      func() time.Time
}

func newHouse() *house {
	return &house{
		http: call.NewHTTPClient(), tokens: &login.Tokens{Now: time.Now}, keys: &login.Keys{}, gates: &exchange.Gates{},
		hydrated: &marks{}, hidden: &marks{}, waiting: &marks{}, patience: call.Usual, now: time.Now,
	}
}

// platform makes the provider for one call.
func (h *house) platform(c sdk.Connection) (sdk.MailPlatform, error) {
	s, err := readSettings(c)
	if err != nil {
		return nil, err
	}
	return &platform{house: h, settings: s, connection: c.Fingerprint()}, nil
}

// platform is Microsoft 365 as one connection reaches it.
type platform struct {
	house      *house
	settings   settings
	connection string
}

// Check implements sdk.MailPlatform.
func (p *platform) Check(ctx context.Context) error {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	return p.login().Check(ctx, p.settings.home, p.settings.graphScope)
}

func (p *platform) login() login.Host {
	return login.Host{
		URL: p.settings.loginURL, HTTP: p.house.http, Patience: p.house.patience,
		Credential: p.settings.credential, Keys: p.house.keys, Now: p.house.now,
	}
}

func (p *platform) tokens(id tenant.GUID, scope string) login.Source {
	return login.Source{Host: p.login(), Tokens: p.house.tokens, Connection: p.connection, Tenant: id, Scope: scope}
}

// client is one tenant.
type client struct {
	platform *platform
	id       tenant.GUID
	app      string // our application's id
	graph    graph.Client
	exchange exchange.Client
}

// For implements sdk.MailPlatform.
func (p *platform) For(id tenant.GUID) sdk.MailTenant { return p.client(id) }

func (p *platform) client(id tenant.GUID) *client {
	return &client{
		platform: p, id: id, app: p.settings.credential.ClientID,
		graph: graph.Client{
			URL: p.settings.graphURL, HTTP: p.house.http, Patience: p.house.patience,
			Tokens: p.tokens(id, p.settings.graphScope),
		},
		exchange: exchange.Client{
			URL: p.settings.exchangeURL, HTTP: p.house.http, Patience: p.house.patience,
			Tokens: p.tokens(id, p.settings.exchangeScope), Tenant: id,
			Gate: p.house.gates.Of(p.connection, id, p.settings.pacing),
		},
	}
}

// marks remembers when something was done for a tenant.
type marks struct {
	mu sync.Mutex
	at map[tenant.GUID]time.Time
}

// set remembers that it was done now.
func (m *marks) set(id tenant.GUID, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at == nil {
		m.at = map[tenant.GUID]time.Time{}
	}
	m.at[id] = now
}

// since reports whether it was done within age.
func (m *marks) since(id tenant.GUID, now time.Time, age time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, ok := m.at[id]
	return ok && now.Sub(at) < age
}
