// SPDX-License-Identifier: Apache-2.0

package dnsruns

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/tenantry/tenantry/app/domains"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/ports"
)

const (
	// usualLease with the sweep's interval bounds how long a killed worker's job
	// stands still.
	usualLease = 30 * time.Second
	// stepLimit bounds one step: a read of the DNS, and what mail platform and
	// DNS provider are asked besides.
	stepLimit = 40 * time.Second
	// stepTime is what a step may well need. With less time left a job goes back
	// to the queue and comes again at once.
	stepTime = 15 * time.Second
	// storeLimit bounds the storing of what a step came to.
	storeLimit = 10 * time.Second
)

// Worker takes provisioning jobs from step to step.
type Worker struct {
	Jobs    ports.DNSJobs
	Domains *domains.Service
	Queue   ports.Queue
	// Timetable is how patient jobs are; provisioning.Usual for customers.
	Timetable provisioning.Timetable
	// Lease is how long a job is a worker's without a sign of it; 30 s unless set.
	Lease time.Duration
	Now   func() time.Time
	// Chance, from 0 to below 1, spreads pauses.
	Chance func() float64
	Log    *slog.Logger
	// Traced does a step under a span that is linked to the request which
	// caused the job.
	Traced func(ctx context.Context, j provisioning.Job, s provisioning.Step, do func(context.Context) error)
}

// Handle works on a job until it waits, ends, or is another worker's.
func (w *Worker) Handle(ctx context.Context, wakeup ports.Wakeup) error {
	j, won, err := w.Jobs.ClaimJob(ctx, wakeup.ID, w.lease(), w.now())
	if err != nil || !won {
		return err
	}
	ctx, c := w.hold(ctx, j)
	defer c.release()
	err = c.work(ctx)
	if c.lost.Load() {
		w.Log.InfoContext(ctx, "a provisioning job is another worker's now", "job", j.ID, "epoch", j.Epoch)
		return nil
	}
	return err
}

// Sweep wakes jobs that are due and that no wake-up covers.
func (w *Worker) Sweep(every time.Duration) ports.Periodic {
	return ports.Sweep("dns_sweep", every, w.Queue, w.due)
}

// sweepMost is how many jobs one sweep wakes. Accounts take turns among them.
const sweepMost = 1000

func (w *Worker) due(ctx context.Context) ([]ports.Wakeup, error) {
	jobs, err := w.Jobs.DueJobs(ctx, w.now(), sweepMost)
	all := make([]ports.Wakeup, 0, len(jobs))
	for _, j := range jobs {
		all = append(all, ports.Wakeup{Kind: Kind, ID: j.ID, Account: j.Account})
	}
	return all, err
}

func (w *Worker) lease() time.Duration { return cmp.Or(w.Lease, usualLease) }

// now is as exact as what is stored.
func (w *Worker) now() time.Time { return w.Now().UTC().Truncate(time.Microsecond) }
