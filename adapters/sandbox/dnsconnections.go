// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"fmt"
	"maps"
	"net/http"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/secret"
)

// kindDNS is that of DNS providers in the plugin catalog.
const kindDNS = "dns"

// seededDNS is the provider that the seeded account is connected to.
const seededDNS = "cloudflare"

// connectDNS connects an account to a simulated DNS provider.
func (c *controller) connectDNS(r *http.Request) (any, error) {
	var in struct {
		Provider string `json:"provider"`
	}
	if err := read(r, &in); err != nil {
		return nil, err
	}
	acc, err := c.Accounts.FindAccount(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	s := c.dnsProvider(in.Provider)
	if s == nil {
		return nil, badCall("provider: no DNS provider with this id is simulated here")
	}
	return done{}, c.ConnectDNS(r.Context(), acc.ID, in.Provider, s.credential())
}

// dnsProvider finds the stand-in of a DNS provider, nil when there is none.
func (w *World) dnsProvider(name string) *simulator {
	for _, s := range w.simulators {
		if s.kind == kindDNS && s.ready.Provider == name {
			return s
		}
	}
	return nil
}

// credential is what a customer of the provider has.
func (s *simulator) credential() secret.Credential {
	out := secret.Credential{Settings: maps.Clone(s.ready.Settings), Secrets: map[string]secret.Text{}}
	for name, value := range s.ready.Secrets {
		out.Secrets[name] = secret.New(value)
	}
	return out
}

// seedDNS connects the seeded account, where that provider is simulated.
func (c *controller) seedDNS(ctx context.Context, owner access.AccountID) error {
	s := c.dnsProvider(seededDNS)
	if s == nil {
		return nil
	}
	if err := c.ConnectDNS(ctx, owner, seededDNS, s.credential()); err != nil {
		return fmt.Errorf("seed DNS connection: %w", err)
	}
	return nil
}
