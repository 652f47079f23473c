// SPDX-License-Identifier: Apache-2.0

package integrations

import (
	"context"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// List lists the account's integrations, newest first.
func (s *Service) List(ctx context.Context, owner access.AccountID) ([]View, error) {
	all, err := s.Integrations.Integrations(ctx, owner)
	if err != nil {
		return nil, err
	}
	views := make([]View, 0, len(all))
	for _, i := range all {
		views = append(views, s.view(ctx, i))
	}
	return views, nil
}

// Get returns an integration and counts its connections, from what is stored.
// Refusal: integration_not_found.
func (s *Service) Get(ctx context.Context, owner access.AccountID, id string) (View, integration.Counts, error) {
	i, _, err := s.Integrations.Integration(ctx, owner, id)
	if err != nil {
		return View{}, integration.Counts{}, err
	}
	counts, err := s.Connections.ConnectionCounts(ctx, owner, id)
	return s.view(ctx, i), counts, err
}

// Mailboxes lists the mailboxes that this service made, with their connection
// through the integration. Refusal: integration_not_found.
func (s *Service) Mailboxes(ctx context.Context, owner access.AccountID, id string) ([]integration.Eligible, error) {
	return s.Connections.Eligible(ctx, owner, id)
}

// Delete forgets an integration with its credential and connections, which
// frees its mailboxes. The platform is not called. It returns the integration
// as it was. Refusal: integration_not_found.
func (s *Service) Delete(ctx context.Context, owner access.AccountID, id string) (integration.Integration, error) {
	i, _, err := s.Integrations.Integration(ctx, owner, id)
	if err != nil {
		return integration.Integration{}, err
	}
	if ctx, err = ports.Complete(ctx, i); err != nil {
		return integration.Integration{}, err
	}
	failpoint.Hit("integrations.before-delete")
	if err := s.Integrations.RemoveIntegration(ctx, owner, id); err != nil {
		return integration.Integration{}, err
	}
	failpoint.Hit("integrations.after-delete")
	return i, nil
}
