// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/secret"
)

// kindDNS is the kind of DNS providers in the plugin catalog.
const kindDNS = "dns"

// seededDNS is the provider of the zones that each sandbox has.
const seededDNS = "cloudflare"

// connectDNS connects an account to a simulated DNS provider.
func (c *controller) connectDNS(r *http.Request) (any, error) {
	var in struct {
		Provider string `json:"provider"`
	}
	if err := decodeBody(r, &in); err != nil {
		return nil, err
	}
	acc, err := c.Accounts.FindAccount(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	s := c.dnsProvider(in.Provider)
	if s == nil {
		return nil, badRequest("provider: no DNS provider with this id is simulated here")
	}
	return emptyResponse{}, c.connectTo(r.Context(), s, acc.ID)
}

// connectTo connects an account to the provider of s, with a credential that s issues.
func (c *controller) connectTo(ctx context.Context, s *simulator, owner access.AccountID) error {
	credential, err := s.credential(ctx, string(owner))
	if err != nil {
		return err
	}
	return c.ConnectDNS(ctx, owner, s.ready.Provider, credential)
}

// dnsProvider returns the simulator of a DNS provider, or nil.
func (env *Environment) dnsProvider(name string) *simulator {
	for _, s := range env.running() {
		if s.kind == kindDNS && s.ready.Provider == name {
			return s
		}
	}
	return nil
}

// credential returns the credential of a customer: the settings and the secrets of the ready line.
// A secret that the simulator issues for this customer replaces the secret of the same name.
func (s *simulator) credential(ctx context.Context, customer string) (secret.Credential, error) {
	out := secret.Credential{Settings: maps.Clone(s.ready.Settings), Secrets: map[string]secret.Text{}}
	ofCustomer, err := s.customerSecrets(ctx, customer)
	if err != nil {
		return out, err
	}
	for _, secrets := range []map[string]string{s.ready.Secrets, ofCustomer} {
		for name, value := range secrets {
			out.Secrets[name] = secret.New(value)
		}
	}
	return out, nil
}

// customerSecrets asks the simulator for a customer's secrets. It returns nil for a simulator
// without this call, which has the same secrets for all customers.
func (s *simulator) customerSecrets(ctx context.Context, customer string) (map[string]string, error) {
	body, err := json.Marshal(map[string]string{"customer": customer})
	if err != nil {
		return nil, err
	}
	answer, err := s.controlCall(ctx, http.MethodPost, "/credentials", body)
	switch {
	case err != nil:
		return nil, err
	case answer.status == http.StatusNotFound:
		return nil, nil
	case answer.status != http.StatusOK:
		return nil, fmt.Errorf("the simulator of %s issued no credential: it answered %d", s.ready.Provider, answer.status)
	}
	var issued struct {
		Secrets map[string]string `json:"secrets"`
	}
	if err := json.Unmarshal(answer.body, &issued); err != nil { // not wrapped: the error could quote a secret
		return nil, fmt.Errorf("the credential from the simulator of %s cannot be decoded", s.ready.Provider)
	}
	return issued.Secrets, nil
}

// seedDNS connects the seeded account to each simulated DNS provider. It returns the zones that it
// creates at the providers other than seededDNS, by provider.
func (c *controller) seedDNS(ctx context.Context, owner access.AccountID) (map[string][]string, error) {
	created := map[string][]string{}
	for _, s := range c.running() {
		if s.kind != kindDNS {
			continue
		}
		provider := s.ready.Provider
		for _, number := range zoneNumbers[:2] {
			if provider == seededDNS {
				break
			}
			name := provider + "-" + number + ".test"
			if err := c.zones.Add(name, provider); err != nil {
				return nil, fmt.Errorf("seed zone %s: %w", name, err)
			}
			created[provider] = append(created[provider], name)
		}
		if err := c.connectTo(ctx, s, owner); err != nil {
			return nil, fmt.Errorf("seed DNS connection with %s: %w", provider, err)
		}
	}
	return created, nil
}
