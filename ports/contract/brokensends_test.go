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

// Each of these breaks one promise of ports.SendPolicies, SendDays or SendRuns.
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

// intentsShown has policies in force that are only meant to be.
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

// undying saves a policy whose domain is gone.
func (b undying) SavePolicy(ctx context.Context, owner access.AccountID, p sendlimit.Policy) error {
	err := b.sendPoliciesPort.SavePolicy(ctx, owner, p)
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
	return everyone(ctx, b.all, func(owner access.AccountID) ([]sendlimit.Policy, error) {
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

func (b everyonesDay) SetDay(ctx context.Context, id tenant.GUID, place string) (access.AccountID, error) {
	_, _ = b.sendDaysPort.SetDay(ctx, guid(2), place)
	return b.sendDaysPort.SetDay(ctx, id, place)
}

func (b keepsMark) ClaimTenant(ctx context.Context, owner access.AccountID, id tenant.GUID, lease time.Duration, at time.Time) (ports.SendRun, bool, error) {
	r, won, err := b.sendRunsPort.ClaimTenant(ctx, owner, id, lease, at)
	if r.Place != sendlimit.UsualPlace {
		r.Mark = at
	}
	return r, won, err
}

func (b keepsRun) HoldTenant(ctx context.Context, r ports.SendRun, lease time.Duration) (bool, error) {
	held, err := b.sendRunsPort.HoldTenant(ctx, r, lease)
	if place, _, _ := b.all.Day(ctx, r.Tenant); place != sendlimit.UsualPlace {
		return true, nil
	}
	return held, err
}

func (b alwaysAnew) SetDay(ctx context.Context, id tenant.GUID, place string) (access.AccountID, error) {
	if now, _, _ := b.Day(ctx, id); now == place {
		_, _ = b.sendDaysPort.SetDay(ctx, id, "Asia/Tokyo")
	}
	return b.sendDaysPort.SetDay(ctx, id, place)
}

// unfencedSends writes for whoever has the tenant.
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
	return r, won || err == nil && at.Equal(later), err
}

func (b earlySends) ClaimTenant(ctx context.Context, owner access.AccountID, id tenant.GUID, lease time.Duration, at time.Time) (ports.SendRun, bool, error) {
	return b.sendRunsPort.ClaimTenant(ctx, owner, id, lease, at.Add(time.Second))
}

// impatientSends takes the caller's clock for that of leases.
func (b impatientSends) DueTenants(ctx context.Context, at time.Time, most int) ([]ports.DueTenant, error) {
	all, err := b.sendRunsPort.DueTenants(ctx, at, most)
	if len(all) == 0 && at.Sub(later) > 100*time.Hour {
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
	boxes, _ := b.SendBoxes(ctx, r, midnight)
	for _, box := range boxes {
		if counts := c.Boxes[box.ID]; len(counts) > 0 && len(box.Counts) > 0 {
			more := slices.Clone(counts)
			more[0].Settled += box.Counts[0].Settled
			c.Boxes = map[string][]sendlimit.Count{box.ID: more}
		}
	}
	return b.sendRunsPort.SaveCounts(ctx, r, c)
}

// allIsToday shows the count of any day.
func (b allIsToday) SaveCounts(ctx context.Context, r ports.SendRun, c ports.SendCounts) (bool, error) {
	for _, counts := range c.Boxes {
		c.Today = counts[len(counts)-1].Day
		if !c.Today.Equal(midnight) {
			break
		}
	}
	return b.sendRunsPort.SaveCounts(ctx, r, c)
}

func (b partsAreWhole) SaveCounts(ctx context.Context, r ports.SendRun, c ports.SendCounts) (bool, error) {
	for id, counts := range c.Boxes {
		for i := range counts {
			c.Boxes[id][i].Part = false
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

// eventsAnyway records the event of a change that was made before.
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

// endsSilently lets mailboxes go without a word when a sync drops them, and
// endsWithoutLimit by no limit.
func (b endsSilently) Events(ctx context.Context, owner access.AccountID, q ports.EventQuery) (ports.EventPage, error) {
	page, err := b.enforcementEventsPort.Events(ctx, owner, q)
	all := len(page.Events)
	page.Events = slices.DeleteFunc(page.Events, func(e sendlimit.Event) bool { return e.Action == sendlimit.Unblocked })
	page.Total -= all - len(page.Events)
	return page, err
}

func (b endsWithoutLimit) Events(ctx context.Context, owner access.AccountID, q ports.EventQuery) (ports.EventPage, error) {
	page, err := b.enforcementEventsPort.Events(ctx, owner, q)
	for i, e := range page.Events {
		if e.Action == sendlimit.Unblocked && e.Limit == 25 {
			page.Events[i].Limit = 0
		}
	}
	return page, err
}

// dropsAnyway forgets what a run was about to do to a mailbox that is gone.
func (b dropsAnyway) Intents(ctx context.Context, r ports.SendRun) ([]sendlimit.Change, error) {
	all, err := b.sendRunsPort.Intents(ctx, r)
	if len(all) > 1 {
		all = nil
	}
	return all, err
}

// byTheClock has events be of when they were stored, whatever was before.
func (b byTheClock) Events(ctx context.Context, owner access.AccountID, q ports.EventQuery) (ports.EventPage, error) {
	page, err := b.enforcementEventsPort.Events(ctx, owner, q)
	for i := range page.Events {
		e := &page.Events[i]
		e.ID, e.At = ident.New(storedAt, [ident.Entropy]byte{byte(i)}), storedAt
	}
	return page, err
}

func (b neverLetGo) SaveChanges(ctx context.Context, r ports.SendRun, c ports.SendChanges) (bool, error) {
	c.Done = slices.DeleteFunc(slices.Clone(c.Done), func(c sendlimit.Change) bool { return c.Action == sendlimit.Unblocked })
	return b.sendRunsPort.SaveChanges(ctx, r, c)
}

// forgetsLiving drops also policies that are in force.
func (b forgetsLiving) RuledScopes(ctx context.Context, owner access.AccountID, id tenant.GUID) ([]string, error) {
	scopes, err := b.sendPoliciesPort.RuledScopes(ctx, owner, id)
	if _, lost := b.all.Domain(ctx, owner, id, "a.test"); lost != nil {
		scopes = slices.DeleteFunc(scopes, func(scope string) bool { return strings.HasSuffix(scope, ".test") })
	}
	return scopes, err
}

// Wrong words for operators.
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

// neverPaused leaves tenants of suspended accounts out.
func (b neverPaused) DueTenants(ctx context.Context, at time.Time, most int) ([]ports.DueTenant, error) {
	all, err := b.sendRunsPort.DueTenants(ctx, at, most)
	return slices.DeleteFunc(all, func(d ports.DueTenant) bool {
		acc, _ := b.all.FindAccount(ctx, string(d.Account))
		return !acc.Active
	}), err
}

func TestBrokenSendLimitsAreNoticed(t *testing.T) {
	store := reusedStore(t)
	for name, b := range map[string]struct {
		suite []storeCheck
		spoil func(Stores) Stores
	}{
		"an intent is a policy":                      {sendPolicyChecks, func(s Stores) Stores { return with(s, intentsShown{s}) }},
		"the tenant's policy is every domain's":      {sendPolicyChecks, func(s Stores) Stores { return with(s, wideForAll{s}) }},
		"an unknown domain has a policy":             {sendPolicyChecks, func(s Stores) Stores { return with(s, anyScope{s}) }},
		"a policy outlives its domain":               {sendPolicyChecks, func(s Stores) Stores { return with(s, undying{s}) }},
		"a policy is made anew":                      {sendPolicyChecks, func(s Stores) Stores { return with(s, freshIDs{s}) }},
		"foreign policies are listed":                {sendPolicyChecks, func(s Stores) Stores { return with(s, openPolicies{s, s}) }},
		"a rule is forgotten with its policy":        {sendPolicyChecks, func(s Stores) Stores { return with(s, forgetsRules{s}) }},
		"a rule that blocks is forgotten":            {sendChangeChecks, func(s Stores) Stores { return with(s, blindToBlocks{s}) }},
		"a day is set for others too":                {sendDayChecks, func(s Stores) Stores { return with(s, everyonesDay{s}) }},
		"another day goes on from the mark":          {sendDayChecks, func(s Stores) Stores { return with(s, keepsMark{s}) }},
		"a run goes on into another day":             {sendDayChecks, func(s Stores) Stores { return with(s, keepsRun{s, s}) }},
		"the same day counts anew":                   {sendDayChecks, func(s Stores) Stores { return with(s, alwaysAnew{s}) }},
		"a late run writes":                          {sendRunChecks, func(s Stores) Stores { return with(s, unfencedSends{s}) }},
		"a tenant is not taken from a run":           {sendRunChecks, func(s Stores) Stores { return with(s, waitsForRuns{s}) }},
		"a claim ahead makes a tenant late":          {sendRunChecks, func(s Stores) Stores { return with(s, lateByClaims{s}) }},
		"a race has several winners":                 {sendRunChecks, func(s Stores) Stores { return with(s, sharedTenants{s}) }},
		"a tenant is claimed before its time":        {sendRunChecks, func(s Stores) Stores { return with(s, earlySends{s}) }},
		"the caller's clock ends a lease":            {sendRunChecks, func(s Stores) Stores { return with(s, impatientSends{s}) }},
		"one account's tenants come first":           {sendRunChecks, func(s Stores) Stores { return oldestTenants{s} }},
		"a tenant without consent is due":            {sendRunChecks, func(s Stores) Stores { return with(s, askRevoked{s, s}) }},
		"a run that ended is held":                   {sendRunChecks, func(s Stores) Stores { return with(s, heldReleased{s}) }},
		"counts that come again are added":           {sendRunChecks, func(s Stores) Stores { return with(s, countsAdded{s}) }},
		"a part passes for the whole":                {sendRunChecks, func(s Stores) Stores { return with(s, partsAreWhole{s}) }},
		"a part moves the mark":                      {sendRunChecks, func(s Stores) Stores { return with(s, marksMove{s}) }},
		"yesterday's count is shown":                 {sendRunChecks, func(s Stores) Stores { return with(s, allIsToday{s}) }},
		"counts are kept for ever":                   {sendRunChecks, func(s Stores) Stores { return with(s, countsForever{s}) }},
		"blocks of the suspended stay":               {sendRunChecks, func(s Stores) Stores { return with(s, neverPaused{s, s}) }},
		"a tenant at work waits":                     {sendWatchChecks, func(s Stores) Stores { return with(s, leasedWait{s}) }},
		"nobody is ever behind":                      {sendWatchChecks, func(s Stores) Stores { return with(s, neverBehind{s}) }},
		"nobody is ever stranded":                    {sendWatchChecks, func(s Stores) Stores { return with(s, neverStrands{s}) }},
		"what is so already has an event":            {sendChangeChecks, func(s Stores) Stores { return with(s, eventsAnyway{s, s}) }},
		"changes are not stored":                     {sendChangeChecks, func(s Stores) Stores { return with(s, eventsNever{s}) }},
		"a clock that stands still spoils the order": {sendChangeChecks, func(s Stores) Stores { return with(s, byTheClock{s}) }},
		"a block ends without an event":              {sendGoneChecks, func(s Stores) Stores { return with(s, endsSilently{s}) }},
		"a block had no limit":                       {sendGoneChecks, func(s Stores) Stores { return with(s, endsWithoutLimit{s}) }},
		"what was about to be is forgotten":          {sendGoneChecks, func(s Stores) Stores { return with(s, dropsAnyway{s}) }},
		"nobody is let go":                           {sendChangeChecks, func(s Stores) Stores { return with(s, neverLetGo{s}) }},
		"a scope is forgotten that was not emptied":  {sendChangeChecks, func(s Stores) Stores { return with(s, forgetsLiving{s, s}) }},
	} {
		t.Run(name, func(t *testing.T) { notices(t, store, b.suite, b.spoil) })
	}
}
