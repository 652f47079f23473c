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
	linkedJob := provisioning.Job{ID: "job-1", Stage: provisioning.StageApply, Trace: "00-" + traceID + "-" + spanID + "-01",
		DomainName: "customer.test", TenantGUID: "guid-1"}
	lostAnswer := &outcome.Error{Kind: outcome.Unknown, Detail: "lost"}
	spans := spansOf(t, func() {
		Jobs{}.Step(t.Context(), linkedJob, provisioning.Apply, func(context.Context) error { return lostAnswer })
		Jobs{CustomerData: true}.Step(t.Context(), provisioning.Job{DomainName: "customer.test"}, provisioning.Plan, func(context.Context) error { return nil })
	})
	if len(spans) != 2 {
		t.Fatalf("%d spans were recorded, want 2", len(spans))
	}
	linkedStep, stepWithData := spans[0], spans[1]
	if len(linkedStep.Links) != 1 || linkedStep.Links[0].SpanContext.TraceID().String() != traceID || linkedStep.Links[0].SpanContext.SpanID().String() != spanID {
		t.Errorf("the links are %v, want one to the request", linkedStep.Links)
	}
	text := fmt.Sprint(linkedStep.Name, linkedStep.Attributes, linkedStep.Status)
	if strings.Contains(text, "customer.test") || strings.Contains(text, "guid-1") || !strings.Contains(text, "unknown") || linkedStep.Status.Code != codes.Error {
		t.Errorf("the span has %s, want the outcome unknown, an error and no customer data", text)
	}
	if text = fmt.Sprint(stepWithData.Attributes); len(stepWithData.Links) != 0 || !strings.Contains(text, "customer.test") || stepWithData.Status.Code == codes.Error {
		t.Errorf("the span with customer data has %s and the links %v, want the domain, no error and no link", text, stepWithData.Links)
	}
}
