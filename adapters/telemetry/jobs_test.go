// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"

	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/provisioning"
)

// TestStepIsLinkedToItsRequest checks that the span of a step has a link to the request that caused
// the job. The span contains customer data only if CustomerData is set.
func TestStepIsLinkedToItsRequest(t *testing.T) {
	const traceID, spanID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	j := provisioning.Job{ID: "job-1", Stage: provisioning.StageApply, Trace: "00-" + traceID + "-" + spanID + "-01",
		DomainName: "customer.test", TenantGUID: "guid-1"}
	lost := &outcome.Error{Kind: outcome.Unknown, Detail: "lost"}
	spans := spansOf(t, func() {
		Jobs{}.Step(t.Context(), j, provisioning.Apply, func(context.Context) error { return lost })
		Jobs{CustomerData: true}.Step(t.Context(), provisioning.Job{DomainName: "customer.test"}, provisioning.Plan, func(context.Context) error { return nil })
	})
	if len(spans) != 2 {
		t.Fatalf("%d spans were recorded, want 2", len(spans))
	}
	step, other := spans[0], spans[1]
	if len(step.Links) != 1 || step.Links[0].SpanContext.TraceID().String() != traceID || step.Links[0].SpanContext.SpanID().String() != spanID {
		t.Errorf("the links are %v, want one to the request", step.Links)
	}
	text := fmt.Sprint(step.Name, step.Attributes, step.Status)
	if strings.Contains(text, "customer.test") || strings.Contains(text, "guid-1") || !strings.Contains(text, "unknown") || step.Status.Code != codes.Error {
		t.Errorf("the span has %s, want the outcome unknown, an error and no customer data", text)
	}
	if text = fmt.Sprint(other.Attributes); len(other.Links) != 0 || !strings.Contains(text, "customer.test") || other.Status.Code == codes.Error {
		t.Errorf("the other span has %s and the links %v, want the domain, no error and no link", text, other.Links)
	}
}
