// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"context"

	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/tenant"
)

// learn asks the mail platform for what it has not said yet of the records of a
// domain. What is stored serves as it is, and so does half of it when the
// platform does not answer; nothing at all does not.
func (s *Service) learn(ctx context.Context, owner access.AccountID, d domain.Domain) (domain.Domain, error) {
	records := len(d.Service) == 0 && (d.Verified || len(d.Verification) == 0)
	signing := d.Verified && d.Signing.Selector1.Name == ""
	if !records && !signing {
		return d, nil
	}
	t, err := s.Tenants.Tenant(ctx, owner, d.TenantGUID)
	if err != nil {
		return d, err
	}
	asked, cancel := context.WithTimeout(ctx, planLimit)
	defer cancel()
	err = t.Reachable()
	if records && err == nil {
		err = s.learnRecords(asked, owner, &d)
	}
	if signing && err == nil && t.Bootstrap == tenant.BootstrapReady {
		d, err = s.learnSigning(asked, owner, t, d)
	}
	if len(d.Verification) == 0 && len(d.Service) == 0 {
		return d, err
	}
	return d, nil
}

func (s *Service) learnRecords(ctx context.Context, owner access.AccountID, d *domain.Domain) error {
	err := settling.Call(ctx, func(ctx context.Context) error {
		r, err := s.Platform.For(d.TenantGUID).Records(ctx, d.Name)
		if err == nil {
			d.Verification, d.Service = r.Verification, r.Service
		}
		return err
	})
	return s.noticed(ctx, owner, d.TenantGUID, err)
}
