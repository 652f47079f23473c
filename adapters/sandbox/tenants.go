// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
)

// addTenant creates a simulated tenant.
func (c *controller) addTenant(r *http.Request) (any, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	return c.createTenant(r.Context(), body, "", false)
}

// createTenant creates a tenant at the mail platform and adds it to the tenant list.
func (env *Environment) createTenant(ctx context.Context, body []byte, name string, seeded bool) (rawResponse, error) {
	s, ok := env.simulatorWithControl("tenants")
	if !ok {
		return rawResponse{}, notFound("there is no simulator of a mail platform")
	}
	if len(bytes.TrimSpace(body)) == 0 {
		body = []byte("{}")
	}
	answer, err := s.controlCall(ctx, http.MethodPost, "/tenants", body)
	if err != nil || answer.status != http.StatusOK {
		return answer, err
	}
	entry := tenantEntry{Name: name, Seeded: seeded}
	if err := json.Unmarshal(answer.body, &entry); err != nil || entry.TenantID == "" || entry.Admin == "" {
		return rawResponse{}, fmt.Errorf("the simulator of %s created a tenant without returning its id and administrator", s.ready.Provider)
	}
	return answer, env.tenants.add(entry)
}

// consentOf returns the state of a tenant's consent at the platform, such as "none".
func (env *Environment) consentOf(ctx context.Context, id string) (string, error) {
	s, ok := env.simulatorWithControl("tenants")
	if !ok {
		return "", notFound("there is no simulator of a mail platform")
	}
	answer, err := s.controlCall(ctx, http.MethodGet, "/tenants/"+url.PathEscape(id), nil)
	switch {
	case err != nil:
		return "", err
	case answer.status == http.StatusNotFound:
		return "", notFound("there is no such tenant")
	case answer.status != http.StatusOK:
		return "", fmt.Errorf("the simulator of %s answered %d", s.ready.Provider, answer.status)
	}
	var state struct {
		Consent string `json:"consent"`
	}
	if err := json.Unmarshal(answer.body, &state); err != nil {
		return "", fmt.Errorf("tenant at the simulator of %s: %w", s.ready.Provider, err)
	}
	return state.Consent, nil
}

const (
	// consentTimeout is how long a new consent may take to become effective. consentPollInterval is
	// the time between two attempts to assign the tenant.
	consentTimeout      = 2 * time.Minute
	consentPollInterval = 250 * time.Millisecond
)

// assignTenant assigns a managed tenant to an account. If the tenant's administrator has not
// consented yet, assignTenant first consents on behalf of the administrator.
func (c *controller) assignTenant(r *http.Request) (any, error) {
	var in struct {
		TenantID  tenant.GUID `json:"tenant_id"`
		AccountID string      `json:"account_id"`
	}
	if err := decodeBody(r, &in); err != nil {
		return nil, err
	}
	if in.TenantID == "" || in.AccountID == "" {
		return nil, badRequest("tenant_id and account_id are required")
	}
	acc, err := c.Accounts.FindAccount(r.Context(), in.AccountID)
	if err != nil {
		return nil, err
	}
	consent, err := c.consentOf(r.Context(), string(in.TenantID))
	if err != nil {
		return nil, err
	}
	if consent == "none" {
		return emptyResponse{}, c.consentAndAssign(r.Context(), acc, in.TenantID)
	}
	_, err = c.ManagedTenants.Assign(r.Context(), acc, in.TenantID)
	return emptyResponse{}, err
}

// consentAndAssign consents on behalf of the tenant's administrator. It assigns the tenant as soon
// as the consent is effective at the platform.
func (c *controller) consentAndAssign(ctx context.Context, acc access.Account, id tenant.GUID) error {
	if err := c.consentManaged(ctx, string(id)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, consentTimeout)
	defer cancel()
	poll := time.NewTicker(consentPollInterval)
	defer poll.Stop()
	for {
		_, err := c.ManagedTenants.Assign(ctx, acc, id)
		if outcome.KindOf(err) != outcome.NotReady && !errors.Is(err, fault.AccessDenied) {
			return err
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return err
		}
	}
}

func (c *controller) withdrawTenant(r *http.Request) (any, error) {
	_, err := c.ManagedTenants.Withdraw(r.Context(), tenant.GUID(r.PathValue("id")))
	return emptyResponse{}, err
}
