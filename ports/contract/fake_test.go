// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// fakeWorld is the fake as the suites see it. platform may be a wrapper that
// breaks a promise.
type fakeWorld struct {
	fake     *fake.Platform
	platform ports.MailPlatform
	reader   ports.DNSReader
	serial   atomic.Int64
}

func newFakeWorld() *fakeWorld {
	p := fake.New()
	return &fakeWorld{fake: p, platform: p, reader: p.DNS}
}

func (w *fakeWorld) Platform() ports.MailPlatform { return w.platform }

func (w *fakeWorld) Reader() ports.DNSReader { return w.reader }

func (w *fakeWorld) NewTenant(_ testing.TB, s Setup) Tenant {
	n := w.serial.Add(1)
	id := tenant.GUID(fmt.Sprintf("%08d-0000-4000-8000-000000000000", n))
	name := fmt.Sprintf("Tenant %d", n)
	w.fake.AddTenant(id, fake.Setup{
		Name: name, Dehydrated: s.Dehydrated, Denied: s.Denied, SMTPAuthRefused: s.SMTPAuthRefused,
		TracePage: s.TracePage, Licenses: s.Licenses,
		Lag: fake.Lag{
			AcceptedDomain: s.AcceptedDomainLag, Directory: s.MailboxLag, Submission: s.MailboxLag,
			Rule: s.RuleLag, Trace: s.TraceLag,
		},
	})
	at := fmt.Sprintf("@t%08d.onmicrosoft.com", n)
	return Tenant{GUID: id, Name: name, Admin: "admin" + at, Member: "member" + at, Guest: "guest" + at}
}

func (w *fakeWorld) Visit(t testing.TB, page, username string, accept bool) string {
	query, err := w.fake.Visit(page, username, accept)
	must(t, "visit", err)
	return query
}

func (w *fakeWorld) NewZone(testing.TB) string {
	zone := fmt.Sprintf("zone-%d.test", w.serial.Add(1))
	w.fake.DNS.Publish(zone)
	return zone
}

func (w *fakeWorld) Publish(_ testing.TB, zone string, records ...dns.Record) {
	w.fake.DNS.Publish(zone, records...)
}

func (w *fakeWorld) Advance(_ testing.TB, d time.Duration) { w.fake.Advance(d) }

func (w *fakeWorld) Now(testing.TB) time.Time { return w.fake.Now() }

func (w *fakeWorld) Send(_ testing.TB, id tenant.GUID, mailbox string, count int) {
	w.fake.Send(id, mailbox, count)
}

func (w *fakeWorld) SetRule(_ testing.TB, id tenant.GUID, r sendlimit.Rule) { w.fake.SetRule(id, r) }

func (w *fakeWorld) Rules(_ testing.TB, id tenant.GUID) map[string][]string {
	out := map[string][]string{}
	for _, r := range w.fake.Holds(id).Rules {
		out[r.Name] = r.Blocks()
	}
	return out
}

func (w *fakeWorld) Revoke(_ testing.TB, id tenant.GUID, what Grant) { w.fake.Revoke(id, string(what)) }

func (w *fakeWorld) Fail(_ testing.TB, id tenant.GUID, method string, how Failure) func() {
	kind := map[Failure]outcome.Kind{
		Throttles: outcome.Throttled, IsDown: outcome.Down, Breaks: outcome.Broken,
		LosesRequest: outcome.Unknown, LosesAnswer: outcome.Unknown,
	}
	return w.fake.Fail(fake.Fault{Tenant: id, Method: method, Kind: kind[how], AfterEffect: how == LosesAnswer})
}

func TestFakeKeepsTheContract(t *testing.T) {
	MailPlatform(t, func(testing.TB) World { return newFakeWorld() })
	DNSReader(t, func(testing.TB) DNSWorld { return newFakeWorld() })
}
