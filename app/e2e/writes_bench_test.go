// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// BenchmarkWrites is a write that changes one row, with its Idempotency-Key,
// and as many bare commits from a handler without anything around it.
func BenchmarkWrites(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) { writes(b, newBench(b, embedded(b))) })
	b.Run("postgres", func(b *testing.B) { writes(b, newBench(b, testserver.Database(b))) })
}

func writes(b *testing.B, w *bench) {
	paths := w.mailboxes()
	b.Run("tenantry", func(b *testing.B) {
		p, api := w.serve()
		w.patch(b, api, paths)
		w.must(p.stop())
	})
	b.Run("bare", func(b *testing.B) {
		_, api := w.bare(b)
		w.patch(b, api, paths)
	})
}

// mailboxes gives each tenant a mailbox and returns their paths.
func (w *bench) mailboxes() (paths []string) {
	w.b.Helper()
	ctx := w.b.Context()
	store, err := bunstore.Open(ctx, w.database, bunstore.Options{})
	w.must(err)
	defer func() { w.must(store.Close()) }()
	accounts, err := store.Accounts(ctx)
	w.must(err)
	for i, id := range w.tenants {
		address := fmt.Sprintf("ana@example-%d.test", i)
		w.must(store.SaveDiscovery(ctx, accounts[0].ID, tenant.GUID(id), ports.Found{Began: time.Now(), Mailboxes: []mailbox.Platform{
			{ObjectID: address, DisplayName: "Ana", Address: address, PrincipalName: address, AccountEnabled: true, CreatedAt: time.Now()},
		}}))
		held, err := store.Mailboxes(ctx, accounts[0].ID, tenant.GUID(id))
		w.must(err)
		paths = append(paths, "/v1/tenants/"+id+"/mailboxes/"+held[0].ID)
	}
	return paths
}

// patch makes as many changes at once as keep a small server busy.
func (w *bench) patch(b *testing.B, api string, paths []string) {
	b.Helper()
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer c.CloseIdleConnections()
	var made atomic.Int64
	change := func() {
		w.change(c, api+paths[int(made.Add(1))%len(paths)])
	}
	for range 100 {
		change()
	}
	b.SetParallelism(8)
	b.ResetTimer()
	b.RunParallel(func(next *testing.PB) {
		for next.Next() {
			change()
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "write/s")
}

func (w *bench) change(c *http.Client, url string) {
	r, err := http.NewRequest(http.MethodPatch, url, strings.NewReader(`{"daily_send_limit":5}`))
	if err != nil {
		panic(err)
	}
	r.Header = http.Header{"Authorization": {"Bearer " + w.key}, "Content-Type": {"application/json"}, "Idempotency-Key": {rand.Text()}}
	answer, err := c.Do(r)
	if err != nil {
		panic(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if body, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		panic(fmt.Sprint(url, ": ", answer.Status, " ", string(body), " ", err))
	}
}
