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

// Services is the part of the service that the control interface uses.
type Services struct {
	Accounts Accounts
	Keys     ports.Keys
	// Consent returns the consent URL, for tenants that the operator manages.
	Consent        ports.Consent
	ManagedTenants ManagedTenants
	// ConnectDNS connects an account to a DNS provider with a credential. If the account already
	// has a connection to the provider, it changes nothing.
	ConnectDNS func(ctx context.Context, owner access.AccountID, provider string, c secret.Credential) error
	// Enforce makes an enforcement pass over each connected tenant. It returns after the last pass.
	Enforce func(ctx context.Context) error
	// WakeDueJobs wakes due background jobs. The sandbox calls it after it has moved the clock.
	WakeDueJobs func(ctx context.Context) error
	// KillPlugin sends SIGKILL to a plugin's process, if the process runs.
	KillPlugin func(name string) error
	// APIURL and AdminURL are the base URLs of the service.
	APIURL, AdminURL string
	// KeyPrefix is the prefix of API keys.
	KeyPrefix string
}

// ManagedTenants assigns managed tenants to accounts and withdraws them. *tenants.Service
// implements this interface.
type ManagedTenants interface {
	Assign(ctx context.Context, acc access.Account, id tenant.GUID) (tenant.Tenant, error)
	Withdraw(ctx context.Context, id tenant.GUID) (tenants.WithdrawResult, error)
}

// controller handles the calls of the control interface.
type controller struct {
	*Environment
	Services
}

// Control returns the handler of the control interface. Only `tenantry dev` serves it, and only on
// loopback.
func (env *Environment) Control(s Services) http.Handler {
	controls := &controller{env, s}
	mux := http.NewServeMux()
	for pattern, do := range map[string]call{
		"POST /accounts":                      controls.addAccount,
		"POST /accounts/{id}/plan":            controls.setPlan,
		"POST /accounts/{id}/dns-connections": controls.connectDNS,
		"POST /accounts/{id}/settings":        controls.setSettings,
		"POST /accounts/{id}/keys":            controls.addBoundedKey,
		"POST /accounts/{id}/sign-in-link":    notYet,
		"POST /tenants":                       controls.addTenant,
		"POST /tenants/{id}/consent":          controls.consent,
		"POST /managed":                       controls.assignTenant,
		"DELETE /managed/{id}":                controls.withdrawTenant,
		"POST /zones":                         env.addZone,
		"GET /zones/{name}/records":           env.listRecords,
		"PUT /zones/{name}/records":           env.replaceRecords,
		"POST /enforcement/run":               controls.enforce,
		"POST /clock":                         controls.setClock,
		"POST /faults":                        controls.planFault,
		"DELETE /faults":                      controls.deleteAtAll("/faults"),
		"GET /calls":                          controls.listCalls,
		"DELETE /calls":                       controls.deleteAtAll("/calls"),
		"POST /plugins/{name}/kill":           controls.killPlugin,
		"/sending/{provider}/{rest...}":       env.forwardSending,
	} {
		mux.Handle(pattern, handle(env.log, do))
	}
	return env.route(mux, controls.forwardToSimulator)
}

// enforce runs Services.Enforce. It answers when the enforcement has finished.
func (c *controller) enforce(r *http.Request) (any, error) {
	return emptyResponse{}, c.Enforce(r.Context())
}

// forwardToSimulator forwards a call to the simulator that handles the first element of its path.
func (c *controller) forwardToSimulator(r *http.Request) (any, error) {
	firstSegment, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	sim, ok := c.simulatorWithControl(firstSegment)
	if !ok {
		return noSuchCall(r)
	}
	return sim.forward(r, r.URL.EscapedPath())
}

// killPlugin kills the process of a plugin, to simulate a crash.
func (c *controller) killPlugin(r *http.Request) (any, error) {
	list, err := catalog(c.options.PluginDir)
	if err != nil {
		return nil, err
	}
	name := r.PathValue("name")
	if !slices.ContainsFunc(list, func(p plugin) bool { return p.Name == name }) {
		return nil, notFound("there is no such plugin")
	}
	return emptyResponse{}, c.KillPlugin(name)
}
