// SPDX-License-Identifier: Apache-2.0

// Package dnsruns provisions domains: callers begin runs, look at them and
// retry their jobs; a worker takes the jobs from step to step.
package dnsruns

import (
	"context"
	"io"
	"time"

	"github.com/tenantry/tenantry/app/domains"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/ports"
)

// Kind names provisioning jobs to the queue.
const Kind = "dns_job"

// Surveyor reads a domain's DNS live and plans what it needs.
type Surveyor interface {
	Survey(ctx context.Context, owner access.AccountID, domainID string) (domains.Survey, error)
}

// Service holds the use cases of callers.
type Service struct {
	Tenants ports.Tenants
	Domains ports.Domains
	Runs    ports.DNSRuns
	Survey  Surveyor
	Queue   ports.Queue
	Random  io.Reader
	Now     func() time.Time
	// Trace returns the traceparent of a request, "" when it has none.
	Trace func(ctx context.Context) string
}

// now is as exact as what is stored, so that an answer and a later look agree.
func (s *Service) now() time.Time { return s.Now().UTC().Truncate(time.Microsecond) }
