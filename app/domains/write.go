// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"context"

	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// Write makes a survey's changes at the provider that holds the zone. What is
// ours is stored first: it is known as ours also when the answer gets lost.
func (s *Service) Write(ctx context.Context, owner access.AccountID, v Survey) error {
	if err := s.Writes.SaveWritten(ctx, owner, v.Domain.ID, v.Plan.Writes); err != nil {
		return err
	}
	return settling.Call(ctx, func(ctx context.Context) error {
		failpoint.Hit("domains.before-write")
		_, err := v.at.Apply(ctx, v.Holder.Access.Zone, v.Plan.Changes)
		failpoint.Hit("domains.after-write")
		return err
	})
}

// Saw stores what a survey saw of a domain, and what the mail platform said of
// it meanwhile.
func (s *Service) Saw(ctx context.Context, owner access.AccountID, v Survey) (domain.Domain, error) {
	learned := v.Domain.Looked(v.Public, s.Now())
	return settling.Change(ctx, s.Domains, owner, learned, func(stored *domain.Domain) {
		if len(stored.Verification) == 0 {
			stored.Verification = learned.Verification
		}
		if len(stored.Service) == 0 {
			stored.Service = learned.Service
		}
		if stored.Signing.Selector1.Name == "" {
			stored.Signing, stored.DKIM = learned.Signing, learned.Signing.Enabled
		}
	})
}
