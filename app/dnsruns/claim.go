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

// errLeaseLost ends the work on a job that another worker has claimed.
var errLeaseLost = errors.New("the job is another worker's")

// claim is a job that this worker has leased.
type claim struct {
	*Worker
	job     provisioning.Job
	claimed provisioning.Job // as claimed; its epoch identifies the lease
	// domains is fenced: its writes fail once another worker has claimed the job.
	domains *domains.Service
	lost    atomic.Bool
	cancel  context.CancelFunc
	renewed chan struct{} // closed when renewLoop has returned
}

// startClaim renews the lease of a claimed job until release. The returned context ends when the
// lease is lost or may have expired.
func (w *Worker) startClaim(ctx context.Context, j provisioning.Job) (context.Context, *claim) {
	c := &claim{Worker: w, job: j, claimed: j, renewed: make(chan struct{})}
	ctx, c.cancel = context.WithCancel(ctx)
	c.domains = c.fenced(w.Domains)
	go c.renewLoop(ctx)
	return ctx, c
}

func (c *claim) release() {
	c.cancel()
	<-c.renewed
}

func (c *claim) markLost() {
	c.lost.Store(true)
	c.cancel()
}

func (c *claim) renewLoop(ctx context.Context) {
	defer close(c.renewed)
	tick := time.NewTicker(c.lease() / 3)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if c.renewLease(ctx) == nil {
			last = time.Now()
		}
		if time.Since(last) > c.lease()*2/3 {
			c.cancel() // the lease may expire before it can be renewed
			return
		}
	}
}

// renewLease renews the lease. It fails with errLeaseLost when another worker has claimed the job.
func (c *claim) renewLease(ctx context.Context) error {
	held, err := c.Jobs.HoldJob(ctx, c.claimed, c.lease())
	if err == nil && !held {
		c.markLost()
		return errLeaseLost
	}
	return err
}
