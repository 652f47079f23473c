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
	"github.com/tenantry/tenantry/app/apptest"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// Environment variables that make the test binary run as a second process.
const (
	pausePointEnv = "TENANTRY_TEST_SECOND_PROCESS_POINT" // the point at which the process waits
	databaseEnv   = "TENANTRY_TEST_SECOND_PROCESS_DATABASE"
	jobEnv        = "TENANTRY_TEST_SECOND_PROCESS_JOB"
)

// The points at which a second process waits, around its first write.
const (
	beforeCheck = "before it checks its lease"
	afterCheck  = "after it checked its lease"
	beforeSave  = "before it saves the result of the write"
)

// pausePoint pauses the second process once.
type pausePoint struct {
	once  sync.Once
	lines *bufio.Reader
}

// pause prints a line and waits for a line from the test. Further calls do nothing.
func (p *pausePoint) pause() {
	p.once.Do(func() {
		fmt.Println("here")
		_, _ = p.lines.ReadString('\n')
	})
}

// pausedJobs is a store of jobs that waits at one of the points around a write.
type pausedJobs struct {
	ports.DNSJobs
	point string
	wait  *pausePoint
}

// inStep is the key of a context value that the calls of a step have.
type inStep struct{}

// RenewJobLease waits in the first renewal of a step, which is the lease check before the write.
// The periodic renewals in the background do not wait.
func (p pausedJobs) RenewJobLease(ctx context.Context, j provisioning.Job, lease time.Duration) (bool, error) {
	isCheck := ctx.Value(inStep{}) != nil
	if isCheck && p.point == beforeCheck {
		p.wait.pause()
	}
	held, err := p.DNSJobs.RenewJobLease(ctx, j, lease)
	if isCheck && p.point == afterCheck {
		p.wait.pause()
	}
	return held, err
}

// SaveJob waits before it saves the result of the write. The timeout of the save does not count the
// wait, so that only the store can refuse the save.
func (p pausedJobs) SaveJob(ctx context.Context, j provisioning.Job) (bool, error) {
	if p.point == beforeSave && j.Next != provisioning.Verify {
		p.wait.pause()
	}
	return p.DNSJobs.SaveJob(context.WithoutCancel(ctx), j)
}

// announcingPlatform prints a line when it verifies a domain.
type announcingPlatform struct{ ports.MailPlatform }

func (p announcingPlatform) For(id tenant.GUID) ports.MailTenant {
	return announcingTenant{p.MailPlatform.For(id)}
}

type announcingTenant struct{ ports.MailTenant }

func (t announcingTenant) VerifyDomain(ctx context.Context, name string) (domain.Platform, error) {
	fmt.Println("wrote")
	return t.MailTenant.VerifyDomain(ctx, name)
}

// runSecondProcess works on a job with its own fake platform and the database of the test.
func runSecondProcess(point string) {
	ctx := context.Background()
	fx := &fixture{fake: fake.New(), providers: &fake.DNSProviders{}, wakeups: &fake.Wakeups{}, clock: fixtureStart}
	var err error
	fx.store, err = bunstore.Open(ctx, os.Getenv(databaseEnv), apptest.StoreOptions())
	panicOn(err)
	fx.fake.Connect(tenantGUID, fake.Setup{})
	fx.fake.DNS.Publish(zone)
	_, err = fx.fake.For(tenantGUID).AddDomain(ctx, zone)
	panicOn(err)
	records, err := fx.fake.For(tenantGUID).Records(ctx, zone)
	panicOn(err)
	fx.fake.DNS.Publish(zone, records.Verification...)
	jobs := pausedJobs{fx.store, point, &pausePoint{lines: bufio.NewReader(os.Stdin)}}
	worker := fx.worker(dependencies{announcingPlatform{fx.fake}, fx.store, jobs, fx.providers})
	worker.RunInSpan = func(ctx context.Context, _ provisioning.Job, _ provisioning.Step, do func(context.Context) error) {
		_ = do(context.WithValue(ctx, inStep{}, true))
	}
	err = worker.Handle(ctx, ports.Wakeup{Kind: Kind, ID: os.Getenv(jobEnv)})
	fmt.Println("ended", err)
	panicOn(fx.store.Close())
}

func panicOn(err error) {
	if err != nil {
		panic(err)
	}
}
