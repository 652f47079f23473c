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

// TestChangedZoneIsNotWrittenAtPowerDNS changes zones between plan and apply.
func TestChangedZoneIsNotWrittenAtPowerDNS(t *testing.T) {
	t.Parallel()
	runZoneChanges(t, newPowerDNSHost(t))
}

// TestChangedZoneIsNotWrittenAtCloudflare changes zones of the simulated Cloudflare between plan
// and apply.
func TestChangedZoneIsNotWrittenAtCloudflare(t *testing.T) {
	t.Parallel()
	runZoneChanges(t, newCloudflareHost(t))
}

// unprovisionedZone has none of the wanted records.
const unprovisionedZone = website + "@ 300 TXT v=spf1 a mx ~all\n@ 300 TXT MS=ms99999999\n@ 300 MX 0 {d-}.mail.protection.outlook.com."

// zoneChange is a change by the owner between plan and apply: removed is replaced by added.
type zoneChange struct {
	name, removed, added string
	// unrelated is set if the change conflicts with no record that is written. Only a new plan
	// shows such a change.
	unrelated bool
}

var zoneChanges = []zoneChange{
	{name: "another-spf", removed: "@ 300 TXT v=spf1 a mx ~all", added: "@ 300 TXT v=spf1 a -all"},
	{name: "spf-gone", removed: "@ 300 TXT v=spf1 a mx ~all"},
	{name: "one-text-more", added: "@ 300 TXT something"},
	{name: "proof-of-another", removed: "@ 300 TXT MS=ms99999999", added: "@ 300 TXT MS=ms88888888"},
	{name: "mx-elsewhere", removed: "@ 300 MX 0 {d-}.mail.protection.outlook.com.", added: "@ 300 MX 0 mx.elsewhere.test."},
	{name: "mx-added", added: "@ 300 MX 10 mx.elsewhere.test."},
	{name: "mx-gone", removed: "@ 300 MX 0 {d-}.mail.protection.outlook.com."},
	{name: "policy-made", added: "_dmarc 300 TXT v=DMARC1; p=reject"},
	{name: "policy-as-alias", added: "_dmarc 300 CNAME _dmarc.elsewhere.test."},
	{name: "key-at-a-selector", added: "selector1._domainkey 300 TXT v=DKIM1; p=x"},
	{name: "alias-at-a-selector", added: "selector2._domainkey 300 CNAME s1.elsewhere.test."},
	{name: "autodiscover-as-address", added: "autodiscover 300 A 192.0.2.9"},
	{name: "keys-delegated", added: "_domainkey 300 NS ns1.elsewhere.test.", unrelated: true},
}

func runZoneChanges(t *testing.T, h zoneHost) {
	t.Helper()
	for _, v := range zoneChanges {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			v.run(t, h)
		})
	}
	t.Run("unrelated-record-added", func(t *testing.T) {
		t.Parallel()
		c := zoneCase{name: "moved-unrelated", records: unprovisionedZone,
			want:    wantItems{"spf": "update spf_merged", "mx": "update mx_platform_migration"},
			removed: "@ 300 TXT v=spf1 a mx ~all\n@ 300 MX 0 {d-}.mail.protection.outlook.com.",
			added:   "@ 300 TXT v=spf1 a mx {spf} ~all\n@ 300 MX 0 {d-}.r4nd.mx.microsoft."}
		sight, planned := c.planned(t, h)
		c.records += "\nblog 300 CNAME blog.elsewhere.test."
		h.put(t, c.zone(), c.parseRecords(c.records))
		before := h.storedRecords(t, c.zone())
		must(t, c.applyIfUnchanged(t.Context(), h.provider(), sight, planned))
		c.checkRecords(t, new(caseTotals), before, h.storedRecords(t, c.zone()))
	})
}

func (v zoneChange) run(t *testing.T, h zoneHost) {
	c := zoneCase{name: "moved-" + v.name, records: unprovisionedZone}
	sight, planned := c.planned(t, h)
	removedLines := c.parseRecords(v.removed)
	now := slices.DeleteFunc(c.parseRecords(c.records), func(line zoneLine) bool { return slices.Contains(removedLines, line) })
	h.put(t, c.zone(), append(now, c.parseRecords(v.added)...))
	before := rawTexts(h.storedRecords(t, c.zone()))
	if err := c.applyIfUnchanged(t.Context(), h.provider(), sight, planned); !dns.IsChanged(err) {
		t.Errorf("planned again: %v", err)
	}
	if !v.unrelated {
		if err := applyPlan(t.Context(), h.provider(), planned); !dns.IsChanged(err) {
			t.Errorf("written as it was planned: %v", err)
		}
	}
	if diff := cmp.Diff(before, rawTexts(h.storedRecords(t, c.zone()))); diff != "" {
		t.Errorf("something was written (-before +now):\n%s", diff)
	}
}

// planned puts the records of a zone at its provider and plans it.
func (c zoneCase) planned(t *testing.T, h zoneHost) (dns.ZoneRead, dns.Plan) {
	t.Helper()
	h.put(t, c.zone(), c.parseRecords(c.records))
	sight := h.read(t, c)
	p := dns.NewPlan(c.offer(), sight, nil)
	if !p.SafeToApply() || len(p.Changes) != 6 {
		t.Fatalf("%s: %+v", p.Reason, p.Items)
	}
	return sight, p
}

// applyPlan writes the changes of a plan without planning again.
func applyPlan(ctx context.Context, provider ports.DNSProvider, p dns.Plan) error {
	zone, err := provider.Zone(ctx, p.Zone)
	if err != nil {
		return err
	}
	_, err = provider.Apply(ctx, zone, p.Changes)
	return err
}
