// SPDX-License-Identifier: Apache-2.0

package main

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

// TestJobsAreLinkedToTheirRequest: each step of a job is a span with a link to
// the request that caused it, in a trace of its own that goes on into the plugins.
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
	steps := []provisioning.Step{provisioning.Plan, provisioning.Apply, provisioning.ReadDNS, provisioning.Verify,
		provisioning.EnableMail, provisioning.EnsureSigning, provisioning.EnableDKIM, provisioning.Validate}
	var spans []exported
	h.eventually("a span of each step", func() bool {
		spans, _ = o.all(t)
		for _, step := range steps {
			if len(spansNamed(spans, "dns job "+string(step))) == 0 {
				return false
			}
		}
		return true
	})
	wakeups := spansNamed(spans, "job dns_job")
	own := map[string]exported{}
	for _, s := range spans {
		own[s.id()] = s
	}
	for _, s := range wakeups {
		if !s.linked() || s.trace() == traceID || s.parent() != "" {
			t.Errorf("a wake-up's span is in trace %s below %q, linked: %v", s.trace(), s.parent(), s.linked())
		}
	}
	below := map[string]bool{}
	for _, s := range spans {
		switch {
		case strings.HasPrefix(s.GetName(), "dns job "):
			if !s.linked() || s.trace() == traceID || len(wakeups) == 0 {
				t.Errorf("%q is in trace %s, linked: %v", s.GetName(), s.trace(), s.linked())
			}
		case strings.HasPrefix(s.service, "tenantry-plugin-"):
			for at, ok := s, true; ok; at, ok = own[at.parent()] {
				if strings.HasPrefix(at.GetName(), "dns job ") {
					below[s.service] = true
				}
			}
		}
	}
	for _, service := range []string{"tenantry-plugin-microsoft365", "tenantry-plugin-cloudflare"} {
		if !below[service] {
			t.Errorf("no span of %s hangs below a step: %v", service, below)
		}
	}
}

func spansNamed(spans []exported, name string) (found []exported) {
	for _, s := range spans {
		if s.GetName() == name {
			found = append(found, s)
		}
	}
	return found
}
