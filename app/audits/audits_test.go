// SPDX-License-Identifier: Apache-2.0

package audits_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/app/audits"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/ports"
)

// fakeChains is a fake of audit chains. Its fields hold the results of its methods, and record the
// arguments.
type fakeChains struct {
	ports.AuditChains
	old, lost []int           // the results of the next calls of DropAuditEntries and RecordLostWrites
	err       error           // returned when no results are left in old or lost, and by AuditExport
	before    []time.Time     // the arguments of the calls of DropAuditEntries
	ages      []time.Duration // the arguments of the calls of RecordLostWrites
	entries   []audit.Entry   // returned by AuditExport
}

func (c *fakeChains) next(results *[]int) (int, error) {
	if len(*results) == 0 {
		return 0, c.err
	}
	n := (*results)[0]
	*results = (*results)[1:]
	return n, nil
}

func (c *fakeChains) DropAuditEntries(_ context.Context, before time.Time, _ int) (int, error) {
	c.before = append(c.before, before)
	return c.next(&c.old)
}

func (c *fakeChains) RecordLostWrites(_ context.Context, age time.Duration, _ int) (int, error) {
	c.ages = append(c.ages, age)
	return c.next(&c.lost)
}

func (c *fakeChains) AuditExport(_ context.Context, _ access.AccountID, after int64, _ int) ([]audit.Entry, error) {
	return slices.DeleteFunc(slices.Clone(c.entries), func(e audit.Entry) bool { return e.Sequence <= after }), c.err
}

func newService(c *fakeChains, retention time.Duration) *audits.Service {
	return &audits.Service{Chains: c, Retention: retention, Now: func() time.Time {
		return time.Date(2026, 11, 21, 1, 30, 0, 0, time.FixedZone("east", 2*3600)) // 20 November, 23:30 in UTC
	}}
}

func TestDeleteOldEntriesDropsWholeDays(t *testing.T) {
	c := &fakeChains{old: []int{5000, 5000, 7}}
	if err := newService(c, 48*time.Hour).DeleteOldEntries(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC)
	if len(c.before) != 4 || !slices.ContainsFunc(c.before, want.Equal) {
		t.Errorf("dropped before %v, want 4 times before %v", c.before, want)
	}
}

func TestZeroOrNegativeRetentionDeletesNothing(t *testing.T) {
	for _, retention := range []time.Duration{0, -24 * time.Hour} {
		c := &fakeChains{old: []int{1}}
		if err := newService(c, retention).DeleteOldEntries(t.Context()); err != nil || len(c.before) != 0 {
			t.Errorf("with the retention %s, entries before %v were deleted, %v", retention, c.before, err)
		}
	}
}

func TestRecordLostWritesRecordsAll(t *testing.T) {
	c := &fakeChains{lost: []int{500, 3}}
	if err := newService(c, 0).RecordLostWrites(t.Context()); err != nil || !slices.Equal(c.ages, []time.Duration{time.Minute, time.Minute, time.Minute}) {
		t.Errorf("RecordLostWrites was called with the ages %v, want 3 times one minute; the error is %v", c.ages, err)
	}
}

func TestFailuresOfTheStoreEndTheWork(t *testing.T) {
	errStore := errors.New("away")
	c := &fakeChains{old: []int{1}, lost: []int{1}, err: errStore}
	service := newService(c, time.Hour)
	if err := service.DeleteOldEntries(t.Context()); !errors.Is(err, errStore) {
		t.Errorf("delete old entries: %v", err)
	}
	if err := service.RecordLostWrites(t.Context()); !errors.Is(err, errStore) {
		t.Errorf("record lost writes: %v", err)
	}
}

// TestExportHasNoGap checks that an export fails if entries are dropped before the export has read
// them.
func TestExportHasNoGap(t *testing.T) {
	c := &fakeChains{entries: []audit.Entry{{Sequence: 5}, {Sequence: 6}}}
	service := newService(c, 0)
	for after, want := range map[int64]int{0: 2, 4: 2, 5: 1, 6: 0} {
		if got, err := service.ExportPage(t.Context(), "a", after); err != nil || len(got) != want {
			t.Errorf("after %d: %v, %v", after, got, err)
		}
	}
	if _, err := service.ExportPage(t.Context(), "a", 3); err == nil {
		t.Error("an export with a gap did not fail")
	}
}
