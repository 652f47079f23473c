// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// Each of these types breaks one promise of ports.SendPolicies, ports.SendDays or ports.SendRuns.
type (
	intentsShown struct{ sendPoliciesPort }
	wideForAll   struct{ sendPoliciesPort }
	anyScope     struct{ sendPoliciesPort }
	undying      struct{ sendPoliciesPort }
	freshIDs     struct{ sendPoliciesPort }
	openPolicies struct {
		sendPoliciesPort
		all Stores
	}
	forgetsRules  struct{ sendPoliciesPort }
	blindToBlocks struct{ sendPoliciesPort }
	everyonesDay  struct{ sendDaysPort }
	keepsMark     struct{ sendRunsPort }
	keepsRun      struct {
		sendRunsPort
		all Stores
	}
	alwaysAnew     struct{ sendDaysPort }
	unfencedSends  struct{ sendRunsPort }
	sharedTenants  struct{ sendRunsPort } // every claim wins
	earlySends     struct{ sendRunsPort }
	impatientSends struct{ sendRunsPort }
	oldestTenants  struct{ Stores }
	askRevoked     struct {
		sendRunsPort
		all Stores
	}
	heldReleased  struct{ sendRunsPort }
	countsAdded   struct{ sendRunsPort }
	allIsToday    struct{ sendRunsPort }
	partsAreWhole struct{ sendRunsPort }
	marksMove     struct{ sendRunsPort }
	countsForever struct{ sendRunsPort }
	eventsAnyway  struct {
		sendRunsPort
		all Stores
	}
	eventsNever      struct{ sendRunsPort }
	neverLetGo       struct{ sendRunsPort }
	byTheClock       struct{ enforcementEventsPort }
	endsSilently     struct{ enforcementEventsPort }
	endsWithoutLimit struct{ enforcementEventsPort }
	dropsAnyway      struct{ sendRunsPort }
	forgetsLiving    struct {
		sendPoliciesPort
		all Stores
	}
)

// intentsShown returns policies that are only reserved.
func (b intentsShown) Policy(ctx context.Context, owner access.AccountID, id tenant.GUID, scope string) (sendlimit.Policy, error) {
	p, err := b.sendPoliciesPort.Policy(ctx, owner, id, scope)
	if scopes, _ := b.RuledScopes(ctx, owner, id); errors.Is(err, fault.PolicyNotFound) && slices.Contains(scopes, scope) {
		return p, nil
	}
	return p, err
}

func (b wideForAll) Policy(ctx context.Context, owner access.AccountID, id tenant.GUID, scope string) (sendlimit.Policy, error) {
	p, err := b.sendPoliciesPort.Policy(ctx, owner, id, scope)
	if errors.Is(err, fault.PolicyNotFound) {
		return b.sendPoliciesPort.Policy(ctx, owner, id, sendlimit.TenantWide)
	}
	return p, err
}

func (b anyScope) ReservePolicy(ctx context.Context, owner access.AccountID, id tenant.GUID, scope string, at time.Time) (sendlimit.Policy, error) {
	p, err := b.sendPoliciesPort.ReservePolicy(ctx, owner, id, scope, at)
	if errors.Is(err, fault.DomainNotFound) {
		return b.sendPoliciesPort.ReservePolicy(ctx, owner, id, sendlimit.TenantWide, at)
	}
	return p, err
}

// undying saves a policy although its domain is deleted.
func (b undying) SavePolicy(ctx context.Context, owner access.AccountID, p sendlimit.Policy, completion *ports.Completion) error {
	err := b.sendPoliciesPort.SavePolicy(ctx, owner, p, completion)
	if p.Scope != "" && errors.Is(err, fault.PolicyNotFound) {
		return nil
	}
	return err
}

func (b freshIDs) ReservePolicy(ctx context.Context, owner access.AccountID, id tenant.GUID, scope string, at time.Time) (sendlimit.Policy, error) {
	p, err := b.sendPoliciesPort.ReservePolicy(ctx, owner, id, scope, at)
	p.CreatedAt = at
	return p, err
}

func (b openPolicies) Policies(ctx context.Context, owner access.AccountID, id tenant.GUID) ([]sendlimit.Policy, error) {
	return firstSuccess(ctx, b.all, func(owner access.AccountID) ([]sendlimit.Policy, error) {
		return b.sendPoliciesPort.Policies(ctx, owner, id)
	})
}

func (b forgetsRules) RuledScopes(ctx context.Context, owner access.AccountID, id tenant.GUID) ([]string, error) {
	all, err := b.sendPoliciesPort.Policies(ctx, owner, id)
	scopes := []string{}
	for _, p := range all {
		scopes = append(scopes, p.Scope)
	}
	return scopes, err
}

func (b blindToBlocks) RuledScopes(ctx context.Context, owner access.AccountID, id tenant.GUID) ([]string, error) {
	scopes, err := b.sendPoliciesPort.RuledScopes(ctx, owner, id)
	if all, _ := b.sendPoliciesPort.Policies(ctx, owner, id); len(scopes) == 1 && len(all) == 0 {
		return nil, nil
	}
	return scopes, err
}

func (b everyonesDay) SetDay(ctx context.Context, id tenant.GUID, timeZone string) (access.AccountID, error) {
	_, _ = b.sendDaysPort.SetDay(ctx, guid(2), timeZone)
	return b.sendDaysPort.SetDay(ctx, id, timeZone)
}

func (b keepsMark) ClaimTenant(ctx context.Context, owner access.AccountID, id tenant.GUID, lease time.Duration, at time.Time) (ports.SendRun, bool, error) {
	r, won, err := b.sendRunsPort.ClaimTenant(ctx, owner, id, lease, at)
	if r.TimeZone != sendlimit.DefaultTimeZone {
		r.Mark = at
	}
	return r, won, err
}

func (b keepsRun) HoldTenant(ctx context.Context, r ports.SendRun, lease time.Duration) (bool, error) {
	held, err := b.sendRunsPort.HoldTenant(ctx, r, lease)
	if timeZone, _, _ := b.all.Day(ctx, r.Tenant); timeZone != sendlimit.DefaultTimeZone {
		return true, nil
	}
	return held, err
}

func (b alwaysAnew) SetDay(ctx context.Context, id tenant.GUID, timeZone string) (access.AccountID, error) {
	if now, _, _ := b.Day(ctx, id); now == timeZone {
		_, _ = b.sendDaysPort.SetDay(ctx, id, "Asia/Tokyo")
	}
	return b.sendDaysPort.SetDay(ctx, id, timeZone)
}

// unfencedSends writes for a run that has lost the tenant.
func (b unfencedSends) SaveChanges(ctx context.Context, r ports.SendRun, c ports.SendChanges) (bool, error) {
	held, err := b.sendRunsPort.SaveChanges(ctx, r, c)
	if !held && err == nil {
		r.Epoch++
		_, err = b.sendRunsPort.SaveChanges(ctx, r, c)
	}
	return held, err
}

func (b sharedTenants) ClaimTenant(ctx context.Context, owner access.AccountID, id tenant.GUID, lease time.Duration, at time.Time) (ports.SendRun, bool, error) {
	r, won, err := b.sendRunsPort.ClaimTenant(ctx, owner, id, lease, at)
	return r, won || err == nil && at.Equal(dueTime), err
}

func (b earlySends) ClaimTenant(ctx context.Context, owner access.AccountID, id tenant.GUID, lease time.Duration, at time.Time) (ports.SendRun, bool, error) {
	return b.sendRunsPort.ClaimTenant(ctx, owner, id, lease, at.Add(time.Second))
}

// impatientSends compares leases with the caller's clock.
func (b impatientSends) DueTenants(ctx context.Context, at time.Time, most int) ([]ports.DueTenant, error) {
	all, err := b.sendRunsPort.DueTenants(ctx, at, most)
	if len(all) == 0 && at.Sub(dueTime) > 100*time.Hour {
		return []ports.DueTenant{{Tenant: guid(1)}}, err
	}
	return all, err
}

func (b oldestTenants) DueTenants(ctx context.Context, at time.Time, most int) ([]ports.DueTenant, error) {
	all, err := b.Stores.DueTenants(ctx, at, 1000)
	slices.SortStableFunc(all, func(a, b ports.DueTenant) int { return a.At.Compare(b.At) })
	return all[:min(most, len(all))], err
}

func (b askRevoked) DueTenants(ctx context.Context, at time.Time, most int) ([]ports.DueTenant, error) {
	all, err := b.sendRunsPort.DueTenants(ctx, at, most)
	accounts, _ := b.all.Accounts(ctx)
	for _, a := range accounts {
		held, _ := b.all.Tenants(ctx, a.ID)
		for _, t := range held {
			if t.Consent == tenant.ConsentRevoked {
				all = append(all, ports.DueTenant{Account: a.ID, Tenant: t.GUID})
			}
		}
	}
	return all, err
}

func (b heldReleased) HoldTenant(ctx context.Context, r ports.SendRun, lease time.Duration) (bool, error) {
	held, err := b.sendRunsPort.HoldTenant(ctx, r, lease)
	if !held && err == nil && r.Epoch == 2 {
		return true, nil
	}
	return held, err
}

func (b countsAdded) SaveCounts(ctx context.Context, r ports.SendRun, c ports.SendCounts) (bool, error) {
	boxes, _ := b.SendBoxes(ctx, r, dayStart)
	for _, box := range boxes {
		if counts := c.Boxes[box.ID]; len(counts) > 0 && len(box.Counts) > 0 {
			more := slices.Clone(counts)
			more[0].Final += box.Counts[0].Final
			c.Boxes = map[string][]sendlimit.Count{box.ID: more}
		}
	}
	return b.sendRunsPort.SaveCounts(ctx, r, c)
}

// allIsToday shows the count of any day as the count of the current day.
func (b allIsToday) SaveCounts(ctx context.Context, r ports.SendRun, c ports.SendCounts) (bool, error) {
	for _, counts := range c.Boxes {
		c.Today = counts[len(counts)-1].Day
		if !c.Today.Equal(dayStart) {
			break
		}
	}
	return b.sendRunsPort.SaveCounts(ctx, r, c)
}

func (b partsAreWhole) SaveCounts(ctx context.Context, r ports.SendRun, c ports.SendCounts) (bool, error) {
	for id, counts := range c.Boxes {
		for i := range counts {
			c.Boxes[id][i].Partial = false
		}
	}
	return b.sendRunsPort.SaveCounts(ctx, r, c)
}

func (b marksMove) SaveCounts(ctx context.Context, r ports.SendRun, c ports.SendCounts) (bool, error) {
	if c.Mark.IsZero() {
		c.Mark = c.At
	}
	return b.sendRunsPort.SaveCounts(ctx, r, c)
}

func (b countsForever) SaveCounts(ctx context.Context, r ports.SendRun, c ports.SendCounts) (bool, error) {
	c.Mark = now.Truncate(time.Microsecond)
	return b.sendRunsPort.SaveCounts(ctx, r, c)
}

// eventsAnyway records an event for a change that was already stored.
func (b eventsAnyway) SaveChanges(ctx context.Context, r ports.SendRun, c ports.SendChanges) (bool, error) {
	held, err := b.sendRunsPort.SaveChanges(ctx, r, c)
	if held && err == nil && len(c.Done) == 1 {
		_ = b.all.RecordEvents(ctx, r.Account, []sendlimit.Event{c.Done[0].Event})
	}
	return held, err
}

func (b eventsNever) SaveChanges(ctx context.Context, r ports.SendRun, c ports.SendChanges) (bool, error) {
	c.Done = nil
	return b.sendRunsPort.SaveChanges(ctx, r, c)
}

// endsSilently omits the events of unblocked mailboxes.
func (b endsSilently) Events(ctx context.Context, owner access.AccountID, q ports.EventQuery) (ports.EventPage, error) {
	page, err := b.enforcementEventsPort.Events(ctx, owner, q)
	all := len(page.Events)
	page.Events = slices.DeleteFunc(page.Events, func(e sendlimit.Event) bool { return e.Action == sendlimit.Unblocked })
	page.Total -= all - len(page.Events)
	return page, err
}

// endsWithoutLimit removes a limit of 25 from the events of unblocked mailboxes.
func (b endsWithoutLimit) Events(ctx context.Context, owner access.AccountID, q ports.EventQuery) (ports.EventPage, error) {
	page, err := b.enforcementEventsPort.Events(ctx, owner, q)
	for i, e := range page.Events {
		if e.Action == sendlimit.Unblocked && e.Limit == 25 {
			page.Events[i].Limit = 0
		}
	}
	return page, err
}

// dropsAnyway returns no intents if there are several, as if a sync had dropped them.
func (b dropsAnyway) Intents(ctx context.Context, r ports.SendRun) ([]sendlimit.Change, error) {
	all, err := b.sendRunsPort.Intents(ctx, r)
	if len(all) > 1 {
		all = nil
	}
	return all, err
}

// byTheClock gives all events the same time, as if the clock stood still.
func (b byTheClock) Events(ctx context.Context, owner access.AccountID, q ports.EventQuery) (ports.EventPage, error) {
	page, err := b.enforcementEventsPort.Events(ctx, owner, q)
	for i := range page.Events {
		e := &page.Events[i]
		e.ID, e.At = ident.New(saveTime, [ident.Entropy]byte{byte(i)}), saveTime
	}
	return page, err
}

func (b neverLetGo) SaveChanges(ctx context.Context, r ports.SendRun, c ports.SendChanges) (bool, error) {
	c.Done = slices.DeleteFunc(slices.Clone(c.Done), func(c sendlimit.Change) bool { return c.Action == sendlimit.Unblocked })
	return b.sendRunsPort.SaveChanges(ctx, r, c)
}

// forgetsLiving omits the scopes of all domains after the domain a.test is deleted.
func (b forgetsLiving) RuledScopes(ctx context.Context, owner access.AccountID, id tenant.GUID) ([]string, error) {
	scopes, err := b.sendPoliciesPort.RuledScopes(ctx, owner, id)
	if _, lost := b.all.Domain(ctx, owner, id, "a.test"); lost != nil {
		scopes = slices.DeleteFunc(scopes, func(scope string) bool { return strings.HasSuffix(scope, ".test") })
	}
	return scopes, err
}

// Each of these types breaks one promise of ports.SendWatch.
type (
	leasedWait   struct{ sendWatchPort }
	neverBehind  struct{ sendWatchPort }
	neverStrands struct{ sendWatchPort }
	neverPaused  struct {
		sendRunsPort
		all Stores
	}
)

func (b leasedWait) SendHealth(ctx context.Context, at, behind time.Time) (ports.SendHealth, error) {
	h, err := b.sendWatchPort.SendHealth(ctx, at, behind)
	if h.Due.IsZero() && !at.Before(now) {
		h.Due = now
	}
	return h, err
}

func (b neverBehind) SendHealth(ctx context.Context, at, _ time.Time) (ports.SendHealth, error) {
	return b.sendWatchPort.SendHealth(ctx, at, time.Time{})
}

func (b neverStrands) SendHealth(ctx context.Context, at, behind time.Time) (ports.SendHealth, error) {
	h, err := b.sendWatchPort.SendHealth(ctx, at, behind)
	h.Stranded = 0
	return h, err
}

// neverPaused leaves out the tenants of suspended accounts.
func (b neverPaused) DueTenants(ctx context.Context, at time.Time, most int) ([]ports.DueTenant, error) {
	all, err := b.sendRunsPort.DueTenants(ctx, at, most)
	return slices.DeleteFunc(all, func(d ports.DueTenant) bool {
		acc, _ := b.all.FindAccount(ctx, string(d.Account))
		return !acc.Active
	}), err
}

func TestSendLimitSuitesDetectBrokenPromises(t *testing.T) {
	store := reusedStore(t)
	for name, b := range map[string]struct {
		suite        []storeCheck
		breakPromise func(Stores) Stores
	}{
		"an intent is a policy":                             {sendPolicyChecks, func(s Stores) Stores { return withPort(s, intentsShown{s}) }},
		"the tenant's policy is returned for every domain":  {sendPolicyChecks, func(s Stores) Stores { return withPort(s, wideForAll{s}) }},
		"an unknown domain has a policy":                    {sendPolicyChecks, func(s Stores) Stores { return withPort(s, anyScope{s}) }},
		"a policy outlives its domain":                      {sendPolicyChecks, func(s Stores) Stores { return withPort(s, undying{s}) }},
		"a policy is created again":                         {sendPolicyChecks, func(s Stores) Stores { return withPort(s, freshIDs{s}) }},
		"foreign policies are listed":                       {sendPolicyChecks, func(s Stores) Stores { return withPort(s, openPolicies{s, s}) }},
		"the scope of a deleted policy is forgotten":        {sendPolicyChecks, func(s Stores) Stores { return withPort(s, forgetsRules{s}) }},
		"the scope of a blocking rule is forgotten":         {sendChangeChecks, func(s Stores) Stores { return withPort(s, blindToBlocks{s}) }},
		"a day is set for other tenants too":                {sendDayChecks, func(s Stores) Stores { return withPort(s, everyonesDay{s}) }},
		"the mark survives a new time zone":                 {sendDayChecks, func(s Stores) Stores { return withPort(s, keepsMark{s}) }},
		"a run survives a new time zone":                    {sendDayChecks, func(s Stores) Stores { return withPort(s, keepsRun{s, s}) }},
		"setting the current time zone restarts the counts": {sendDayChecks, func(s Stores) Stores { return withPort(s, alwaysAnew{s}) }},
		"a run that lost its tenant writes":                 {sendRunChecks, func(s Stores) Stores { return withPort(s, unfencedSends{s}) }},
		"SeizeTenant does not take a tenant from a run":     {sendRunChecks, func(s Stores) Stores { return withPort(s, waitsForRuns{s}) }},
		"a claim before the due time changes the due time":  {sendRunChecks, func(s Stores) Stores { return withPort(s, lateByClaims{s}) }},
		"several concurrent claims succeed":                 {sendRunChecks, func(s Stores) Stores { return withPort(s, sharedTenants{s}) }},
		"a tenant is claimed before its time":               {sendRunChecks, func(s Stores) Stores { return withPort(s, earlySends{s}) }},
		"the caller's clock ends a lease":                   {sendRunChecks, func(s Stores) Stores { return withPort(s, impatientSends{s}) }},
		"one account's tenants come first":                  {sendRunChecks, func(s Stores) Stores { return oldestTenants{s} }},
		"a tenant without consent is due":                   {sendRunChecks, func(s Stores) Stores { return withPort(s, askRevoked{s, s}) }},
		"a run that ended is held":                          {sendRunChecks, func(s Stores) Stores { return withPort(s, heldReleased{s}) }},
		"repeated counts are added":                         {sendRunChecks, func(s Stores) Stores { return withPort(s, countsAdded{s}) }},
		"a partial count passes for a complete one":         {sendRunChecks, func(s Stores) Stores { return withPort(s, partsAreWhole{s}) }},
		"a partial count moves the mark":                    {sendRunChecks, func(s Stores) Stores { return withPort(s, marksMove{s}) }},
		"yesterday's count is shown":                        {sendRunChecks, func(s Stores) Stores { return withPort(s, allIsToday{s}) }},
		"counts are never deleted":                          {sendRunChecks, func(s Stores) Stores { return withPort(s, countsForever{s}) }},
		"tenants of suspended accounts are not due":         {sendRunChecks, func(s Stores) Stores { return withPort(s, neverPaused{s, s}) }},
		"a claimed tenant counts as waiting":                {sendWatchChecks, func(s Stores) Stores { return withPort(s, leasedWait{s}) }},
		"no tenant is ever lagging":                         {sendWatchChecks, func(s Stores) Stores { return withPort(s, neverBehind{s}) }},
		"no mailbox is ever stranded":                       {sendWatchChecks, func(s Stores) Stores { return withPort(s, neverStrands{s}) }},
		"a change without effect has an event":              {sendChangeChecks, func(s Stores) Stores { return withPort(s, eventsAnyway{s, s}) }},
		"changes are not stored":                            {sendChangeChecks, func(s Stores) Stores { return withPort(s, eventsNever{s}) }},
		"events of one moment are out of order":             {sendChangeChecks, func(s Stores) Stores { return withPort(s, byTheClock{s}) }},
		"a block ends without an event":                     {sendGoneChecks, func(s Stores) Stores { return withPort(s, endsSilently{s}) }},
		"a block had no limit":                              {sendGoneChecks, func(s Stores) Stores { return withPort(s, endsWithoutLimit{s}) }},
		"intents are forgotten":                             {sendGoneChecks, func(s Stores) Stores { return withPort(s, dropsAnyway{s}) }},
		"no mailbox is unblocked":                           {sendChangeChecks, func(s Stores) Stores { return withPort(s, neverLetGo{s}) }},
		"a scope that was not emptied is forgotten":         {sendChangeChecks, func(s Stores) Stores { return withPort(s, forgetsLiving{s, s}) }},
	} {
		t.Run(name, func(t *testing.T) { requireDetected(t, store, b.suite, b.breakPromise) })
	}
}
