// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"

	"github.com/tenantry/tenantry/adapters/sandbox/zones"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/secret"
)

// kindDNS is the kind of DNS providers in the plugin catalog.
const kindDNS = "dns"

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
	s := c.dnsSimulator(in.Provider)
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

// dnsSimulator returns the simulator of a DNS provider, or nil.
func (env *Environment) dnsSimulator(name string) *simulator {
	for _, s := range env.runningSimulators() {
		if s.kind == kindDNS && s.ready.Provider == name {
			return s
		}
	}
	return nil
}

// credential returns the credential of a customer. It contains the settings and the secrets of the
// simulator's ready line. Settings and secrets that the simulator issues for this customer replace
// the settings and secrets with the same names.
func (s *simulator) credential(ctx context.Context, customer string) (secret.Credential, error) {
	merged := secret.Credential{Settings: map[string]string{}, Secrets: map[string]secret.Text{}}
	issued, err := s.issueCredential(ctx, customer)
	if err != nil {
		return merged, err
	}
	maps.Copy(merged.Settings, s.ready.Settings)
	maps.Copy(merged.Settings, issued.Settings)
	for _, secrets := range []map[string]string{s.ready.Secrets, issued.Secrets} {
		for name, value := range secrets {
			merged.Secrets[name] = secret.New(value)
		}
	}
	return merged, nil
}

// issuedCredential has the settings and secrets that a simulator issues for one customer.
type issuedCredential struct{ Settings, Secrets map[string]string }

// issueCredential asks the simulator for a customer's settings and secrets. If the simulator does
// not have this call, it has one credential for all customers. The result is then empty.
func (s *simulator) issueCredential(ctx context.Context, customer string) (issued issuedCredential, err error) {
	body, err := json.Marshal(map[string]string{"customer": customer})
	if err != nil {
		return issued, err
	}
	answer, err := s.controlCall(ctx, http.MethodPost, "/credentials", body)
	switch {
	case err != nil:
		return issued, err
	case answer.status == http.StatusNotFound:
		return issued, nil
	case answer.status != http.StatusOK:
		return issued, fmt.Errorf("the simulator of %s issued no credential: it answered %d", s.ready.Provider, answer.status)
	}
	if err := json.Unmarshal(answer.body, &issued); err != nil { // not wrapped, because the error could quote a secret
		return issued, fmt.Errorf("the credential from the simulator of %s cannot be decoded", s.ready.Provider)
	}
	return issued, nil
}

// seedDNS connects the seeded account to the DNS provider zones.SeededProvider, and to the DNS
// provider whose plugin is under development. It creates zones that the second provider hosts, and
// returns their names, keyed by provider.
func (c *controller) seedDNS(ctx context.Context, owner access.AccountID) (map[string][]string, error) {
	created := map[string][]string{}
	for _, s := range c.runningSimulators() {
		provider := s.ready.Provider
		if s.kind != kindDNS || provider != zones.SeededProvider && provider != c.options.Plugin {
			continue
		}
		if provider != zones.SeededProvider {
			for _, number := range zoneNumbers[:2] {
				name := provider + "-" + number + ".test"
				if err := c.zones.Add(name, provider); err != nil {
					return nil, fmt.Errorf("seed zone %s: %w", name, err)
				}
				created[provider] = append(created[provider], name)
			}
		}
		if err := c.connectTo(ctx, s, owner); err != nil {
			return nil, fmt.Errorf("seed DNS connection with %s: %w", provider, err)
		}
	}
	return created, nil
}
