// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/ports"
)

// zoneCase is a zone with its records, the expected plan, and the expected records afterwards.
//
// Records are lines of name, TTL, type and content. {d} stands for the domain, {d-} for the domain
// with dashes instead of dots, and {spf} for the mail platform's include. A TXT content that begins
// with a quote is in zone file format. Other TXT content is literal.
type zoneCase struct {
	name    string // the zone is name.messy.test
	at      string // the label of the domain in the zone, or "" for the apex
	records string
	// want has the expected plan item of each purpose: the action and the reason, then "blocking"
	// if the item is blocking, then each note with a plus sign. For a purpose without an entry,
	// "create missing" is expected.
	want map[dns.Purpose]string
	// removed has the lines of records that the plan replaces with the lines of added. The lines of
	// added do not include the records of plan items with the action create.
	removed, added string
	onlyAt         string // the only provider that can host the zone
	// differsFromDNS is set if the provider's record list differs from its DNS answers and leads to
	// a different plan.
	differsFromDNS bool
}

func (c zoneCase) zone() string { return c.name + ".messy.test" }

func (c zoneCase) domain() string {
	if c.at != "" {
		return c.at + "." + c.zone()
	}
	return c.zone()
}

// zoneLine is one record as a user of the provider writes it.
type zoneLine struct {
	name       string
	ttl        int
	recordType dns.Type
	text       string // in the format of zoneCase
}

// plainText returns the text without flattenedMark and proxiedMark.
func (line zoneLine) plainText() string {
	return strings.TrimSuffix(strings.TrimSuffix(line.text, flattenedMark), proxiedMark)
}

// value returns the content in the format of dns.RRSet.
func (line zoneLine) value() string {
	text := line.plainText()
	if line.recordType == dns.TXT && !strings.HasPrefix(text, `"`) {
		return text
	}
	value, err := sdk.ReadContent(line.recordType, text)
	if err != nil {
		panic(fmt.Sprint(line, ": ", err))
	}
	if line.recordType == dns.MX || line.recordType == dns.CNAME || line.recordType == dns.NS {
		value = strings.ToLower(value)
	}
	return value
}

func (line zoneLine) String() string {
	return fmt.Sprint(line.key(), " ", line.ttl, " ", line.value())
}

// key returns the name and the type, which records of one set have in common.
func (line zoneLine) key() string { return strings.ToLower(line.name) + " " + string(line.recordType) }

func (c zoneCase) parseRecords(text string) []zoneLine {
	dashes := strings.ReplaceAll(c.domain(), ".", "-")
	return parseZoneLines(c.zone(), strings.NewReplacer("{d}", c.domain(), "{d-}", dashes, "{spf}", platformInclude).Replace(text))
}

// parseZoneLines parses records of a zone, one a line.
func parseZoneLines(zone, text string) []zoneLine {
	var lines []zoneLine
	for row := range strings.Lines(text) {
		if row = strings.TrimRight(strings.TrimLeft(row, "\t"), "\n"); row == "" {
			continue
		}
		parts := strings.SplitN(row, " ", 4)
		ttl, err := strconv.Atoi(parts[1])
		if err != nil || len(parts) != 4 {
			panic(row)
		}
		name := zone
		if parts[0] != "@" {
			name = parts[0] + "." + name
		}
		lines = append(lines, zoneLine{name, ttl, dns.Type(parts[2]), parts[3]})
	}
	return lines
}

func (c zoneCase) expectedItem(purpose dns.Purpose) string {
	return cmp.Or(c.want[purpose], "create missing")
}

// describeItem returns a plan item in the format of zoneCase.want.
func describeItem(item dns.Item) string {
	words := []string{string(item.Action), string(item.Reason)}
	if item.Blocking {
		words = append(words, "blocking")
	}
	for _, note := range item.Notes {
		words = append(words, "+"+string(note))
	}
	return strings.Join(words, " ")
}

// isBlocked reports whether an expected plan item is blocking. If so, nothing may be written.
func (c zoneCase) isBlocked() bool {
	for _, want := range c.want {
		if strings.Contains(want, " blocking") {
			return true
		}
	}
	return false
}

// expectedRecords returns the records that the zone must have after the plan was applied.
func (c zoneCase) expectedRecords() []zoneLine {
	linesBefore := c.parseRecords(c.records)
	if c.isBlocked() {
		return linesBefore
	}
	removedLines, addedLines := c.parseRecords(c.removed), c.parseRecords(c.added)
	expected := slices.DeleteFunc(linesBefore, func(line zoneLine) bool { return slices.Contains(removedLines, line) })
	expected = append(expected, addedLines...)
	for _, desired := range dns.DesiredRecords(c.domain(), c.offer()) {
		if !strings.HasPrefix(c.expectedItem(desired.Purpose), "create") {
			continue
		}
		created := zoneLine{desired.Name, 3600, desired.Type, desired.Content}
		if desired.Type == dns.MX {
			created.text = fmt.Sprint(desired.Preference, " ", desired.Content)
		}
		// A new record of an existing set gets the TTL of the set.
		if i := slices.IndexFunc(expected, func(line zoneLine) bool { return line.key() == created.key() }); i >= 0 {
			created.ttl = expected[i].ttl
		}
		expected = append(expected, created)
	}
	return expected
}

const platformInclude = "include:spf.protection.outlook.com"

func (c zoneCase) offer() dns.Offer {
	domain := c.domain()
	dashes := strings.ReplaceAll(domain, ".", "-")
	signingRecord := func(selector string) dns.Record {
		return dns.Record{Type: dns.CNAME, Name: selector + "._domainkey." + domain, TTL: 3600,
			Content: selector + "-" + dashes + "._domainkey.contoso.r-v1.dkim.mail.microsoft"}
	}
	return dns.Offer{
		Hosts: dns.PlatformHosts{
			Exchanges: []string{".mail.protection.outlook.com", ".mx.microsoft"}, Signers: []string{".onmicrosoft.com", ".dkim.mail.microsoft"},
			Verification: []string{".msv1.invalid"},
		},
		Verification: []dns.Record{
			{Type: dns.TXT, Name: domain, Content: "MS=ms12345678", TTL: 3600},
			{Type: dns.MX, Name: domain, Content: "ms12345678.msv1.invalid", Preference: 32767, TTL: 3600},
		},
		Service: []dns.Record{
			{Type: dns.MX, Name: domain, Content: dashes + ".r4nd.mx.microsoft", TTL: 3600},
			{Type: dns.TXT, Name: domain, Content: "v=spf1 " + platformInclude + " -all", TTL: 3600},
			{Type: dns.CNAME, Name: "autodiscover." + domain, Content: "autodiscover.outlook.com", TTL: 3600},
		},
		Signing: dns.Signing{Selector1: signingRecord("selector1"), Selector2: signingRecord("selector2")},
	}
}

// caseTotals counts the results of all cases of a test.
type caseTotals struct{ zones, written, refused, destroyed, wrong, unexplained atomic.Int64 }

// runZoneCases runs the cases that the provider can host.
func runZoneCases(t *testing.T, host zoneHost, zones []zoneCase, provider string) {
	t.Helper()
	var totals caseTotals
	t.Cleanup(func() {
		t.Logf("%d zones: %d written, %d refused with a reason; %d unplanned records destroyed, %d wrong writes, %d unexplained refusals",
			totals.zones.Load(), totals.written.Load(), totals.refused.Load(), totals.destroyed.Load(), totals.wrong.Load(), totals.unexplained.Load())
	})
	for _, c := range zones {
		if c.onlyAt != "" && c.onlyAt != provider {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			totals.zones.Add(1)
			c.planAndApply(t, host, &totals)
		})
	}
}

// planAndApply plans a zone, applies the plan if it is safe, and checks the result.
func (c zoneCase) planAndApply(t *testing.T, host zoneHost, totals *caseTotals) {
	host.replaceRecords(t, c.zone(), c.parseRecords(c.records))
	before := host.storedRecords(t, c.zone())
	zoneRead := host.readDNS(t, c)
	public := dns.NewPlan(c.offer(), zoneRead, nil)
	c.checkPlan(t, totals, public)
	_, planned, err := c.providerPlan(t.Context(), host.provider(), zoneRead)
	must(t, err)
	if (public.Hash() != planned.Hash()) != c.differsFromDNS {
		t.Errorf("the plan from the provider's records is %+v and the plan from DNS %+v, want different plans: %v", planned.Items, public.Items, c.differsFromDNS)
	}
	if planned.SafeToApply() == c.isBlocked() {
		t.Fatalf("safe to apply is %v, want %v: %s", planned.SafeToApply(), !c.isBlocked(), planned.Reason)
	}
	if !planned.SafeToApply() {
		totals.refused.Add(1)
	} else {
		totals.written.Add(1)
		must(t, c.applyIfUnchanged(t.Context(), host.provider(), zoneRead, planned))
	}
	c.checkRecords(t, totals, before, host.storedRecords(t, c.zone()))
	c.checkPlanAfterwards(t, host, public)
}

// providerPlan returns the zone at the provider, and the plan that the service makes before a
// write. The plan uses the provider's record list in place of the answers of public DNS.
func (c zoneCase) providerPlan(ctx context.Context, provider ports.DNSProvider, zoneRead dns.ZoneRead) (zone dns.Zone, plan dns.Plan, err error) {
	if zone, err = provider.Zone(ctx, c.zone()); err != nil {
		return zone, plan, err
	}
	storedSets, err := provider.Records(ctx, zone)
	if err != nil {
		return zone, plan, err
	}
	return zone, dns.NewPlan(c.offer(), zoneRead.WithProviderRecords(storedSets, dns.DesiredRecords(c.domain(), c.offer())...), nil), nil
}

// applyIfUnchanged applies a plan as the service does: it plans again from the provider's current
// records and writes only if the plan is the same.
func (c zoneCase) applyIfUnchanged(ctx context.Context, provider ports.DNSProvider, zoneRead dns.ZoneRead, plan dns.Plan) error {
	zone, current, err := c.providerPlan(ctx, provider, zoneRead)
	if err != nil {
		return err
	}
	if current.Hash() != plan.Hash() {
		return dns.ChangedError()
	}
	_, err = provider.Apply(ctx, zone, plan.Changes)
	return err
}

// checkPlan compares each item of a plan with the expected item.
func (c zoneCase) checkPlan(t *testing.T, totals *caseTotals, plan dns.Plan) {
	t.Helper()
	if !plan.Reliable || plan.Zone != c.zone() {
		t.Fatalf("the read of %s in the zone %s is not reliable, or the zone is not %s: %s", c.domain(), plan.Zone, c.zone(), plan.Reason)
	}
	if len(plan.Items) != len(dns.DesiredRecords(c.domain(), c.offer())) {
		t.Errorf("the plan has %d items, want one for each wanted record", len(plan.Items))
	}
	for _, item := range plan.Items {
		if got, want := describeItem(item), c.expectedItem(item.Purpose); got != want {
			t.Errorf("%s: the item is %q, want %q; observed %q", item.Purpose, got, want, item.Observed)
		}
		if item.Reason.Explain() == "" {
			totals.unexplained.Add(1)
			t.Errorf("%s: the reason %s has no explanation", item.Purpose, item.Reason)
		}
	}
}

// checkRecords compares the records of a zone before and after its plan was applied. Each record
// that the plan does not replace must be unchanged, and exactly the planned records must be added.
func (c zoneCase) checkRecords(t *testing.T, totals *caseTotals, before, after []storedRecord) {
	t.Helper()
	replaced := sortedTexts(c.parseRecords(c.removed))
	if c.isBlocked() {
		replaced = nil
	}
	remaining := rawTexts(after)
	for _, record := range before {
		if slices.Contains(replaced, record.String()) {
			continue
		}
		i := slices.Index(remaining, record.raw)
		if i < 0 {
			totals.destroyed.Add(1)
			t.Errorf("the plan does not replace the record %s, but it is gone", record.raw)
			continue
		}
		remaining = slices.Delete(remaining, i, i+1)
	}
	var got []zoneLine
	for _, record := range after {
		got = append(got, record.zoneLine)
	}
	if diff := gocmp.Diff(sortedTexts(c.expectedRecords()), sortedTexts(got)); diff != "" {
		totals.wrong.Add(1)
		t.Errorf("the zone afterwards (-want +got):\n%s", diff)
	}
}

func sortedTexts(lines []zoneLine) []string {
	var texts []string
	for _, line := range lines {
		texts = append(texts, fmt.Sprint(line))
	}
	return slices.Sorted(slices.Values(texts))
}

// rawTexts returns the records in the provider's format.
func rawTexts(records []storedRecord) []string {
	var texts []string
	for _, r := range records {
		texts = append(texts, r.raw)
	}
	return texts
}

// checkPlanAfterwards reads the zone again by DNS. It checks that the planned records are present,
// and that a new plan has no changes. Only conflicts of planBefore may remain. If the case is
// blocked, the new plan must be the same as planBefore.
func (c zoneCase) checkPlanAfterwards(t *testing.T, host zoneHost, planBefore dns.Plan) {
	t.Helper()
	zoneRead := host.readDNS(t, c)
	after := dns.NewPlan(c.offer(), zoneRead, nil)
	if c.isBlocked() {
		if after.Hash() != planBefore.Hash() {
			t.Errorf("without a write the plan has become %+v", after.Items)
		}
		return
	}
	if len(after.Changes) != 0 || !after.SafeToApply() {
		t.Errorf("after the write a new plan has the changes %+v or is not safe: %s", after.Changes, after.Reason)
	}
	for i, item := range after.Items {
		itemBefore := planBefore.Items[i]
		if item.Action != dns.Preserve && (itemBefore.Action != dns.Conflict || item.Reason != itemBefore.Reason) {
			t.Errorf("after the write the item %q has become %q", describeItem(itemBefore), describeItem(item))
		}
		isWritten := itemBefore.Action == dns.Create || itemBefore.Action == dns.Update
		if isWritten && !slices.Contains(dns.Find(zoneRead.Sets, itemBefore.Name, itemBefore.Type).Values, itemBefore.Desired) {
			t.Errorf("the servers do not show %q at %s", itemBefore.Desired, itemBefore.Name)
		}
	}
}

// TestSafeZonePlansAreAppliedAtPowerDNS plans each prepared zone from the DNS of a real server. It
// applies the safe plans through the plugin, and compares provider and DNS with the expected
// records.
func TestSafeZonePlansAreAppliedAtPowerDNS(t *testing.T) {
	t.Parallel()
	runZoneCases(t, newPowerDNSHost(t), sharedZoneCases(), "powerdns")
}

// TestSafeZonePlansAreAppliedAtCloudflare is TestSafeZonePlansAreAppliedAtPowerDNS with the
// simulator of Cloudflare, and with cases that only Cloudflare has.
func TestSafeZonePlansAreAppliedAtCloudflare(t *testing.T) {
	t.Parallel()
	runZoneCases(t, newCloudflareHost(t), append(sharedZoneCases(), cloudflareCases...), "cloudflare")
}
