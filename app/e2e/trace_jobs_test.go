// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/core/provisioning"
)

// linked reports whether a span has a link to the caller's trace.
func (e exported) linked() bool {
	for _, l := range e.GetLinks() {
		if hex.EncodeToString(l.GetTraceId()) == traceID {
			return true
		}
	}
	return false
}

// TestJobsAreLinkedToTheirRequest checks that each step of a job is a span with a
// link to the request that caused the job. The step's trace is its own and goes on
// in the plugins.
func TestJobsAreLinkedToTheirRequest(t *testing.T) {
	t.Parallel()
	o := newReceiver(t)
	_, ready := startDev(t, binary(t, release), t.TempDir(), o.env(), "--no-seed")
	h := ownerAt(t, ready).newCaller(nil).automatic().connected(nil)
	_, id := h.hosted()
	asking := h.client
	asking.ready.APIKey = h.key
	if status := traced(asking, "POST", "/v1/domains/"+id+"/dns/provision", object{}); status != http.StatusAccepted {
		t.Fatalf("provision: %d", status)
	}
	run := h.get("/v1/dns/provisioning-runs").objects("runs")[0].text("id")
	if ended := h.ends(run); ended.at("run.status") != "completed" {
		t.Fatalf("the run ended %s", ended.raw)
	}
	// The service and its plugins export by themselves, each at its own pace.
	var spans []exported
	h.eventually("the spans of all steps, and of both plugins below steps", func() bool {
		spans, _ = o.all(t)
		below := pluginsBelowSteps(spans)
		for _, step := range []provisioning.Step{provisioning.Plan, provisioning.Apply, provisioning.ReadDNS, provisioning.Verify,
			provisioning.EnableMail, provisioning.EnsureSigning, provisioning.EnableDKIM, provisioning.Validate} {
			if len(spansNamed(spans, "dns job "+string(step))) == 0 {
				return false
			}
		}
		return len(spansNamed(spans, "job dns_job")) > 0 && below["tenantry-plugin-microsoft365"] && below["tenantry-plugin-cloudflare"]
	})
	for _, s := range spansNamed(spans, "job dns_job") {
		if !s.linked() || s.trace() == traceID || s.parent() != "" {
			t.Errorf("a wake-up's span is in trace %s below %q, linked: %v", s.trace(), s.parent(), s.linked())
		}
	}
	for _, s := range spans {
		if strings.HasPrefix(s.GetName(), "dns job ") && (!s.linked() || s.trace() == traceID) {
			t.Errorf("%q is in trace %s, linked: %v", s.GetName(), s.trace(), s.linked())
		}
	}
}

// pluginsBelowSteps returns the plugins with a span that has a job's step among its
// ancestors.
func pluginsBelowSteps(spans []exported) map[string]bool {
	byID, below := map[string]exported{}, map[string]bool{}
	for _, s := range spans {
		byID[s.id()] = s
	}
	for _, s := range spans {
		if !strings.HasPrefix(s.service, "tenantry-plugin-") {
			continue
		}
		for at, ok := s, true; ok; at, ok = byID[at.parent()] {
			if strings.HasPrefix(at.GetName(), "dns job ") {
				below[s.service] = true
			}
		}
	}
	return below
}

func spansNamed(spans []exported, name string) (found []exported) {
	for _, s := range spans {
		if s.GetName() == name {
			found = append(found, s)
		}
	}
	return found
}
