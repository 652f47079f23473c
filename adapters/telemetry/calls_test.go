// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/wire"
)

func spansOf(t *testing.T, run func()) tracetest.SpanStubs {
	t.Helper()
	before := otel.GetTracerProvider()
	defer otel.SetTracerProvider(before)
	exporter := tracetest.NewInMemoryExporter()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)))
	run()
	return exporter.GetSpans()
}

// callInterceptor returns the interceptor that NewCallInterceptor creates for a provider named "p".
func callInterceptor(t *testing.T, options CallOptions) wire.Interceptor {
	t.Helper()
	options.Provider = "p"
	measure, err := NewCallInterceptor(options)
	if err != nil {
		t.Fatal(err)
	}
	return measure
}

// TestEachMethodIsAnOperation checks that each method of the provider ports creates a span with its
// own operation.
func TestEachMethodIsAnOperation(t *testing.T) {
	for port, call := range map[string]func(wire.Interceptor) int{
		"mail platform": func(measure wire.Interceptor) int {
			platform := wire.MailInProcess(fake.New(), measure)
			return callAll(platform, "For") + callAll(platform.For("unknown-tenant"))
		},
		"DNS provider": func(measure wire.Interceptor) int { return callAll(wire.DNSInProcess(&fake.DNSProvider{}, measure)) },
		"sending platform": func(measure wire.Interceptor) int {
			return callAll(wire.SendingInProcess(fake.NewSendingPlatform(), measure))
		},
	} {
		methods := 0
		spans := spansOf(t, func() { methods = call(callInterceptor(t, CallOptions{Log: slog.New(slog.DiscardHandler)})) })
		operations := map[string]bool{}
		for _, s := range spans {
			operations[s.Name] = true
		}
		if methods < 4 || len(spans) != methods || len(operations) != methods {
			t.Errorf("%s: %d spans of %d operations, want %d", port, len(spans), len(operations), methods)
		}
	}
}

// callAll calls every method of port that is not in except, with zero values. It returns the number
// of calls.
func callAll(port any, except ...string) (calls int) {
	v := reflect.ValueOf(port)
	for i := range v.NumMethod() {
		if slices.Contains(except, v.Type().Method(i).Name) {
			continue
		}
		method := v.Method(i)
		arguments := []reflect.Value{reflect.ValueOf(context.Background())}
		for n := 1; n < method.Type().NumIn(); n++ {
			arguments = append(arguments, reflect.Zero(method.Type().In(n)))
		}
		method.Call(arguments)
		calls++
	}
	return calls
}

func TestOutcomeOfACallIsRecorded(t *testing.T) {
	for _, tc := range []struct {
		name          string
		err           error
		result, level string
		failed        bool
	}{
		{"an answer", nil, "done", "", false},
		{"a refusal", &outcome.Error{Kind: outcome.Refused}, "refused", "", false},
		{"not ready", &outcome.Error{Kind: outcome.NotReady}, "not_ready", "", false},
		{"throttled", &outcome.Error{Kind: outcome.Throttled, Cause: "http_429"}, "throttled", "INFO", true},
		{"down", &outcome.Error{Kind: outcome.Down, Cause: "circuit_open"}, "down", "WARN", true},
		{"unknown", &outcome.Error{Kind: outcome.Unknown, Cause: "deadline"}, "unknown", "WARN", true},
		{"the caller cancelled the call", context.Canceled, "cancelled", "", false},
		{"the caller cancelled a call of a plugin", fmt.Errorf("%w: %w", &outcome.Error{Kind: outcome.Unknown, Cause: "caller_gone"}, context.Canceled), "cancelled", "", false},
		{"an error of tenantry", errors.New("a missing setting"), "failed", "WARN", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var log bytes.Buffer
			spans := spansOf(t, func() {
				answerWithErr := func(context.Context, wire.Call, func(context.Context) error) error { return tc.err }
				p := wire.MailInProcess(fake.New(), callInterceptor(t, CallOptions{Log: NewLogger(&log, slog.LevelDebug)}), answerWithErr)
				if got := p.Check(t.Context()); !errors.Is(got, tc.err) {
					t.Errorf("the call returns %v, want %v", got, tc.err)
				}
			})
			if len(spans) != 1 || (spans[0].Status.Description != "") != tc.failed {
				t.Fatalf("got the spans %+v, want one, failed: %v", spans, tc.failed)
			}
			for _, a := range spans[0].Attributes {
				if a.Key == "tenantry.outcome" && a.Value.AsString() != tc.result {
					t.Errorf("the outcome is %s, want %s", a.Value.AsString(), tc.result)
				}
			}
			if tc.level == "" && log.Len() > 0 || tc.level != "" && !strings.Contains(log.String(), `"level":"`+tc.level+`","msg":"provider call failed","provider":"p","operation":"check","outcome":"`+tc.result) {
				t.Errorf("the log is %q, want a line with the level %q and the outcome %s, or nothing without a level", log.String(), tc.level, tc.result)
			}
		})
	}
}

// TestZonesAreCustomerData checks that spans contain the name of a zone only if CustomerData is
// set. The log never contains the name.
func TestZonesAreCustomerData(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		var log strings.Builder
		spans := spansOf(t, func() {
			provider := &fake.DNSProvider{}
			provider.AddZone("customer.test")
			provider.LoseNextAnswer(true)
			p := wire.DNSInProcess(provider, callInterceptor(t, CallOptions{Log: NewLogger(&log, slog.LevelDebug), CustomerData: allowed}))
			zone := dns.Zone{ID: "customer.test", Name: "customer.test"}
			_, _ = p.Zone(t.Context(), zone.Name)
			_, _ = p.Records(t.Context(), zone)
			if _, err := p.Apply(t.Context(), zone, nil); err == nil {
				t.Error("the answer was not lost")
			}
		})
		if named := strings.Count(fmt.Sprint(spans), "customer.test"); (named == len(spans)) != allowed || (named == 0) == allowed || len(spans) != 3 {
			t.Errorf("allowed %v: the name of the zone is %d times in %d spans", allowed, named, len(spans))
		}
		if !strings.Contains(log.String(), `"operation":"apply"`) || strings.Contains(log.String(), "customer.test") {
			t.Errorf("the log: %s", log.String())
		}
	}
}

// TestMailboxesAreCustomerData checks that spans contain an address only if CustomerData is set.
// The log never contains an address. Links and cursors are neither in spans nor in the log.
func TestMailboxesAreCustomerData(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		var log strings.Builder
		spans := spansOf(t, func() {
			platform := fake.NewSendingPlatform()
			platform.Put(integration.Account{Address: "anna@customer.test", ID: "anna@customer.test"})
			p := wire.SendingInProcess(platform, callInterceptor(t, CallOptions{Log: NewLogger(&log, slog.LevelDebug), CustomerData: allowed}))
			_, _ = p.StartSignIn(t.Context(), "anna@customer.test")
			_, _ = p.Accounts(t.Context(), "anna@customer.test")
			clearFault := platform.Fail(fake.Fault{Kind: outcome.Unknown})
			_, _ = p.Account(t.Context(), "anna@customer.test")
			if err := p.Remove(t.Context(), "anna@customer.test"); err == nil {
				t.Error("Remove did not fail")
			}
			clearFault()
		})
		want := map[bool]int{true: 3, false: 0}[allowed]
		if named := strings.Count(fmt.Sprint(spans), "anna@customer.test"); named != want || len(spans) != 4 {
			t.Errorf("allowed %v: the address is %d times in %d spans", allowed, named, len(spans))
		}
		if text := fmt.Sprint(spans, log.String()); strings.Contains(text, "microsoftonline") || strings.Contains(log.String(), "customer.test") {
			t.Error("a link is in the spans or the log, or an address is in the log")
		}
		if !strings.Contains(log.String(), `"operation":"remove"`) || !strings.Contains(log.String(), `"operation":"account"`) {
			t.Errorf("the log: %s", log.String())
		}
	}
}

// TestTenantsAreCustomerData checks that spans of the mail platform contain the tenant, domain or
// mailbox of a call only if CustomerData is set.
func TestTenantsAreCustomerData(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		spans := spansOf(t, func() {
			p := wire.MailInProcess(fake.New(), callInterceptor(t, CallOptions{Log: slog.New(slog.DiscardHandler), CustomerData: allowed}))
			_, _ = p.For("customer-guid").Domain(t.Context(), "customer.test")
			_, _ = p.For("customer-guid").Mailbox(t.Context(), "anna@customer.test")
		})
		for i, want := range []map[string]string{
			{"tenantry.tenant": "customer-guid", "tenantry.domain": "customer.test"},
			{"tenantry.tenant": "customer-guid", "tenantry.mailbox": "anna@customer.test"},
		} {
			got := map[string]string{}
			for _, a := range spans[i].Attributes {
				if _, ok := want[string(a.Key)]; ok {
					got[string(a.Key)] = a.Value.AsString()
				}
			}
			if allowed && !reflect.DeepEqual(got, want) || !allowed && strings.Contains(fmt.Sprint(spans[i]), "customer") {
				t.Errorf("allowed %v: got %v, want %v", allowed, got, want)
			}
		}
	}
}
