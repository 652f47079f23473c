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

// processState is shared by all calls of the process. It contains no client secret or certificate.
type processState struct {
	httpClient               *http.Client
	tokenCache               *login.TokenCache
	keyCache                 *login.KeyCache
	limiters                 *exchange.Limiters
	customizationRequestedAt *tenantTimes // when customization was last requested
	principalsForbiddenAt    *tenantTimes // when reading service principals was last refused
	waits                    *sdk.Waits
	retry                    call.RetryPolicy
	now                      func() time.Time
}

func newProcessState() *processState {
	return &processState{
		httpClient: call.NewHTTPClient(), waits: sdk.NewWaits(nil), retry: call.DefaultRetryPolicy, now: time.Now,
		tokenCache: &login.TokenCache{Now: time.Now}, keyCache: &login.KeyCache{}, limiters: &exchange.Limiters{},
		customizationRequestedAt: &tenantTimes{}, principalsForbiddenAt: &tenantTimes{},
	}
}

// newPlatform returns the platform for one connection. It fails with ServiceUnavailable if a
// required setting is missing, or if a setting is invalid.
func (state *processState) newPlatform(connection sdk.Connection) (sdk.MailPlatform, error) {
	s, err := readSettings(connection)
	if err != nil {
		return nil, err
	}
	return &platform{state: state, settings: s, connection: connection.Fingerprint()}, nil
}

// platform makes the calls of one connection to Microsoft 365. It implements sdk.MailPlatform.
type platform struct {
	state      *processState
	settings   settings
	connection string // fingerprint of the connection
}

// Check implements sdk.MailPlatform. It requests a token in the home tenant (see login.Host.Check).
func (p *platform) Check(ctx context.Context) error {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	return p.login().Check(ctx, p.settings.homeTenant, p.settings.graphScope)
}

func (p *platform) login() login.Host {
	return login.Host{
		URL: p.settings.loginURL, HTTP: p.state.httpClient, Retry: p.state.retry,
		Credential: p.settings.credential, Keys: p.state.keyCache, Now: p.state.now, Waits: p.state.waits,
	}
}

func (p *platform) tokens(id tenant.GUID, scope string) login.TokenSource {
	return login.TokenSource{Host: p.login(), Tokens: p.state.tokenCache, Connection: p.connection, Tenant: id, Scope: scope}
}

// tenantClient makes the calls for one tenant. It implements sdk.MailTenant.
type tenantClient struct {
	platform *platform
	id       tenant.GUID
	graph    graph.Client
	exchange exchange.Client
}

// For implements sdk.MailPlatform.
func (p *platform) For(id tenant.GUID) sdk.MailTenant { return p.client(id) }

func (p *platform) client(id tenant.GUID) *tenantClient {
	return &tenantClient{
		platform: p, id: id,
		graph: graph.Client{
			URL: p.settings.graphURL, HTTP: p.state.httpClient, Retry: p.state.retry,
			Tokens: p.tokens(id, p.settings.graphScope), Tenant: id, Waits: p.state.waits,
		},
		exchange: exchange.Client{
			URL: p.settings.exchangeURL, HTTP: p.state.httpClient, Retry: p.state.retry,
			Tokens: p.tokens(id, p.settings.exchangeScope), Tenant: id,
			Limiter: p.state.limiters.For(p.connection, id, p.settings.cmdletsPerSecond), Waits: p.state.waits,
		},
	}
}

// tenantTimes records for each tenant when an event last happened. It is safe for concurrent use.
type tenantTimes struct {
	mu    sync.Mutex
	times map[tenant.GUID]time.Time
}

func (t *tenantTimes) record(id tenant.GUID, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.times == nil {
		t.times = map[tenant.GUID]time.Time{}
	}
	t.times[id] = now
}

// wasRecordedWithin reports whether the recorded time of the tenant is less than age before now.
func (t *tenantTimes) wasRecordedWithin(id tenant.GUID, now time.Time, age time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	recordedAt, ok := t.times[id]
	return ok && now.Sub(recordedAt) < age
}
