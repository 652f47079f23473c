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
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/wire"
)

// spansOf returns the spans that end during makeCalls.
func spansOf(t *testing.T, makeCalls func()) tracetest.SpanStubs {
	t.Helper()
	previous := otel.GetTracerProvider()
	defer otel.SetTracerProvider(previous)
	exporter := tracetest.NewInMemoryExporter()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)))
	makeCalls()
	return exporter.GetSpans()
}

// callInterceptor returns the interceptor that NewCallInterceptor creates for a provider named "p".
func callInterceptor(t *testing.T, options CallOptions) wire.Interceptor {
	t.Helper()
	options.Provider = "p"
	interceptor, err := NewCallInterceptor(options)
	if err != nil {
		t.Fatal(err)
	}
	return interceptor
}

// TestEachMethodIsAnOperation checks that each method of the provider ports creates a span with its
// own operation.
func TestEachMethodIsAnOperation(t *testing.T) {
	for port, call := range map[string]func(wire.Interceptor) int{
		"mail platform": func(interceptor wire.Interceptor) int {
			platform := wire.MailInProcess(fake.New(), interceptor)
			return callAll(platform, "For") + callAll(platform.For("unknown-tenant"))
		},
		"DNS provider": func(interceptor wire.Interceptor) int {
			return callAll(wire.DNSInProcess(&fake.DNSProvider{}, interceptor))
		},
		"sending platform": func(interceptor wire.Interceptor) int {
			return callAll(wire.SendingInProcess(fake.NewSendingPlatform(), interceptor))
		},
	} {
		methods := 0
		spans := spansOf(t, func() { methods = call(callInterceptor(t, CallOptions{Log: slog.New(slog.DiscardHandler)})) })
		operations := map[string]bool{}
		for _, s := range spans {
			operations[s.Name] = true
		}
		if methods < 4 || len(spans) != methods || len(operations) != methods {
			t.Errorf("%s: %d spans of %d operations, want one of each of the %d methods, and at least 4 methods", port, len(spans), len(operations), methods)
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
		name        string
		err         error
		wantOutcome string
		wantLevel   string // "": nothing is logged
		wantFailed  bool
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
				platform := wire.MailInProcess(fake.New(), callInterceptor(t, CallOptions{Log: NewLogger(&log, slog.LevelDebug)}), answerWithErr)
				if got := platform.Check(t.Context()); !errors.Is(got, tc.err) {
					t.Errorf("the call returns %v, want %v", got, tc.err)
				}
			})
			if len(spans) != 1 || (spans[0].Status.Description != "") != tc.wantFailed {
				t.Fatalf("got the spans %+v, want one, failed: %v", spans, tc.wantFailed)
			}
			if want := attribute.String("tenantry.outcome", tc.wantOutcome); !slices.Contains(spans[0].Attributes, want) {
				t.Errorf("the span has the attributes %v, want %v", spans[0].Attributes, want)
			}
			if tc.wantLevel == "" && log.Len() > 0 || tc.wantLevel != "" && !strings.Contains(log.String(), `"level":"`+tc.wantLevel+`","msg":"provider call failed","provider":"p","operation":"check","outcome":"`+tc.wantOutcome) {
				t.Errorf("the log is %q, want a line with the level %q and the outcome %s, or nothing without a level", log.String(), tc.wantLevel, tc.wantOutcome)
			}
		})
	}
}

// TestZonesAreCustomerData checks that spans contain the name of a zone only if CustomerData is
// set. The log never contains the name.
func TestZonesAreCustomerData(t *testing.T) {
	for _, customerData := range []bool{true, false} {
		var log strings.Builder
		spans := spansOf(t, func() {
			fakeProvider := &fake.DNSProvider{}
			fakeProvider.AddZone("customer.test")
			fakeProvider.LoseNextAnswer(true)
			provider := wire.DNSInProcess(fakeProvider, callInterceptor(t, CallOptions{Log: NewLogger(&log, slog.LevelDebug), CustomerData: customerData}))
			zone := dns.Zone{ID: "customer.test", Name: "customer.test"}
			_, _ = provider.Zone(t.Context(), zone.Name)
			_, _ = provider.Records(t.Context(), zone)
			if _, err := provider.Apply(t.Context(), zone, nil); err == nil {
				t.Error("Apply returned no error, although the fake loses its answer")
			}
		})
		if mentions := strings.Count(fmt.Sprint(spans), "customer.test"); (mentions == len(spans)) != customerData || (mentions == 0) == customerData || len(spans) != 3 {
			t.Errorf("with CustomerData %v the name of the zone is %d times in %d spans, want it once in each of 3 spans, or never", customerData, mentions, len(spans))
		}
		if !strings.Contains(log.String(), `"operation":"apply"`) || strings.Contains(log.String(), "customer.test") {
			t.Errorf("the log is %s, want the failed operation without the name of the zone", log.String())
		}
	}
}

// TestMailboxesAreCustomerData checks that spans contain an address only if CustomerData is set.
// The log never contains an address. Links and cursors are neither in spans nor in the log.
func TestMailboxesAreCustomerData(t *testing.T) {
	for _, customerData := range []bool{true, false} {
		var log strings.Builder
		spans := spansOf(t, func() {
			fakePlatform := fake.NewSendingPlatform()
			fakePlatform.Put(integration.Account{Address: "anna@customer.test", ID: "anna@customer.test"})
			platform := wire.SendingInProcess(fakePlatform, callInterceptor(t, CallOptions{Log: NewLogger(&log, slog.LevelDebug), CustomerData: customerData}))
			_, _ = platform.StartSignIn(t.Context(), "anna@customer.test")
			_, _ = platform.Accounts(t.Context(), "anna@customer.test")
			clearFault := fakePlatform.Fail(fake.Fault{Kind: outcome.Unknown})
			_, _ = platform.Account(t.Context(), "anna@customer.test")
			if err := platform.Remove(t.Context(), "anna@customer.test"); err == nil {
				t.Error("Remove returned no error, want the planned fault")
			}
			clearFault()
		})
		want := map[bool]int{true: 3, false: 0}[customerData]
		if mentions := strings.Count(fmt.Sprint(spans), "anna@customer.test"); mentions != want || len(spans) != 4 {
			t.Errorf("with CustomerData %v the address is %d times in %d spans, want %d times in 4", customerData, mentions, len(spans), want)
		}
		if text := fmt.Sprint(spans, log.String()); strings.Contains(text, "microsoftonline") || strings.Contains(log.String(), "customer.test") {
			t.Error("a link is in the spans or the log, or an address is in the log")
		}
		if !strings.Contains(log.String(), `"operation":"remove"`) || !strings.Contains(log.String(), `"operation":"account"`) {
			t.Errorf("the log is %s, want the operations account and remove", log.String())
		}
	}
}

// TestTenantsAreCustomerData checks that spans of the mail platform contain the tenant, domain or
// mailbox of a call only if CustomerData is set.
func TestTenantsAreCustomerData(t *testing.T) {
	for _, customerData := range []bool{true, false} {
		spans := spansOf(t, func() {
			platform := wire.MailInProcess(fake.New(), callInterceptor(t, CallOptions{Log: slog.New(slog.DiscardHandler), CustomerData: customerData}))
			_, _ = platform.For("customer-guid").Domain(t.Context(), "customer.test")
			_, _ = platform.For("customer-guid").Mailbox(t.Context(), "anna@customer.test")
		})
		for i, want := range []map[string]string{
			{"tenantry.tenant": "customer-guid", "tenantry.domain": "customer.test"},
			{"tenantry.tenant": "customer-guid", "tenantry.mailbox": "anna@customer.test"},
		} {
			got := map[string]string{}
			for _, a := range spans[i].Attributes {
				if _, isWanted := want[string(a.Key)]; isWanted {
					got[string(a.Key)] = a.Value.AsString()
				}
			}
			if customerData && !reflect.DeepEqual(got, want) || !customerData && strings.Contains(fmt.Sprint(spans[i]), "customer") {
				t.Errorf("with CustomerData %v: got %v, want %v, or no customer data", customerData, got, want)
			}
		}
	}
}
