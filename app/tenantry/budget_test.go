// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/breaker"
	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/adapters/limiter"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/wire"
)

// TestProviderBudgets: two replicas together ask of a tenant what the plugin's
// description allows, and no more. Nothing of what is refused has left, and it
// opens no circuit; other tenants go on.
func TestProviderBudgets(t *testing.T) {
	t.Parallel()
	counters, err := limiter.Open(t.Context(), limiter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = counters.Close() })
	describe := func(context.Context, string) (wire.Description, error) {
		return wire.Description{Budgets: []wire.Budget{
			{Key: "tenant", Limit: 20, Window: time.Minute}, {Key: "credential", Limit: 30, Window: time.Minute},
		}}, nil
	}
	const one, other = tenant.GUID("aaaaaaaa-0000-4000-8000-000000000001"), tenant.GUID("bbbbbbbb-0000-4000-8000-000000000002")
	platform := fake.New()
	platform.Connect(one, fake.Setup{})
	platform.Connect(other, fake.Setup{})
	spend := budgets{mailPlatform, describe, counters}.spend
	replicas := []*breaker.Platform{
		breaker.Mail(platform, breaker.Options{Budget: spend}), breaker.Mail(platform, breaker.Options{Budget: spend}),
	}
	ask := func(id tenant.GUID, n int) (passed int) {
		for i := range n {
			_, err := replicas[i%2].For(id).Profile(t.Context())
			var refused *outcome.Error
			switch {
			case err == nil:
				passed++
			case !errors.As(err, &refused) || refused.Kind != outcome.Throttled || refused.RetryAfter <= 0 || refused.RetryAfter > time.Minute:
				t.Fatalf("%v", err)
			}
		}
		return passed
	}
	if n := ask(one, 50); n != 20 {
		t.Errorf("%d calls of a tenant left, not 20", n)
	}
	if n := ask(other, 50); n != 10 {
		t.Errorf("%d calls of another tenant left, where 10 of the credential's 30 were left", n)
	}
	for _, p := range replicas {
		for _, c := range p.Circuits() {
			if c.State != breaker.Closed {
				t.Errorf("the circuit of %s is %s", c.Domain, c.State)
			}
		}
	}
	if _, err := replicas[0].ConsentURL(t.Context(), "state", "https://api.example"); err != nil {
		t.Errorf("what asks nobody is refused: %v", err)
	}
}

// TestTheTracesBudget: two replicas together ask for 100 pages of a tenant's
// trace in five minutes, whatever else they ask, and pages have no part in what
// others may.
func TestTheTracesBudget(t *testing.T) {
	t.Parallel()
	counters, err := limiter.Open(t.Context(), limiter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = counters.Close() })
	describe := func(context.Context, string) (wire.Description, error) {
		return wire.Description{Budgets: []wire.Budget{{Key: "tenant", Limit: 100, Window: 5 * time.Minute, Only: []string{breaker.OpSent}}}}, nil
	}
	const one, other = tenant.GUID("aaaaaaaa-0000-4000-8000-000000000001"), tenant.GUID("bbbbbbbb-0000-4000-8000-000000000002")
	platform := fake.New()
	spend := budgets{mailPlatform, describe, counters}.spend
	replicas := []*breaker.Platform{
		breaker.Mail(platform, breaker.Options{Budget: spend}), breaker.Mail(platform, breaker.Options{Budget: spend}),
	}
	for _, id := range []tenant.GUID{one, other} {
		platform.Connect(id, fake.Setup{})
		before := platform.Calls("Sent")
		for i := range 150 {
			at := replicas[i%2].For(id)
			if _, err := at.Profile(t.Context()); err != nil {
				t.Fatal(err)
			}
			_, err := at.Sent(t.Context(), sendlimit.TraceQuery{From: platform.Now().Add(-time.Hour), To: platform.Now(), Senders: []string{"ada@a.test"}})
			if (err == nil) != (i < 100) || err != nil && outcome.Of(err) != outcome.Throttled {
				t.Fatalf("page %d: %v", i, err)
			}
		}
		if n := platform.Calls("Sent") - before; n != 100 {
			t.Errorf("%d pages left", n)
		}
	}
}
