// SPDX-License-Identifier: Apache-2.0

package pluginhost_test

import (
	"context"
	"log/slog"
	"testing"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/wire"
)

// BenchmarkCall is one call of a plugin process, trace context included.
func BenchmarkCall(b *testing.B) {
	previous := otel.GetTracerProvider()
	otel.SetTracerProvider(sdktrace.NewTracerProvider())
	defer otel.SetTracerProvider(previous)
	h, err := pluginhost.New(pluginhost.Options{Dir: folder(b, "puppet:puppet"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close()
	tenant := h.Mail("puppet", func(context.Context) (wire.Connection, error) {
		return wire.Connection{Secrets: map[string]secret.Text{"token": secret.New(token)}}, nil
	}).For("t-1")
	if _, err := tenant.Profile(b.Context()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := tenant.Profile(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
