// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/ports"
)

// score is what a whole run did, by the words of the issue.
type score struct{ zones, written, refused, destroyed, wrong, unexplained atomic.Int64 }

func settleAll(t *testing.T, h house, zones []messy, name string) {
	t.Helper()
	var s score
	t.Cleanup(func() {
		t.Logf("%d zones: %d written, %d refused with a reason; %d foreign records destroyed, %d wrong writes, %d unexplained refusals",
			s.zones.Load(), s.written.Load(), s.refused.Load(), s.destroyed.Load(), s.wrong.Load(), s.unexplained.Load())
	})
	for _, m := range zones {
		if m.only != "" && m.only != name {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			s.zones.Add(1)
			m.settle(t, h, &s)
		})
	}
}

// settle plans a zone, applies the plan and looks at what has become of it.
func (m messy) settle(t *testing.T, h house, s *score) {
	h.put(t, m.zone(), m.lines(m.past))
	before := h.held(t, m.zone())
	sight := h.read(t, m)
	public := dns.NewPlan(m.offer(), sight, nil)
	m.check(t, s, public)
	planned := m.listed(t, h.provider(), sight)
	if (public.Hash() != planned.Hash()) != m.hidden {
		t.Errorf("the provider's own list gives another plan: %+v, not %+v", planned.Items, public.Items)
	}
	if planned.SafeToApply() == m.blocked() {
		t.Fatalf("safe to apply is %v: %s", planned.SafeToApply(), planned.Reason)
	}
	if !planned.SafeToApply() {
		s.refused.Add(1)
	} else {
		s.written.Add(1)
		if err := m.carryOut(t.Context(), h.provider(), sight, planned); err != nil {
			t.Fatal(err)
		}
	}
	m.compare(t, s, before, h.held(t, m.zone()))
	m.again(t, h, public)
}

// listed is the plan as it is stored before a write: from the provider's own
// list where that and the world's view differ.
func (m messy) listed(t *testing.T, provider ports.DNSProvider, sight dns.Sight) dns.Plan {
	t.Helper()
	zone, err := provider.Zone(t.Context(), m.zone())
	if err != nil {
		t.Fatal(err)
	}
	held, err := provider.Records(t.Context(), zone)
	if err != nil {
		t.Fatal(err)
	}
	return dns.NewPlan(m.offer(), sight.Holding(held), nil)
}

// carryOut applies a plan as it is to be done: planned anew from what the
// provider has now, and only when that is the same plan.
func (m messy) carryOut(ctx context.Context, provider ports.DNSProvider, sight dns.Sight, p dns.Plan) error {
	zone, err := provider.Zone(ctx, p.Zone)
	if err != nil {
		return err
	}
	held, err := provider.Records(ctx, zone)
	if err != nil {
		return err
	}
	if dns.NewPlan(m.offer(), sight.Holding(held), nil).Hash() != p.Hash() {
		return dns.Changed()
	}
	_, err = provider.Apply(ctx, zone, p.Changes)
	return err
}

// check holds each item of a plan against what is known of the zone.
func (m messy) check(t *testing.T, s *score, p dns.Plan) {
	t.Helper()
	if !p.Reliable || p.Zone != m.zone() {
		t.Fatalf("the read of %s in %s is not reliable: %s", m.domain(), p.Zone, p.Reason)
	}
	if len(p.Items) != len(dns.Desire(m.domain(), m.offer())) {
		t.Errorf("%d items", len(p.Items))
	}
	for _, item := range p.Items {
		if got, want := verdictOf(item), m.expected(item.Purpose); got != want {
			t.Errorf("%s: %s, not %s; observed %q", item.Purpose, got, want, item.Observed)
		}
		if item.Reason.Explain() == "" {
			s.unexplained.Add(1)
			t.Errorf("%s: %s is not explained", item.Purpose, item.Reason)
		}
	}
}

// compare looks at a zone before and after: every record that no plan was to
// replace is equal to the byte, and what was planned is there and nothing else.
func (m messy) compare(t *testing.T, s *score, before, after []entry) {
	t.Helper()
	gone := texts(m.lines(m.gone))
	if m.blocked() {
		gone = nil
	}
	left := raws(after)
	for _, r := range before {
		if slices.Contains(gone, r.String()) {
			continue
		}
		i := slices.Index(left, r.raw)
		if i < 0 {
			s.destroyed.Add(1)
			t.Errorf("%s is gone", r.raw)
			continue
		}
		left = slices.Delete(left, i, i+1)
	}
	var now []zoneLine
	for _, r := range after {
		now = append(now, r.zoneLine)
	}
	if diff := cmp.Diff(texts(m.afterwards()), texts(now)); diff != "" {
		s.wrong.Add(1)
		t.Errorf("the zone afterwards (-want +got):\n%s", diff)
	}
}

func texts(lines []zoneLine) []string {
	var out []string
	for _, l := range lines {
		out = append(out, fmt.Sprint(l))
	}
	return slices.Sorted(slices.Values(out))
}

func raws(all []entry) []string {
	var out []string
	for _, r := range all {
		out = append(out, r.raw)
	}
	return out
}

// again reads the zone anew by DNS. What was to be written is there, and a plan
// has nothing left to do but what a person must.
func (m messy) again(t *testing.T, h house, p dns.Plan) {
	t.Helper()
	sight := h.read(t, m)
	now := dns.NewPlan(m.offer(), sight, nil)
	if m.blocked() {
		if now.Hash() != p.Hash() {
			t.Errorf("without a write the plan has become %+v", now.Items)
		}
		return
	}
	if len(now.Changes) != 0 || !now.SafeToApply() {
		t.Errorf("not done yet: %+v %s", now.Changes, now.Reason)
	}
	for i, item := range now.Items {
		was := p.Items[i]
		if item.Action != dns.Preserve && (was.Action != dns.Conflict || item.Reason != was.Reason) {
			t.Errorf("%s has become %s", verdictOf(was), verdictOf(item))
		}
		writes := was.Action == dns.Create || was.Action == dns.Update
		if writes && !slices.Contains(dns.Find(sight.Sets, was.Name, was.Type).Values, was.Desired) {
			t.Errorf("the servers do not show %q at %s", was.Desired, was.Name)
		}
	}
}
