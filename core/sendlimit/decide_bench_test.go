// SPDX-License-Identifier: Apache-2.0

package sendlimit_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
)

func TestBenchmarks(t *testing.T) { testserver.Benchmarks(t, "Decide") }

// BenchmarkDecide evaluates tenants with 36 mailboxes in twelve domains on one core. Some mailboxes
// exceed their limit, and some are blocked.
func BenchmarkDecide(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	limits := sendlimit.Policies{sendlimit.TenantWide: 20}
	var mailboxes []sendlimit.MailboxState
	for n := range 36 {
		domainName := fmt.Sprintf("domain-%d.test", n/3)
		mailbox := sendlimit.MailboxState{ID: fmt.Sprint(n), Address: fmt.Sprint("box-", n, "@", domainName), Domain: domainName, Counted: true, Sent: n % 22}
		if n%3 == 0 {
			limits[domainName] = 15
		}
		if n%9 == 0 {
			mailbox.BlockedAt = noon.Add(-time.Hour)
		}
		mailboxes = append(mailboxes, mailbox)
	}
	tenants, changes := 0, 0
	for b.Loop() {
		id := tenant.GUID(fmt.Sprint(tenants))
		changes += len(sendlimit.Decide(id, limits, mailboxes, today, noon).Changes)
		if next := sendlimit.NextEvaluation(id, limits, mailboxes, today, noon); !next.After(noon) {
			b.Fatal("the next evaluation is not later")
		}
		tenants++
	}
	if changes == 0 {
		b.Fatal("nothing was decided")
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(tenants*len(mailboxes))*1e6, "s/million")
	b.ReportMetric(0, "ns/op")
}
