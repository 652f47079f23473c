// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"math/rand/v2"
	"time"

	"github.com/tenantry/tenantry/adapters/telemetry"
	"github.com/tenantry/tenantry/app/dnsruns"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/provisioning"
)

// jobSweepEvery is how often jobs are looked for that are due and that nobody
// was woken for. With a worker's lease it is less than the 90 s in which the
// jobs of a killed worker go on.
const jobSweepEvery = 30 * time.Second

// The sandbox's world answers within seconds, and its clock can be moved.
const sandboxSweepEvery = time.Second

var sandboxPatience = func() provisioning.Timetable {
	t := provisioning.Usual
	t.First, t.Longest, t.Between = time.Second, 15*time.Second, time.Second
	return t
}()

// dnsJobs makes the worker of provisioning jobs.
func (s *service) dnsJobs(c settings.Config, o outside) {
	spans := telemetry.Jobs{CustomerData: c.TraceCustomerData}
	s.jobSweep = cmp.Or(o.jobSweep, jobSweepEvery)
	s.jobs = &dnsruns.Worker{
		Jobs: s.store, Domains: s.domains, Queue: s.queue, Timetable: cmp.Or(o.patience, provisioning.Usual),
		Now: o.now, Chance: rand.Float64, Log: s.log, Traced: spans.Step,
	}
}
