// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"maps"

	"github.com/danielgtaylor/huma/v2"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// counterHeaders are the headers of every answer that reached a bucket.
func counterHeaders() map[string]*huma.Header {
	none := 0.0
	number := func(about string, example int) *huma.Header {
		return &huma.Header{Description: about, Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: &none}, Example: example}
	}
	return map[string]*huma.Header{
		"X-RateLimit-Bucket": {
			Description: "The limit that the request counted in.",
			Schema:      &huma.Schema{Type: huma.TypeString, Enum: []any{string(reads), string(expensive), string(providerHeavy), string(providerHeavyWrites), concurrency}},
			Example:     string(reads),
		},
		"X-RateLimit-Limit":     number("How many requests the limit allows in its window.", 600),
		"X-RateLimit-Remaining": number("How many more are allowed now.", 598),
		"X-RateLimit-Reset":     number("When the oldest request that counts leaves the window, in Unix seconds.", 1_780_000_000),
	}
}

// countedHeaders adds their definitions, counted what refers to them.
func countedHeaders(to map[string]*huma.Header) map[string]*huma.Header {
	maps.Copy(to, counterHeaders())
	return to
}

func counted(to map[string]*huma.Param) map[string]*huma.Param {
	for name := range counterHeaders() {
		to[name] = &huma.Param{Ref: "#/components/headers/" + name}
	}
	return to
}

// refusals429 counts refusals by the bucket that was full.
func refusals429(o Options) func(context.Context, string) {
	meter := o.Meter
	if meter == nil {
		meter = otel.GetMeterProvider()
	}
	counter, err := meter.Meter("github.com/tenantry/tenantry/adapters/httpapi").Int64Counter("tenantry.ratelimit.refused",
		metric.WithDescription("Requests answered 429, by the limit that was reached."))
	if err != nil {
		otel.Handle(err)
	}
	return func(ctx context.Context, name string) {
		counter.Add(ctx, 1, metric.WithAttributes(attribute.String("bucket", name)))
	}
}
