// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/ports"
)

// TestEveryDNSOperationIsMeasured walks the port, as for the mail platform.
func TestEveryDNSOperationIsMeasured(t *testing.T) {
	spans := spansOf(t, func() {
		d, err := NewDNS(CallOptions{Provider: "p", Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		callAll(d.Measure(&fake.DNSProvider{}))
	})
	operations := map[string]bool{}
	for _, s := range spans {
		operations[s.Name] = true
	}
	want := reflect.TypeFor[ports.DNSProvider]().NumMethod()
	if len(spans) != want || len(operations) != want || !operations["p apply"] {
		t.Errorf("%d spans of %v, want %d", len(spans), operations, want)
	}
}

// TestZonesAreCustomerData: a zone's name is in spans where that is allowed,
// and nowhere else.
func TestZonesAreCustomerData(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		var log strings.Builder
		spans := spansOf(t, func() {
			d, err := NewDNS(CallOptions{Provider: "p", Log: Logger(&log, slog.LevelDebug), CustomerData: allowed})
			if err != nil {
				t.Fatal(err)
			}
			provider := &fake.DNSProvider{}
			provider.AddZone("customer.test")
			provider.Lose(true)
			p, zone := d.Measure(provider), dns.Zone{ID: "customer.test", Name: "customer.test"}
			_, _ = p.Zone(t.Context(), zone.Name)
			_, _ = p.Records(t.Context(), zone)
			if _, err := p.Apply(t.Context(), zone, nil); err == nil {
				t.Error("the answer was to be lost")
			}
		})
		if named := strings.Count(fmt.Sprint(spans), "customer.test"); (named == len(spans)) != allowed || (named == 0) == allowed || len(spans) != 3 {
			t.Errorf("allowed %v: %d of %d spans name the zone", allowed, named, len(spans))
		}
		if !strings.Contains(log.String(), `"operation":"apply"`) || strings.Contains(log.String(), "customer.test") {
			t.Errorf("the log: %s", log.String())
		}
	}
}
