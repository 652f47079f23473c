// SPDX-License-Identifier: Apache-2.0

package provisioning

import (
	"slices"
	"time"

	"github.com/tenantry/tenantry/core/access"
)

// Run is one request to provision domains. The fields from Status on are derived from its jobs and
// not stored.
type Run struct {
	ID           string // UUIDv7
	Account      access.AccountID
	TotalDomains int
	CreatedAt    time.Time

	Status      Status
	StartedAt   time.Time // zero if it has not started
	CompletedAt time.Time // zero if some jobs have not ended
	UpdatedAt   time.Time // zero if no job has been updated
}

// With returns the run with the fields that are derived from its jobs.
func (r Run) With(jobs []Job) Run {
	r.Status = runStatus(jobs)
	r.StartedAt, r.CompletedAt, r.UpdatedAt = time.Time{}, time.Time{}, time.Time{}
	for _, j := range jobs {
		if !j.StartedAt.IsZero() && (r.StartedAt.IsZero() || j.StartedAt.Before(r.StartedAt)) {
			r.StartedAt = j.StartedAt
		}
		if j.UpdatedAt.After(r.CreatedAt) && j.UpdatedAt.After(r.UpdatedAt) {
			r.UpdatedAt = j.UpdatedAt
		}
		if !r.Status.Active() && j.EndedAt.After(r.CompletedAt) {
			r.CompletedAt = j.EndedAt
		}
	}
	return r
}

func runStatus(jobs []Job) Status {
	is := func(these ...Status) bool {
		return slices.ContainsFunc(jobs, func(j Job) bool { return slices.Contains(these, j.Status) })
	}
	started := slices.ContainsFunc(jobs, func(j Job) bool { return !j.StartedAt.IsZero() })
	switch {
	case is(Running):
		return Running
	case is(ActionRequired):
		return ActionRequired
	case is(Queued, Waiting) && started:
		return Running
	case is(Queued, Waiting):
		return Queued
	case is(Failed):
		return Failed
	default:
		return Completed
	}
}
