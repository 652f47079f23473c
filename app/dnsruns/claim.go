// SPDX-License-Identifier: Apache-2.0

package dnsruns

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/tenantry/tenantry/app/domains"
	"github.com/tenantry/tenantry/core/provisioning"
)

// errLost ends the work on a job that another worker has taken.
var errLost = errors.New("the job is another worker's")

// claim is a job that this worker holds.
type claim struct {
	*Worker
	job  provisioning.Job
	mine provisioning.Job // as claimed: its epoch is what counts
	// domains does nothing to the outside once the job is another worker's.
	domains *domains.Service
	lost    atomic.Bool
	cancel  context.CancelFunc
	renewed chan struct{} // closed when no more is renewed
}

// hold keeps the lease of a claimed job from ending, until release. The context
// ends when the job is lost, or may be.
func (w *Worker) hold(ctx context.Context, j provisioning.Job) (context.Context, *claim) {
	c := &claim{Worker: w, job: j, mine: j, renewed: make(chan struct{})}
	ctx, c.cancel = context.WithCancel(ctx)
	c.domains = c.fenced(w.Domains)
	go c.renew(ctx)
	return ctx, c
}

func (c *claim) release() {
	c.cancel()
	<-c.renewed
}

func (c *claim) lose() {
	c.lost.Store(true)
	c.cancel()
}

func (c *claim) renew(ctx context.Context) {
	defer close(c.renewed)
	tick := time.NewTicker(c.lease() / 3)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if c.check(ctx) == nil {
			last = time.Now()
		}
		if time.Since(last) > c.lease()*2/3 {
			c.cancel() // another worker may take the job from now on
			return
		}
	}
}

// check renews the lease. It is errLost when the job is another worker's.
func (c *claim) check(ctx context.Context) error {
	held, err := c.Jobs.HoldJob(ctx, c.mine, c.lease())
	if err == nil && !held {
		c.lose()
		return errLost
	}
	return err
}
