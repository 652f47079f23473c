// SPDX-License-Identifier: Apache-2.0

package dnsruns

import (
	"context"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/ports"
)

// List returns an account's runs, newest first.
func (s *Service) List(ctx context.Context, owner access.AccountID, q ports.RunQuery) ([]provisioning.Run, error) {
	return s.Runs.Runs(ctx, owner, q)
}

// Get returns a run and its jobs.
func (s *Service) Get(ctx context.Context, owner access.AccountID, id string) (provisioning.Run, []provisioning.Job, error) {
	return s.Runs.Run(ctx, owner, id)
}
