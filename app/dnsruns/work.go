// SPDX-License-Identifier: Apache-2.0

package dnsruns

import (
	"context"
	"errors"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// work takes a claimed job as far as it goes now.
func (c *claim) work(ctx context.Context) error {
	begun, step := provisioning.Begin(c.job, c.now())
	if err := c.save(ctx, begun); err != nil {
		return err
	}
	for step != provisioning.Wait && step != provisioning.None {
		if pressed(ctx) {
			return c.handBack(ctx)
		}
		o := c.do(ctx, step)
		if c.lost.Load() || ctx.Err() != nil && (o.Err != nil || o.WriteErr != nil) {
			return c.handBack(ctx) // cut off: that says nothing of the step
		}
		decided, next := c.Timetable.Advance(c.job, o, provisioning.Moment{Now: c.now(), Chance: c.Chance()})
		failpoint.Hit("dnsruns.before-save")
		if err := c.save(ctx, decided); err != nil {
			return err
		}
		failpoint.Hit("dnsruns.after-save")
		step = next
	}
	if step == provisioning.None {
		return nil
	}
	return c.wake(ctx, c.job.NextAttemptAt)
}

// do does a step in its time. A panic counts as a fault of ours before it goes
// on its way: a job must not come back to it for ever.
func (c *claim) do(ctx context.Context, step provisioning.Step) (o provisioning.Observation) {
	defer func() {
		if p := recover(); p != nil {
			o = provisioning.Observation{Err: errPanic}
			decided, _ := c.Timetable.Advance(c.job, o, provisioning.Moment{Now: c.now(), Chance: c.Chance()})
			_ = c.save(ctx, decided)
			panic(p)
		}
	}()
	c.Traced(ctx, c.job, step, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, stepLimit)
		defer cancel()
		o = c.observe(ctx, step)
		o.Err, o.WriteErr = timed(ctx, o.Err), timed(ctx, o.WriteErr)
		return errors.Join(o.Err, o.WriteErr)
	})
	if err := errors.Join(o.Err, o.WriteErr); ours(err) && ctx.Err() == nil {
		c.Log.WarnContext(ctx, "a step of a provisioning job failed for a fault on our side",
			"job", c.job.ID, "step", string(step), "faults", c.job.Faults+1, "error", err)
	}
	return o
}

var errPanic = errors.New("panic")

func ours(err error) bool {
	return err != nil && outcome.Of(err) == 0 && fault.Of(err).Code.Kind == fault.Internal
}

// timed takes a step that its time ended for one without an answer.
func timed(ctx context.Context, err error) error {
	if ctx.Err() != nil && ours(err) {
		return &outcome.Error{Kind: outcome.Unknown, Cause: "context", Detail: "the step ended before its answer"}
	}
	return err
}

// pressed reports whether too little time is left for another step.
func pressed(ctx context.Context) bool {
	until, bound := ctx.Deadline()
	return ctx.Err() != nil || bound && time.Until(until) < stepTime
}

// save stores what was decided, also when the time for steps is up.
func (c *claim) save(ctx context.Context, j provisioning.Job) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeLimit)
	defer cancel()
	held, err := c.Jobs.SaveJob(ctx, j)
	if err != nil {
		return err
	}
	if !held {
		c.lose()
		return errLost
	}
	c.job = j
	return nil
}

// handBack leaves the job as it is stored to whoever is free.
func (c *claim) handBack(ctx context.Context) error {
	if c.lost.Load() {
		return errLost
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeLimit)
	defer cancel()
	now := c.now()
	if held, err := c.Jobs.ReleaseJob(ctx, c.job, now); err != nil || !held {
		return err
	}
	return c.wake(ctx, now)
}

// wake asks for the job at a time of our clock, which in the sandbox is not the
// queue's.
func (c *claim) wake(ctx context.Context, at time.Time) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeLimit)
	defer cancel()
	j := c.job
	return c.Queue.Wake(ctx, ports.Wakeup{Kind: Kind, ID: j.ID, Account: j.Account, At: time.Now().Add(at.Sub(c.now())), Trace: j.Trace})
}
