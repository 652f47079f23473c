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
	numbers = []string{"one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"}
	// tenantNames are those of the tenants that wait to be connected.
	tenantNames = []string{"Example Outreach", "Example Growth", "Example Sales"}
)

// Ready is the line that `tenantry dev --json` prints.
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
	// Pasts are the zones with a past, which people are shown.
	Pasts []zones.Past `json:"-"`
}

// Tenant is a simulated tenant that is not connected yet.
type Tenant struct {
	TenantID string `json:"tenant_id"`
	Admin    string `json:"admin"`
	Name     string `json:"name"`
}

// Open seeds the account and the tenants, opens the control interface and says
// where everything is.
func (w *World) Open(ctx context.Context, s Services) (Ready, error) {
	c := &controller{w, s}
	acc, key, err := c.owner(ctx)
	if err != nil {
		return Ready{}, fmt.Errorf("seed account: %w", err)
	}
	r := Ready{
		APIURL: s.APIURL, APIKey: key.Reveal(), AccountID: string(acc.ID), UserEmail: ownerEmail,
		AdminURL: s.AdminURL, DNSAddr: w.DNSAddr(), Zones: []string{}, Tenants: []Tenant{}, Sending: map[string]any{},
	}
	if w.options.Seed {
		r.Zones, r.Pasts, r.Sending = seedZones(), zones.Pasts, w.customers()
		if r.Tenants, err = w.unconnected(ctx); err != nil {
			return Ready{}, fmt.Errorf("seed tenants: %w", err)
		}
		if err := c.seedDNS(ctx, acc.ID); err != nil {
			return Ready{}, err
		}
	}
	r.ControlURL, err = w.open(ctx, w.Control(s))
	return r, err
}

// owner finds or makes the account and its key.
func (c *controller) owner(ctx context.Context) (access.Account, secret.Text, error) {
	acc, err := c.Accounts.FindAccount(ctx, ownerEmail)
	if errors.Is(err, fault.AccountNotFound) {
		acc, err = c.Accounts.CreateAccount(ctx, ownerEmail, ownerPlan, 0, c.Now())
	}
	if err != nil {
		return acc, secret.Text{}, err
	}
	key, err := c.ownersKey(ctx, acc.ID)
	return acc, key, err
}

// ownersKey gives the key of the last start while it is good, else a new one.
// The database has only its hash, so the key itself is in a file.
func (c *controller) ownersKey(ctx context.Context, owner access.AccountID) (secret.Text, error) {
	path, kept := c.kept("api-key.json"), ""
	if err := disk.Load(path, &kept); err != nil {
		return secret.Text{}, err
	}
	key := secret.New(kept)
	caller, err := c.Keys.Caller(ctx, access.HashKey(key))
	switch {
	case err == nil && caller.Account.ID == owner:
		return key, nil
	case err != nil && !errors.Is(err, fault.InvalidAPIKey):
		return secret.Text{}, err
	}
	if key, err = c.addKey(ctx, owner, access.Live); err != nil {
		return secret.Text{}, err
	}
	return key, disk.Save(path, key.Reveal())
}

func seedZones() []string {
	out := make([]string, len(numbers))
	for i, number := range numbers {
		out[i] = "example-" + number + ".test"
	}
	return out
}

func (w *World) seedZones() error {
	for _, name := range seedZones() {
		if err := w.zones.Add(name, "cloudflare"); err != nil {
			return fmt.Errorf("seed zone %s: %w", name, err)
		}
	}
	for _, p := range zones.Pasts {
		if err := w.zones.Seed(p); err != nil {
			return fmt.Errorf("seed: %w", err)
		}
	}
	return nil
}

// unconnected gives the seeded tenants that nobody has consented to, and makes
// new ones for those that somebody has: whoever starts finds some to connect.
func (w *World) unconnected(ctx context.Context) ([]Tenant, error) {
	out := []Tenant{}
	if _, ok := w.answering("tenants"); !ok {
		return out, nil
	}
	for round := range 2 {
		out = out[:0]
		for _, e := range w.tenants.seeded() {
			consent, err := w.consentOf(ctx, e.TenantID)
			if err != nil {
				return nil, err
			}
			if consent == "none" {
				out = append(out, Tenant{e.TenantID, e.Admin, e.Name})
			}
		}
		for i := len(out); round == 0 && i < len(tenantNames); i++ {
			if err := w.seedTenant(ctx, tenantNames[i]); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func (w *World) seedTenant(ctx context.Context, name string) error {
	body, err := json.Marshal(map[string]string{"name": name})
	if err != nil {
		return err
	}
	answer, err := w.makeTenant(ctx, body, name, true)
	if err == nil && answer.status != http.StatusOK {
		return fmt.Errorf("the simulator answered %d", answer.status)
	}
	return err
}
