// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/app/tenants"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// Services is what the control interface moves of the service itself.
type Services struct {
	Accounts Accounts
	Keys     ports.Keys
	// Consent tells where an administrator consents, for tenants that the
	// operator manages.
	Consent ports.Consent
	Managed Managed
	// ConnectDNS connects an account to a DNS provider with what that knows
	// it by; one that is connected to it already stays as it is.
	ConnectDNS func(ctx context.Context, owner access.AccountID, provider string, c secret.Credential) error
	// Enforce counts what all tenants sent and enforces their limits, now.
	Enforce func(ctx context.Context) error
	// KillPlugin sends SIGKILL to a plugin's process, if it runs.
	KillPlugin func(name string) error
	// APIURL and AdminURL are where the service listens.
	APIURL, AdminURL string
	// KeyPrefix is that of API keys.
	KeyPrefix string
}

// Managed assigns managed tenants; *tenants.Service does.
type Managed interface {
	Assign(ctx context.Context, acc access.Account, id tenant.GUID) (tenant.Tenant, error)
	Withdraw(ctx context.Context, id tenant.GUID) (tenants.Withdrawn, error)
}

// controller serves the control interface.
type controller struct {
	*World
	Services
}

// Control is the control interface. It is only ever opened on loopback, and
// by `tenantry dev` alone.
func (w *World) Control(s Services) http.Handler {
	c := &controller{w, s}
	mux := http.NewServeMux()
	for pattern, do := range map[string]call{
		"POST /accounts":                      c.addAccount,
		"POST /accounts/{id}/plan":            c.setPlan,
		"POST /accounts/{id}/dns-connections": c.connectDNS,
		"POST /tenants":                       c.addTenant,
		"POST /tenants/{id}/consent":          c.consent,
		"POST /managed":                       c.assign,
		"DELETE /managed/{id}":                c.withdraw,
		"POST /zones":                         w.addZone,
		"GET /zones/{name}/records":           w.records,
		"PUT /zones/{name}/records":           w.replaceRecords,
		"POST /enforcement/run":               c.enforce,
		"POST /clock":                         c.setClock,
		"POST /faults":                        c.planFault,
		"DELETE /faults":                      c.forget("/faults"),
		"GET /calls":                          c.calls,
		"DELETE /calls":                       c.forget("/calls"),
		"POST /plugins/{name}/kill":           c.killPlugin,
		"/sending/{provider}/{rest...}":       w.atPlatform,
	} {
		mux.Handle(pattern, handle(w.log, do))
	}
	return w.route(mux, c.pass)
}

// enforce answers when all is done.
func (c *controller) enforce(r *http.Request) (any, error) {
	return done{}, c.Enforce(r.Context())
}

// pass hands a call to the simulator that answers such calls.
func (c *controller) pass(r *http.Request) (any, error) {
	first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	s, ok := c.answering(first)
	if !ok {
		return noSuchCall(r)
	}
	return s.relay(r, r.URL.EscapedPath())
}

// killPlugin ends a plugin's process as a crash would.
func (c *controller) killPlugin(r *http.Request) (any, error) {
	list, err := catalog(c.options.PluginDir)
	if err != nil {
		return nil, err
	}
	name := r.PathValue("name")
	if !slices.ContainsFunc(list, func(p plugin) bool { return p.Name == name }) {
		return nil, missing("there is no such plugin")
	}
	return done{}, c.KillPlugin(name)
}
