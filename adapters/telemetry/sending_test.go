// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

// TestEverySendingOperationIsMeasured walks the port, as for the mail platform.
func TestEverySendingOperationIsMeasured(t *testing.T) {
	spans := spansOf(t, func() {
		s, err := NewSending(CallOptions{Provider: "p", Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		callAll(s.Measure(fake.NewSendingPlatform()))
	})
	operations := map[string]bool{}
	for _, s := range spans {
		operations[s.Name] = true
	}
	want := reflect.TypeFor[ports.SendingPlatform]().NumMethod()
	if len(spans) != want || len(operations) != want || !operations["p start_sign_in"] || !operations["p sign_in"] {
		t.Errorf("%d spans of %v, want %d", len(spans), operations, want)
	}
}

// TestMailboxesAtPlatformsAreCustomerData: an address is in spans where that is
// allowed, and nowhere else; a link and a cursor are in none.
func TestMailboxesAtPlatformsAreCustomerData(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		var log strings.Builder
		spans := spansOf(t, func() {
			s, err := NewSending(CallOptions{Provider: "p", Log: Logger(&log, slog.LevelDebug), CustomerData: allowed})
			if err != nil {
				t.Fatal(err)
			}
			platform := fake.NewSendingPlatform()
			platform.Put(integration.Account{Address: "anna@customer.test", ID: "anna@customer.test"})
			p := s.Measure(platform)
			_, _ = p.StartSignIn(t.Context(), "anna@customer.test")
			_, _ = p.Accounts(t.Context(), "anna@customer.test")
			lift := platform.Fail(fake.Fault{Kind: outcome.Unknown})
			_, _ = p.Account(t.Context(), "anna@customer.test")
			if err := p.Remove(t.Context(), "anna@customer.test"); err == nil {
				t.Error("the answer was to be lost")
			}
			lift()
		})
		want := map[bool]int{true: 3, false: 0}[allowed]
		if named := strings.Count(fmt.Sprint(spans), "anna@customer.test"); named != want || len(spans) != 4 {
			t.Errorf("allowed %v: the address is %d times in %d spans", allowed, named, len(spans))
		}
		if all := fmt.Sprint(spans, log.String()); strings.Contains(all, "microsoftonline") || strings.Contains(log.String(), "customer.test") {
			t.Error("a link, or in the log an address")
		}
		if !strings.Contains(log.String(), `"operation":"remove"`) || !strings.Contains(log.String(), `"operation":"account"`) {
			t.Errorf("the log: %s", log.String())
		}
	}
}
