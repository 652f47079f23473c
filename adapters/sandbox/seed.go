// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/tenantry/tenantry/adapters/sandbox/disk"
	"github.com/tenantry/tenantry/adapters/sandbox/zones"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/secret"
)

const (
	ownerEmail = "owner@example.com"
	ownerPlan  = "complete"
)

var (
	zoneNumbers = []string{"one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"}
	tenantNames = []string{"Example Outreach", "Example Growth", "Example Sales"}
)

// Ready describes a sandbox that is ready. Its JSON is the line that `tenantry dev --json` prints.
type Ready struct {
	APIURL     string         `json:"api_url"`
	APIKey     string         `json:"api_key"`
	AccountID  string         `json:"account_id"`
	UserEmail  string         `json:"user_email"`
	AdminURL   string         `json:"admin_url"`
	ControlURL string         `json:"control_url"`
	DNSAddr    string         `json:"dns_addr"`
	Zones      []string       `json:"zones"`
	Tenants    []Tenant       `json:"tenants"`
	Sending    map[string]any `json:"sending"`
	// MailPlatform is the display name of the mail platform to which Tenants belong. The caller of
	// Open sets it.
	MailPlatform string `json:"-"`
	// ZonesProvider is the name of the DNS provider that hosts Zones.
	ZonesProvider string `json:"-"`
	// MessyZones are the seeded zones that already have records, to try out DNS plans.
	MessyZones []zones.MessyZone `json:"-"`
	// PluginZones are the seeded zones that the DNS provider of the plugin under development hosts,
	// keyed by the provider's name.
	PluginZones map[string][]string `json:"-"`
}

// Tenant is a simulated tenant without consent.
type Tenant struct {
	TenantID string `json:"tenant_id"`
	Admin    string `json:"admin"`
	Name     string `json:"name"`
}

// Open creates the sandbox's account and its API key if they do not exist. With Options.Seed, it
// also creates missing tenants and DNS connections, and the zones of the plugin under development.
// Open starts the control interface.
func (env *Environment) Open(ctx context.Context, s Services) (Ready, error) {
	c := &controller{env, s}
	acc, key, err := c.ensureOwner(ctx)
	if err != nil {
		return Ready{}, fmt.Errorf("seed account: %w", err)
	}
	ready := Ready{
		APIURL: s.APIURL, APIKey: key.Reveal(), AccountID: string(acc.ID), UserEmail: ownerEmail,
		AdminURL: s.AdminURL, DNSAddr: env.DNSAddr(), Zones: []string{}, ZonesProvider: zones.SeededProvider, Tenants: []Tenant{}, Sending: map[string]any{},
	}
	if env.options.Seed {
		ready.Zones, ready.MessyZones, ready.Sending = seedZoneNames(), zones.MessyZones, env.sendingCustomers()
		if ready.Tenants, err = env.unconnectedTenants(ctx); err != nil {
			return Ready{}, fmt.Errorf("seed tenants: %w", err)
		}
		if ready.PluginZones, err = c.seedDNS(ctx, acc.ID); err != nil {
			return Ready{}, err
		}
	}
	ready.ControlURL, err = env.listenControl(ctx, env.Control(s))
	return ready, err
}

// ensureOwner returns the account of the sandbox and an API key. It creates them if necessary. If
// the account was closed, ensureOwner creates a new one, because a closed account gets no key.
func (c *controller) ensureOwner(ctx context.Context) (access.Account, secret.Text, error) {
	acc, err := c.Accounts.FindAccount(ctx, ownerEmail)
	if errors.Is(err, fault.AccountNotFound) || err == nil && acc.Status() == access.StatusClosed {
		acc, err = c.Accounts.CreateAccount(ctx, ownerEmail, ownerPlan, 0, c.Now())
	}
	if err != nil {
		return acc, secret.Text{}, err
	}
	key, err := c.ensureOwnerKey(ctx, acc.ID)
	return acc, key, err
}

// ensureOwnerKey returns the API key of the last start if the key is valid, belongs to owner and
// was not replaced by a rotation. Otherwise it returns a new key. The database contains only the
// key's hash, so the key is stored in a file.
func (c *controller) ensureOwnerKey(ctx context.Context, owner access.AccountID) (secret.Text, error) {
	path, lastKey := c.dataFile("api-key.json"), ""
	if err := disk.Load(path, &lastKey); err != nil {
		return secret.Text{}, err
	}
	key := secret.New(lastKey)
	caller, err := c.Keys.Caller(ctx, access.HashKey(key))
	switch {
	case err == nil && caller.Account.ID == owner && caller.SecretUntil.IsZero(): // a rotation sets SecretUntil
		return key, nil
	case err != nil && !errors.Is(err, fault.InvalidAPIKey):
		return secret.Text{}, err
	}
	if _, key, err = c.addKey(ctx, owner, "sandbox", access.Live, access.Unbounded()); err != nil {
		return secret.Text{}, err
	}
	return key, disk.Save(path, key.Reveal())
}

func seedZoneNames() []string {
	names := make([]string, len(zoneNumbers))
	for i, number := range zoneNumbers {
		names[i] = "example-" + number + ".test"
	}
	return names
}

func (env *Environment) seedZones() error {
	for _, name := range seedZoneNames() {
		if err := env.zones.Add(name, zones.SeededProvider); err != nil {
			return fmt.Errorf("seed zone %s: %w", name, err)
		}
	}
	for _, messyZone := range zones.MessyZones {
		if err := env.zones.Seed(messyZone); err != nil {
			return fmt.Errorf("seed: %w", err)
		}
	}
	return nil
}

// unconnectedTenants returns the seeded tenants without consent. It first creates tenants until
// len(tenantNames) of them have no consent. Without a simulated mail platform it returns none.
func (env *Environment) unconnectedTenants(ctx context.Context) ([]Tenant, error) {
	tenants := []Tenant{}
	if _, ok := env.simulatorWithControl("tenants"); !ok {
		return tenants, nil
	}
	for round := range 2 {
		tenants = tenants[:0]
		for _, seeded := range env.tenants.seededTenants() {
			consent, err := env.consentOf(ctx, seeded.TenantID)
			var unknownTenant notFound // the tenant belongs to the mail platform of an earlier start
			if err != nil && !errors.As(err, &unknownTenant) {
				return nil, err
			}
			if err == nil && consent == "none" {
				tenants = append(tenants, Tenant{seeded.TenantID, seeded.Admin, seeded.Name})
			}
		}
		for i := len(tenants); round == 0 && i < len(tenantNames); i++ {
			if err := env.seedTenant(ctx, tenantNames[i]); err != nil {
				return nil, err
			}
		}
	}
	return tenants, nil
}

func (env *Environment) seedTenant(ctx context.Context, name string) error {
	body, err := json.Marshal(map[string]string{"name": name})
	if err != nil {
		return err
	}
	answer, err := env.createTenant(ctx, body, name, true)
	if err == nil && answer.status != http.StatusOK {
		return fmt.Errorf("the simulator answered %d", answer.status)
	}
	return err
}
