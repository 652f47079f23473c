// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/ports"
)

// TestZonesThatMoveAtPowerDNS changes zones between plan and apply.
func TestZonesThatMoveAtPowerDNS(t *testing.T) {
	t.Parallel()
	moveAll(t, newPower(t))
}

// TestZonesThatMoveAtCloudflare does so at Cloudflare.
func TestZonesThatMoveAtCloudflare(t *testing.T) {
	t.Parallel()
	moveAll(t, newCloud(t))
}

// atRest is a zone where everything is still to be done.
const atRest = website + "@ 300 TXT v=spf1 a mx ~all\n@ 300 TXT MS=ms99999999\n@ 300 MX 0 {d-}.mail.protection.outlook.com."

// move is what the owner does between plan and apply: gone gives way to come.
type move struct {
	name, gone, come string
	// aside says that no record that is written is in the way of it: the
	// write alone would not notice, the plan made anew does.
	aside bool
}

var moves = []move{
	{name: "another-spf", gone: "@ 300 TXT v=spf1 a mx ~all", come: "@ 300 TXT v=spf1 a -all"},
	{name: "spf-gone", gone: "@ 300 TXT v=spf1 a mx ~all"},
	{name: "one-text-more", come: "@ 300 TXT something"},
	{name: "proof-of-another", gone: "@ 300 TXT MS=ms99999999", come: "@ 300 TXT MS=ms88888888"},
	{name: "mx-elsewhere", gone: "@ 300 MX 0 {d-}.mail.protection.outlook.com.", come: "@ 300 MX 0 mx.elsewhere.test."},
	{name: "mx-added", come: "@ 300 MX 10 mx.elsewhere.test."},
	{name: "mx-gone", gone: "@ 300 MX 0 {d-}.mail.protection.outlook.com."},
	{name: "policy-made", come: "_dmarc 300 TXT v=DMARC1; p=reject"},
	{name: "policy-as-alias", come: "_dmarc 300 CNAME _dmarc.elsewhere.test."},
	{name: "key-at-a-selector", come: "selector1._domainkey 300 TXT v=DKIM1; p=x"},
	{name: "alias-at-a-selector", come: "selector2._domainkey 300 CNAME s1.elsewhere.test."},
	{name: "autodiscover-as-address", come: "autodiscover 300 A 192.0.2.9"},
	{name: "keys-delegated", come: "_domainkey 300 NS ns1.elsewhere.test.", aside: true},
}

func moveAll(t *testing.T, h house) {
	t.Helper()
	for _, v := range moves {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			v.run(t, h)
		})
	}
	t.Run("what-no-plan-looks-at", func(t *testing.T) {
		t.Parallel()
		m := messy{name: "moved-aside", past: atRest,
			want: says{"spf": "update spf_merged", "mx": "update mx_platform_migration"},
			gone: "@ 300 TXT v=spf1 a mx ~all\n@ 300 MX 0 {d-}.mail.protection.outlook.com.",
			come: "@ 300 TXT v=spf1 a mx {spf} ~all\n@ 300 MX 0 {d-}.r4nd.mx.microsoft."}
		sight, planned := m.planned(t, h)
		m.past += "\nblog 300 CNAME blog.elsewhere.test."
		h.put(t, m.zone(), m.lines(m.past))
		before := h.held(t, m.zone())
		if err := m.carryOut(t.Context(), h.provider(), sight, planned); err != nil {
			t.Fatal(err)
		}
		m.compare(t, new(score), before, h.held(t, m.zone()))
	})
}

func (v move) run(t *testing.T, h house) {
	m := messy{name: "moved-" + v.name, past: atRest}
	sight, planned := m.planned(t, h)
	gone := m.lines(v.gone)
	now := slices.DeleteFunc(m.lines(m.past), func(l zoneLine) bool { return slices.Contains(gone, l) })
	h.put(t, m.zone(), append(now, m.lines(v.come)...))
	before := raws(h.held(t, m.zone()))
	if err := m.carryOut(t.Context(), h.provider(), sight, planned); !dns.IsChanged(err) {
		t.Errorf("planned anew: %v", err)
	}
	if !v.aside {
		if err := apply(t.Context(), h.provider(), planned); !dns.IsChanged(err) {
			t.Errorf("written as it was planned: %v", err)
		}
	}
	if diff := cmp.Diff(before, raws(h.held(t, m.zone()))); diff != "" {
		t.Errorf("something was written (-before +now):\n%s", diff)
	}
}

// planned puts a zone at its provider and plans it.
func (m messy) planned(t *testing.T, h house) (dns.Sight, dns.Plan) {
	t.Helper()
	h.put(t, m.zone(), m.lines(m.past))
	sight := h.read(t, m)
	p := dns.NewPlan(m.offer(), sight, nil)
	if !p.SafeToApply() || len(p.Changes) != 6 {
		t.Fatalf("%s: %+v", p.Reason, p.Items)
	}
	return sight, p
}

// apply writes a plan's changes without another look.
func apply(ctx context.Context, provider ports.DNSProvider, p dns.Plan) error {
	zone, err := provider.Zone(ctx, p.Zone)
	if err != nil {
		return err
	}
	_, err = provider.Apply(ctx, zone, p.Changes)
	return err
}
