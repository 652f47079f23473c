// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
)

// BenchmarkSlowPlatform is the list read while fifty requests hang on a mail
// platform that does not answer: its 99th percentile.
func BenchmarkSlowPlatform(b *testing.B) {
	platform := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // until then nobody notices that the caller is gone
		<-r.Context().Done()
	}))
	defer platform.Close()
	w := newBench(b, testserver.Database(b))
	w.env = append(w.env, "TENANTRY_PROVIDERS_MICROSOFT365_LOGIN_URL="+platform.URL, "TENANTRY_DRAIN_TIME=1s", "TENANTRY_DRAIN_DELAY=0s")
	p, api := w.serve()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	began := make(chan struct{}, 64)
	for _, tenant := range w.tenants {
		for _, domain := range []string{"a.example", "b.example"} {
			go func() {
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, api+"/v1/tenants/"+tenant+"/domains", strings.NewReader(`{"domain":"`+domain+`"}`))
				if err != nil {
					panic(err)
				}
				r.Header = http.Header{"Authorization": {"Bearer " + w.key}, "Content-Type": {"application/json"}, "Idempotency-Key": {tenant + domain}}
				began <- struct{}{}
				if answer, err := http.DefaultClient.Do(r); err == nil {
					_ = answer.Body.Close()
				}
			}()
		}
	}
	for range 2 * len(w.tenants) {
		<-began
	}
	var took []time.Duration
	for b.Loop() {
		at := time.Now()
		w.get(api+"/v1/tenants", http.DefaultClient)
		took = append(took, time.Since(at))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms/p99")
	w.must(p.stop())
}
