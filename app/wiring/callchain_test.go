// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/breaker"
	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

// TestReplicasShareProviderBudgets checks that two replicas share the budgets that a plugin
// describes. A throttled call opens no circuit, and does not count against the budget of the
// credential. A call that makes no request is not throttled.
func TestReplicasShareProviderBudgets(t *testing.T) {
	t.Parallel()
	_, counters := newFingerprinterAndLimiter(t)
	describe := func(context.Context, string) (wire.Description, error) {
		return wire.Description{Budgets: []wire.Budget{
			{Key: "tenant", Limit: 20, Window: time.Minute}, {Key: "credential", Limit: 30, Window: time.Minute},
		}}, nil
	}
	const firstTenant, otherTenant = tenant.GUID("aaaaaaaa-0000-4000-8000-000000000001"), tenant.GUID("bbbbbbbb-0000-4000-8000-000000000002")
	platform := fake.New()
	platform.Connect(firstTenant, fake.Setup{})
	platform.Connect(otherTenant, fake.Setup{})
	spend := budgets{"microsoft365", describe, counters}.spend
	circuits := []*breaker.Breaker{breaker.New(breaker.Options{Budget: spend}), breaker.New(breaker.Options{Budget: spend})}
	replicas := []ports.MailPlatform{
		wire.MailInProcess(platform, circuits[0].Interceptor(breaker.ByTenant)), wire.MailInProcess(platform, circuits[1].Interceptor(breaker.ByTenant)),
	}
	countAllowed := func(id tenant.GUID, calls int) (allowed int) {
		for i := range calls {
			_, err := replicas[i%2].For(id).Profile(t.Context())
			var throttled *outcome.Error
			switch {
			case err == nil:
				allowed++
			case !errors.As(err, &throttled) || throttled.Kind != outcome.Throttled || throttled.RetryAfter <= 0 || throttled.RetryAfter > time.Minute:
				t.Fatalf("%v, want a throttled call with a time to retry of at most a minute", err)
			}
		}
		return allowed
	}
	if n := countAllowed(firstTenant, 50); n != 20 {
		t.Errorf("%d calls of a tenant were allowed, want 20", n)
	}
	if n := countAllowed(otherTenant, 50); n != 10 {
		t.Errorf("%d calls of the other tenant were allowed, want the remaining 10 of the credential's 30", n)
	}
	for _, circuitsOfReplica := range circuits {
		for _, circuit := range circuitsOfReplica.Circuits() {
			if circuit.State != breaker.Closed {
				t.Errorf("the circuit of %s is %s, want it closed", circuit.Domain, circuit.State)
			}
		}
	}
	if _, err := replicas[0].ConsentURL(t.Context(), "state", "https://api.example"); err != nil {
		t.Errorf("a call that makes no request is throttled: %v", err)
	}
}

// TestInvalidSettingMakesTheMailPlatformUnavailable checks that callers get service_unavailable if
// the plugin of the mail platform finds a setting of the operator invalid. Callers get other
// refusals unchanged.
func TestInvalidSettingMakesTheMailPlatformUnavailable(t *testing.T) {
	t.Parallel()
	platform := fake.New()
	chain, err := newCallChain(settings.Config{}, "acme", func(context.Context, string) (wire.Description, error) { return wire.Description{}, nil }, nil, slog.New(slog.DiscardHandler))
	must(t, err)
	tenantClient := wire.MailInProcess(platform, chain.mailInterceptors()...).For("aaaaaaaa-0000-4000-8000-000000000001")
	for cause, want := range map[string]fault.Code{outcome.CauseSetting + "api_url": fault.ServiceUnavailable, "not_served": fault.InvalidRequest} {
		endFault := platform.Fail(fake.Fault{Kind: outcome.Refused, Code: fault.InvalidRequest, Cause: cause})
		_, err := tenantClient.Profile(t.Context())
		endFault()
		if got := fault.ErrorOf(err); got.Code != want || (got.RetryAfter > 0) != (want == fault.ServiceUnavailable) || !outcome.ChangedNothing(err) {
			t.Errorf("%s: %v, want %s, and a time to retry only for service_unavailable", cause, err, want.Name)
		}
	}
}

// TestBudgetCountsOnlyItsOperations checks a budget for one operation, the read of a page of the
// message trace. Two replicas share 100 pages per tenant in five minutes. Calls of other operations
// do not count.
func TestBudgetCountsOnlyItsOperations(t *testing.T) {
	t.Parallel()
	_, counters := newFingerprinterAndLimiter(t)
	describe := func(context.Context, string) (wire.Description, error) {
		return wire.Description{Budgets: []wire.Budget{{Key: "tenant", Limit: 100, Window: 5 * time.Minute, Only: []string{"sent"}}}}, nil
	}
	const firstTenant, otherTenant = tenant.GUID("aaaaaaaa-0000-4000-8000-000000000001"), tenant.GUID("bbbbbbbb-0000-4000-8000-000000000002")
	platform := fake.New()
	spend := budgets{"microsoft365", describe, counters}.spend
	var replicas []ports.MailPlatform
	for range 2 {
		replicas = append(replicas, wire.MailInProcess(platform, breaker.New(breaker.Options{Budget: spend}).Interceptor(breaker.ByTenant)))
	}
	for _, id := range []tenant.GUID{firstTenant, otherTenant} {
		platform.Connect(id, fake.Setup{})
		callsBefore := platform.Calls("Sent")
		for i := range 150 {
			connected := replicas[i%2].For(id)
			if _, err := connected.Profile(t.Context()); err != nil {
				t.Fatal(err)
			}
			_, err := connected.Sent(t.Context(), sendlimit.TraceQuery{From: platform.Now().Add(-time.Hour), To: platform.Now(), Senders: []string{"ada@a.test"}})
			if (err == nil) != (i < 100) || err != nil && outcome.KindOf(err) != outcome.Throttled {
				t.Fatalf("page %d: got %v, want 100 pages and then throttled calls", i, err)
			}
		}
		if n := platform.Calls("Sent") - callsBefore; n != 100 {
			t.Errorf("%d pages were requested, want 100", n)
		}
	}
}
