// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/secret"
)

// Accounts is the part of the store that creates and changes accounts and creates their keys.
type Accounts interface {
	CreateAccount(ctx context.Context, email, plan string, slots int, now time.Time) (access.Account, error)
	FindAccount(ctx context.Context, idOrEmail string) (access.Account, error)
	ChangePlan(ctx context.Context, id access.AccountID, plan string, slots int) (access.Account, error)
	SetActive(ctx context.Context, id access.AccountID, active bool) (access.Account, error)
	AddKey(ctx context.Context, k access.Key) error
	ChangeSettings(ctx context.Context, id access.AccountID, change func(access.Settings) (access.Settings, error)) (access.Settings, error)
}

// addAccount creates an account with an API key.
func (c *controller) addAccount(r *http.Request) (any, error) {
	in := struct {
		Email   string         `json:"email"`
		Plan    string         `json:"plan"`
		Slots   int            `json:"tenant_slots"`
		KeyForm access.KeyForm `json:"key_form"`
	}{KeyForm: access.Live}
	if err := decodeBody(r, &in); err != nil {
		return nil, err
	}
	switch {
	case in.Email == "" || in.Plan == "":
		return nil, badRequest("email and plan are required")
	case in.Slots < 0:
		return nil, badRequest("tenant_slots must not be negative")
	case in.KeyForm != access.Live && in.KeyForm != access.Trial:
		return nil, badRequest("key_form must be live or trial")
	}
	if err := access.CheckEmail(in.Email); err != nil {
		return nil, err
	}
	acc, err := c.Accounts.CreateAccount(r.Context(), in.Email, in.Plan, in.Slots, c.Now())
	if err != nil {
		return nil, err
	}
	_, keyText, err := c.addKey(r.Context(), acc.ID, "sandbox", in.KeyForm, access.Unbounded())
	if err != nil {
		return nil, err
	}
	return map[string]string{"account_id": string(acc.ID), "api_key": keyText.Reveal()}, nil
}

// addKey creates an API key for an account.
func (c *controller) addKey(ctx context.Context, owner access.AccountID, name string, form access.KeyForm, bounds access.Bounds) (access.Key, secret.Text, error) {
	key, keyText, err := access.NewKey(rand.Reader, c.KeyPrefix, form, owner, name, c.Now())
	if err != nil {
		return access.Key{}, secret.Text{}, err
	}
	key.Bounds = bounds
	if err := c.Accounts.AddKey(ctx, key); err != nil {
		return access.Key{}, secret.Text{}, fmt.Errorf("add key: %w", err)
	}
	return key, keyText, nil
}

// addBoundedKey creates an API key with bounds, as an operator does with `tenantry key create`.
func (c *controller) addBoundedKey(r *http.Request) (any, error) {
	var in struct {
		Name      string     `json:"name"`
		Scopes    []string   `json:"scopes"`
		Tenants   []string   `json:"tenant_ids"`
		Networks  []string   `json:"allowed_cidrs"`
		ExpiresAt *time.Time `json:"expires_at"`
	}
	if err := decodeBody(r, &in); err != nil {
		return nil, err
	}
	if in.Name == "" || utf8.RuneCountInString(in.Name) > 100 {
		return nil, badRequest("name must have 1 to 100 characters")
	}
	bounds, err := access.NewBounds(in.Scopes, in.Tenants, in.Networks, in.ExpiresAt, c.Now())
	if err != nil {
		return nil, err
	}
	acc, err := c.Accounts.FindAccount(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	key, keyText, err := c.addKey(r.Context(), acc.ID, in.Name, access.Live, bounds)
	if err != nil {
		return nil, err
	}
	return map[string]string{"key_id": key.ID, "api_key": keyText.Reveal()}, nil
}

// setPlan sets the plan of an account, and whether the account is active. Without tenant_slots, the
// number of slots that was set for the account stays.
func (c *controller) setPlan(r *http.Request) (any, error) {
	var in struct {
		Plan   string `json:"plan"`
		Active *bool  `json:"active"`
		Slots  int    `json:"tenant_slots"`
	}
	if err := decodeBody(r, &in); err != nil {
		return nil, err
	}
	if in.Plan == "" || in.Active == nil || in.Slots < 0 {
		return nil, badRequest("plan and active are required; tenant_slots must not be negative")
	}
	acc, err := c.Accounts.FindAccount(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if _, err := c.Accounts.ChangePlan(r.Context(), acc.ID, in.Plan, cmp.Or(in.Slots, acc.OwnSlots)); err != nil {
		return nil, err
	}
	_, err = c.Accounts.SetActive(r.Context(), acc.ID, *in.Active)
	return emptyResponse{}, err
}

// setSettings changes the settings that the request's body contains.
func (c *controller) setSettings(r *http.Request) (any, error) {
	var in struct {
		ReturnHosts *[]string `json:"return_hosts"`
		DisplayName *string   `json:"display_name"`
		SupportURL  *string   `json:"support_url"`
	}
	if err := decodeBody(r, &in); err != nil {
		return nil, err
	}
	acc, err := c.Accounts.FindAccount(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	_, err = c.Accounts.ChangeSettings(r.Context(), acc.ID, func(settings access.Settings) (access.Settings, error) {
		if in.ReturnHosts != nil {
			settings.ReturnHosts = *in.ReturnHosts
		}
		if in.DisplayName != nil {
			settings.DisplayName = *in.DisplayName
		}
		if in.SupportURL != nil {
			settings.SupportURL = *in.SupportURL
		}
		return settings.Normalized()
	})
	return emptyResponse{}, err
}
