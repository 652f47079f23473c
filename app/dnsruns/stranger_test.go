// SPDX-License-Identifier: Apache-2.0

package dnsruns

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// The test's binary is also another process that works on a job, for as long as
// it is let.
const (
	strangerPoint    = "TENANTRY_TEST_STRANGER" // where it waits
	strangerDatabase = "TENANTRY_TEST_STRANGER_DATABASE"
	strangerJob      = "TENANTRY_TEST_STRANGER_JOB"
	strangerLease    = "TENANTRY_TEST_STRANGER_LEASE"
)

// The points at which a stranger waits, right before its first write.
const (
	beforeCheck = "before it asks for its lease"
	afterCheck  = "after it got its lease"
	beforeSave  = "before it saves what the write came to"
)

// told writes a line that the test reads, and waits for one from it.
type told struct {
	once  sync.Once
	lines *bufio.Reader
}

func (w *told) here() {
	w.once.Do(func() {
		fmt.Println("here")
		_, _ = w.lines.ReadString('\n')
	})
}

// pausedJobs waits around what is asked for a write.
type pausedJobs struct {
	ports.DNSJobs
	point string
	wait  *told
}

// HoldJob tells a write by its context: one step's, which has a deadline.
func (p pausedJobs) HoldJob(ctx context.Context, j provisioning.Job, lease time.Duration) (bool, error) {
	_, step := ctx.Deadline()
	if step && p.point == beforeCheck {
		p.wait.here()
	}
	held, err := p.DNSJobs.HoldJob(ctx, j, lease)
	if step && p.point == afterCheck {
		p.wait.here()
	}
	return held, err
}

// SaveJob waits once the step's write is done.
func (p pausedJobs) SaveJob(ctx context.Context, j provisioning.Job) (bool, error) {
	if p.point == beforeSave && j.Next != provisioning.Verify {
		p.wait.here()
	}
	return p.DNSJobs.SaveJob(ctx, j)
}

// tattling is a platform that says when it verifies.
type tattling struct{ ports.MailPlatform }

func (p tattling) For(id tenant.GUID) ports.MailTenant {
	return tattlingTenant{p.MailPlatform.For(id)}
}

type tattlingTenant struct{ ports.MailTenant }

func (t tattlingTenant) VerifyDomain(ctx context.Context, name string) (domain.Platform, error) {
	fmt.Println("wrote")
	return t.MailTenant.VerifyDomain(ctx, name)
}

// stranger works on a job in a world of its own; the database is the test's.
func stranger(point string) {
	ctx := context.Background()
	lease, err := time.ParseDuration(os.Getenv(strangerLease))
	check(err)
	w := &world{fake: fake.New(), providers: &fake.DNSProviders{}, wakeups: &wakeups{}, clock: worldBegan}
	w.store, err = bunstore.Open(ctx, os.Getenv(strangerDatabase), bunstore.Options{})
	check(err)
	w.fake.Connect(theTenant, fake.Setup{})
	w.fake.DNS.Publish(zone)
	_, err = w.fake.For(theTenant).AddDomain(ctx, zone)
	check(err)
	records, err := w.fake.For(theTenant).Records(ctx, zone)
	check(err)
	w.fake.DNS.Publish(zone, records.Verification...)
	jobs := pausedJobs{w.store, point, &told{lines: bufio.NewReader(os.Stdin)}}
	worker := w.worker(reality{tattling{w.fake}, w.store, jobs, w.providers})
	worker.Lease = lease
	err = worker.Handle(ctx, ports.Wakeup{Kind: Kind, ID: os.Getenv(strangerJob)})
	fmt.Println("ended", err)
	check(w.store.Close())
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
