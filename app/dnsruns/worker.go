// SPDX-License-Identifier: Apache-2.0

package dnsruns

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tenantry/tenantry/app/domainsteps"
	"github.com/tenantry/tenantry/app/lease"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/ports"
)

const (
	// leaseDuration is the longest time that a job stays claimed after its worker was killed. After
	// that, the next sweep queues the job again.
	leaseDuration = 30 * time.Second
	// stepTimeout is the timeout of one step, with its reads of the DNS and its calls to the mail
	// platform and the DNS provider.
	stepTimeout = 40 * time.Second
	// minStepTime is the time that a step usually needs. If less time is left until the deadline of
	// Handle's context, the worker releases the job and queues it. Any worker can then claim it.
	minStepTime = 15 * time.Second
	// storeTimeout is the timeout for storing the result of a step.
	storeTimeout = 10 * time.Second
)

// Worker executes provisioning jobs.
type Worker struct {
	Jobs    ports.DNSJobs
	Domains *domainsteps.Steps
	Queue   ports.Queue
	// Fence wraps providers so that each write first checks the lease of the job.
	Fence ports.Fence
	// RetryPolicy is provisioning.DefaultRetryPolicy in production.
	RetryPolicy provisioning.RetryPolicy
	Now         func() time.Time
	// Chance returns a random number in [0, 1), for the jitter of pauses.
	Chance func() float64
	Log    *slog.Logger
	// RunInSpan calls do in a trace span that is linked to the request that created the job.
	RunInSpan func(ctx context.Context, j provisioning.Job, s provisioning.Step, do func(context.Context) error)
}

// Handle claims a job and executes its steps. It stops when the job waits, requires an action or
// ends, when the lease is lost, or when the deadline of ctx is near. Handle returns nil if the job
// is not due or another worker has claimed it. Handle fails when the store or the queue fails.
func (w *Worker) Handle(ctx context.Context, wakeup ports.Wakeup) error {
	claimBegan := time.Now()
	j, won, err := w.Jobs.ClaimJob(ctx, wakeup.ID, leaseDuration, w.now())
	if err != nil || !won {
		return err
	}
	ctx, c := w.startClaim(ctx, j, claimBegan)
	defer c.stopRenewal()
	err = c.runJob(ctx)
	if c.lease.IsTaken() {
		w.Log.InfoContext(ctx, "the claim of a provisioning job was lost", "job", j.ID, "epoch", j.Epoch)
		return nil
	}
	return err
}

// Sweep returns the periodic job that queues due jobs, so that a job whose wake-up was lost is
// attempted too.
func (w *Worker) Sweep(every time.Duration) ports.Periodic {
	return ports.Sweep("dns_sweep", every, w.Queue, w.dueWakeups)
}

// maxSweepJobs is the maximum number of jobs that one sweep queues. Accounts get fair shares of
// these jobs.
const maxSweepJobs = 1000

func (w *Worker) dueWakeups(ctx context.Context) ([]ports.Wakeup, error) {
	jobs, err := w.Jobs.DueJobs(ctx, w.now(), maxSweepJobs)
	wakeups := make([]ports.Wakeup, 0, len(jobs))
	for _, j := range jobs {
		wakeups = append(wakeups, ports.Wakeup{Kind: Kind, ID: j.ID, Account: j.Account})
	}
	return wakeups, err
}

// now returns the time in the precision of the store.
func (w *Worker) now() time.Time { return w.Now().UTC().Truncate(time.Microsecond) }

func (c *claim) runJob(ctx context.Context) error {
	startedJob, step := c.RetryPolicy.BeginAttempt(c.job, c.now())
	if err := c.save(ctx, startedJob); err != nil {
		return err
	}
	for step != provisioning.Wait && step != provisioning.None {
		if nearDeadline(ctx) {
			return c.releaseJob(ctx)
		}
		observed := c.runStep(ctx, step)
		if c.lease.IsTaken() || ctx.Err() != nil && (observed.Err != nil || observed.WriteErr != nil) {
			return c.releaseJob(ctx) // the step was interrupted, so its error says nothing about the job
		}
		advanced, next := c.RetryPolicy.Advance(c.job, observed, provisioning.Moment{Now: c.now(), Chance: c.Chance()})
		if err := c.save(ctx, advanced); err != nil {
			return err
		}
		step = next
	}
	if step == provisioning.None {
		return nil
	}
	return c.wake(ctx, c.job.NextAttemptAt)
}

// runStep executes a step with a timeout. If the step panics, runStep stores an internal fault of
// the job and panics again. Advance fails a job with too many faults, so a job cannot panic
// forever.
func (c *claim) runStep(ctx context.Context, step provisioning.Step) (o provisioning.Observation) {
	defer func() {
		if p := recover(); p != nil {
			e := panics.ErrorOf(p)
			advanced, _ := c.RetryPolicy.Advance(c.job, provisioning.Observation{Err: e}, provisioning.Moment{Now: c.now(), Chance: c.Chance()})
			_ = c.save(ctx, advanced)
			panic(e)
		}
	}()
	c.RunInSpan(ctx, c.job, step, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, stepTimeout)
		defer cancel()
		o = c.observe(ctx, step)
		o.Err, o.WriteErr = timeoutAsUnknown(ctx, o.Err), timeoutAsUnknown(ctx, o.WriteErr)
		return errors.Join(o.Err, o.WriteErr)
	})
	if err := errors.Join(o.Err, o.WriteErr); isInternal(err) && ctx.Err() == nil {
		c.Log.WarnContext(ctx, "a step of a provisioning job failed with an internal error",
			"job", c.job.ID, "step", string(step), "faults", max(c.job.Faults, 1), "error", err)
	}
	return o
}

func isInternal(err error) bool {
	return err != nil && outcome.KindOf(err) == 0 && fault.ErrorOf(err).Code.Kind == fault.Internal
}

// timeoutAsUnknown turns an internal error of a step that timed out into an unknown outcome.
func timeoutAsUnknown(ctx context.Context, err error) error {
	if ctx.Err() != nil && isInternal(err) {
		return &outcome.Error{Kind: outcome.Unknown, Cause: "context", Detail: "the step ended before its answer"}
	}
	return err
}

func nearDeadline(ctx context.Context) bool {
	deadline, hasDeadline := ctx.Deadline()
	return ctx.Err() != nil || hasDeadline && time.Until(deadline) < minStepTime
}

// save stores the job's new state, even when the context has ended.
func (c *claim) save(ctx context.Context, j provisioning.Job) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	leaseHeld, err := c.Jobs.SaveJob(ctx, j)
	if err != nil {
		return err
	}
	if !leaseHeld {
		c.lease.MarkTaken()
		return lease.ErrLost
	}
	c.job = j
	return nil
}

// releaseJob releases the job in its stored state, for any worker to claim. If the worker is
// stopping, the interrupted attempt does not count as a fault.
func (c *claim) releaseJob(ctx context.Context) error {
	if c.lease.IsTaken() {
		return lease.ErrLost
	}
	if stopped := provisioning.CancelAttempt(c.job); stopped != c.job && isStopping(ctx) {
		if err := c.save(ctx, stopped); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	now := c.now()
	if leaseHeld, err := c.Jobs.ReleaseJob(ctx, c.job, now); err != nil || !leaseHeld {
		return err
	}
	return c.wake(ctx, now)
}

// isStopping reports whether the queue cancelled the attempt because the worker is stopping. An
// attempt can also end because its time is over or because its lease was not renewed.
func isStopping(ctx context.Context) bool {
	return errors.Is(ctx.Err(), context.Canceled) && !errors.Is(context.Cause(ctx), lease.ErrLost)
}

// wake queues the job for the time attemptAt. It converts this time from the service's clock to the
// machine's clock, because queues use that clock. The two clocks differ in the sandbox.
func (c *claim) wake(ctx context.Context, attemptAt time.Time) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	j := c.job
	return c.Queue.Wake(ctx, ports.Wakeup{Kind: Kind, ID: j.ID, Account: j.Account, At: time.Now().Add(attemptAt.Sub(c.now())), Trace: j.Trace})
}
