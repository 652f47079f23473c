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

// TestChangedZoneIsNotWrittenAtPowerDNS checks that a plan is not applied after one of zoneChanges.
func TestChangedZoneIsNotWrittenAtPowerDNS(t *testing.T) {
	t.Parallel()
	runZoneChanges(t, newPowerDNSHost(t))
}

// TestChangedZoneIsNotWrittenAtCloudflare is TestChangedZoneIsNotWrittenAtPowerDNS with the
// simulator of Cloudflare.
func TestChangedZoneIsNotWrittenAtCloudflare(t *testing.T) {
	t.Parallel()
	runZoneChanges(t, newCloudflareHost(t))
}

// unprovisionedZone has none of the wanted records.
const unprovisionedZone = website + "@ 300 TXT v=spf1 a mx ~all\n@ 300 TXT MS=ms99999999\n@ 300 MX 0 {d-}.mail.protection.outlook.com."

// zoneChange is a change of a zone by its owner between plan and apply. The records in added
// replace the records in removed.
type zoneChange struct {
	name, removed, added string
	// onlyPlanDetects is set if the change conflicts with a written record, but is at a name that
	// Apply does not compare. Only a second plan detects such a change.
	onlyPlanDetects bool
}

var zoneChanges = []zoneChange{
	{name: "spf-replaced", removed: "@ 300 TXT v=spf1 a mx ~all", added: "@ 300 TXT v=spf1 a -all"},
	{name: "spf-removed", removed: "@ 300 TXT v=spf1 a mx ~all"},
	{name: "text-added", added: "@ 300 TXT something"},
	{name: "verification-text-replaced", removed: "@ 300 TXT MS=ms99999999", added: "@ 300 TXT MS=ms88888888"},
	{name: "mx-replaced", removed: "@ 300 MX 0 {d-}.mail.protection.outlook.com.", added: "@ 300 MX 0 mx.elsewhere.test."},
	{name: "mx-added", added: "@ 300 MX 10 mx.elsewhere.test."},
	{name: "mx-removed", removed: "@ 300 MX 0 {d-}.mail.protection.outlook.com."},
	{name: "dmarc-added", added: "_dmarc 300 TXT v=DMARC1; p=reject"},
	{name: "dmarc-alias-added", added: "_dmarc 300 CNAME _dmarc.elsewhere.test."},
	{name: "dkim-key-added", added: "selector1._domainkey 300 TXT v=DKIM1; p=x"},
	{name: "dkim-alias-added", added: "selector2._domainkey 300 CNAME s1.elsewhere.test."},
	{name: "autodiscover-address-added", added: "autodiscover 300 A 192.0.2.9"},
	{name: "dkim-delegated", added: "_domainkey 300 NS ns1.elsewhere.test.", onlyPlanDetects: true},
}

// runZoneChanges runs all zoneChanges, and one change that must not prevent the write.
func runZoneChanges(t *testing.T, host zoneHost) {
	t.Helper()
	for _, change := range zoneChanges {
		t.Run(change.name, func(t *testing.T) {
			t.Parallel()
			change.run(t, host)
		})
	}
	t.Run("unrelated-record-added", func(t *testing.T) {
		t.Parallel()
		c := zoneCase{name: "changed-unrelated", records: unprovisionedZone,
			want:    wantItems{"spf": "update spf_merged", "mx": "update mx_platform_migration"},
			removed: "@ 300 TXT v=spf1 a mx ~all\n@ 300 MX 0 {d-}.mail.protection.outlook.com.",
			added:   "@ 300 TXT v=spf1 a mx {spf} ~all\n@ 300 MX 0 {d-}.r4nd.mx.microsoft."}
		zoneRead, plan := c.storeAndPlan(t, host)
		c.records += "\nblog 300 CNAME blog.elsewhere.test."
		host.replaceRecords(t, c.zone(), c.parseRecords(c.records))
		before := host.storedRecords(t, c.zone())
		must(t, c.applyIfUnchanged(t.Context(), host.provider(), zoneRead, plan))
		c.checkRecords(t, new(caseTotals), before, host.storedRecords(t, c.zone()))
	})
}

// run plans a zone, changes the zone, and checks that applyIfUnchanged fails and writes nothing.
// Unless only a plan detects the change, run checks the same for applyPlan.
func (change zoneChange) run(t *testing.T, host zoneHost) {
	c := zoneCase{name: "changed-" + change.name, records: unprovisionedZone}
	zoneRead, plan := c.storeAndPlan(t, host)
	removedLines := c.parseRecords(change.removed)
	remaining := slices.DeleteFunc(c.parseRecords(c.records), func(line zoneLine) bool { return slices.Contains(removedLines, line) })
	host.replaceRecords(t, c.zone(), append(remaining, c.parseRecords(change.added)...))
	before := rawTexts(host.storedRecords(t, c.zone()))
	if err := c.applyIfUnchanged(t.Context(), host.provider(), zoneRead, plan); !dns.IsChanged(err) {
		t.Errorf("with a second plan before the write the error is %v, want that the zone has changed", err)
	}
	if !change.onlyPlanDetects {
		if err := applyPlan(t.Context(), host.provider(), plan); !dns.IsChanged(err) {
			t.Errorf("without a second plan before the write the error is %v, want that the zone has changed", err)
		}
	}
	if diff := cmp.Diff(before, rawTexts(host.storedRecords(t, c.zone()))); diff != "" {
		t.Errorf("the zone was written (-before +now):\n%s", diff)
	}
}

// storeAndPlan stores the records of a zone at its provider and plans the changes of the zone.
func (c zoneCase) storeAndPlan(t *testing.T, host zoneHost) (dns.ZoneRead, dns.Plan) {
	t.Helper()
	host.replaceRecords(t, c.zone(), c.parseRecords(c.records))
	zoneRead := host.readDNS(t, c)
	plan := dns.NewPlan(c.offer(), zoneRead, nil)
	if !plan.SafeToApply() || len(plan.Changes) != 6 {
		t.Fatalf("the plan is unsafe or has a wrong number of changes, want a safe plan with 6 changes: %s: %+v", plan.Reason, plan.Items)
	}
	return zoneRead, plan
}

// applyPlan writes the changes of a plan without planning again.
func applyPlan(ctx context.Context, provider ports.DNSProvider, plan dns.Plan) error {
	zone, err := provider.Zone(ctx, plan.Zone)
	if err != nil {
		return err
	}
	_, err = provider.Apply(ctx, zone, plan.Changes)
	return err
}
