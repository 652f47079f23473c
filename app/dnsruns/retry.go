// SPDX-License-Identifier: Apache-2.0

package dnsruns

import (
	"context"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// Retry queues a job that waits, or that a person has acted for, for another
// attempt at once.
//
// What is returned is the job as it was looked at, retried: the answer is
// committed with the change, so it must be known before.
func (s *Service) Retry(ctx context.Context, acc access.Account, jobID string) (provisioning.Job, error) {
	j, err := s.Runs.Job(ctx, acc.ID, jobID)
	if err != nil {
		return provisioning.Job{}, err
	}
	if err := s.entitled(ctx, acc); err != nil {
		return provisioning.Job{}, err
	}
	now := s.now()
	if j, err = provisioning.Retry(j, now); err != nil {
		return provisioning.Job{}, err
	}
	committing, err := ports.Complete(ctx, j)
	if err != nil {
		return provisioning.Job{}, err
	}
	if _, err := s.Runs.RetryJob(committing, acc.ID, j.ID, now); err != nil {
		return provisioning.Job{}, err
	}
	failpoint.Hit("dnsruns.after-retry")
	s.wake(ctx, j)
	return j, nil
}
