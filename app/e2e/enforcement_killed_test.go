// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/adapters/testserver/soak"
	"github.com/tenantry/tenantry/core/sendlimit"
)

// enforcementHistory applies random events to a tenant with limits while the service is killed
// repeatedly. It records the state that must result.
type enforcementHistory struct {
	*onboarding
	random        *rand.Rand
	mailboxes     []object
	zones         []string
	limits        sendlimit.Policies
	mailboxLimits map[string]int
	// sent is the number of messages of each address on the current day; peak is the latest time of
	// that day so far.
	sent      map[string]int
	now, peak time.Time
}

// newEnforcementHistory creates a tenant with two domains and two mailboxes in each.
func newEnforcementHistory(t *testing.T, flags ...string) *enforcementHistory {
	t.Helper()
	m := &restartingSandbox{client: client{t: t}, binary: requirePrograms(t, releaseBuild), data: t.TempDir(), flags: append(flags, "--no-seed")}
	m.start()
	h := seededAccount(t, m.ready).newConnectedTenant(nil)
	hist := &enforcementHistory{onboarding: &onboarding{restartingSandbox: m, tenant: h.guid}, random: soak.Rand(t), limits: sendlimit.Policies{}, mailboxLimits: map[string]int{},
		sent: map[string]int{}}
	for range 2 {
		zone := h.newVerifiedDomain()
		h.post(h.path("/mailboxes"), mailboxesBody(zone, "ada", "max"))
		hist.zones = append(hist.zones, zone)
	}
	hist.mailboxes = h.get(h.path("/mailboxes")).objects("mailboxes")
	hist.limits[sendlimit.TenantWide] = 5
	h.post(h.path("/mailbox-limits"), object{"daily_send_limit": 5})
	hist.nextDay()
	return hist
}

func (hist *enforcementHistory) randomMailbox() object {
	return hist.mailboxes[hist.random.IntN(len(hist.mailboxes))]
}

func (hist *enforcementHistory) sendRandomly() {
	hist.t.Helper()
	hist.send(hist.randomMailbox().text("primary_smtp"), 1+hist.random.IntN(9))
}

// send sends messages from a mailbox. Messages of a blocked mailbox do not count.
func (hist *enforcementHistory) send(m string, count int) {
	hist.t.Helper()
	stopped := slices.Contains(hist.blockedAtPlatform(), m)
	hist.control("POST", "/messages", object{"mailbox": m, "count": count})
	if !stopped {
		hist.sent[m] += count
	}
}

// setRandomLimit sets a limit for the tenant or a domain, and repeats the request until it
// succeeds.
func (hist *enforcementHistory) setRandomLimit() {
	hist.t.Helper()
	scope, perDay := append(hist.zones, sendlimit.TenantWide)[hist.random.IntN(3)], 1+hist.random.IntN(12)
	body := object{"daily_send_limit": perDay}
	if scope != sendlimit.TenantWide {
		body["domain_scope"] = scope
	}
	hist.eventually("a limit is set", func() bool {
		return hist.accountTenant().call("POST", hist.path("/mailbox-limits"), body).status == 200
	})
	hist.limits[scope] = perDay
}

// setMailboxLimit stores the limit of one mailbox.
func (hist *enforcementHistory) setMailboxLimit(m object, perDay int) {
	hist.t.Helper()
	hist.accountTenant().expect("PATCH", hist.path("/mailboxes/"+m.text("id")), object{"daily_send_limit": perDay}, 200, "")
	hist.mailboxLimits[m.text("primary_smtp")] = perDay
}

// nextDay moves the clock to 08:00 of the next day.
func (hist *enforcementHistory) nextDay() {
	hist.t.Helper()
	if hist.now.IsZero() {
		hist.now = time.Date(2031, 3, 10, 0, 0, 0, 0, time.UTC)
	}
	hist.now = hist.now.Truncate(24 * time.Hour).Add(32 * time.Hour)
	hist.sent, hist.peak = map[string]int{}, hist.now
	hist.setClock()
}

// moveClock moves the clock within the day: forward, or back by less than the overlap with which
// the trace is read again.
func (hist *enforcementHistory) moveClock() {
	hist.t.Helper()
	hist.now = hist.peak.Add(time.Duration(hist.random.IntN(180)-90) * time.Minute)
	if last := hist.now.Truncate(24 * time.Hour).Add(18 * time.Hour); hist.now.After(last) {
		hist.now = last
	}
	if hist.now.After(hist.peak) {
		hist.peak = hist.now
	}
	hist.setClock()
}

func (hist *enforcementHistory) setClock() {
	hist.t.Helper()
	hist.control("POST", "/clock", object{"now": hist.now.Format(time.RFC3339)})
}

// enforcementCmdlets are the cmdlets that enforcement needs.
var enforcementCmdlets = []string{
	"Get-MessageTraceV2", "Get-TransportRule", "New-TransportRule", "Set-TransportRule", "Enable-TransportRule", "Disable-TransportRule",
}

func (hist *enforcementHistory) injectRandomFault() {
	hist.t.Helper()
	plan := []object{
		{"kind": "status", "status": 429, "retry_after": 1}, {"kind": "status", "status": 503}, {"kind": "status", "status": 500},
		{"kind": "drop_before"}, {"kind": "drop_after"}, {"kind": "delay", "delay_ms": 300},
	}[hist.random.IntN(6)]
	plan["operation"], plan["times"], plan["skip"] = enforcementCmdlets[hist.random.IntN(len(enforcementCmdlets))], 1+hist.random.IntN(3), hist.random.IntN(2)
	hist.injectFault(plan)
}

// setRandomTraceDelay lets the trace show new messages at once, or after 30 minutes.
func (hist *enforcementHistory) setRandomTraceDelay() {
	hist.t.Helper()
	hist.accountTenant().setBehaviour(object{"trace_ms": hist.random.IntN(2) * 30 * 60_000})
}

func (hist *enforcementHistory) enforce() {
	hist.t.Helper()
	hist.control("POST", "/enforcement/run", nil)
}

// blockedAtPlatform returns the addresses that the platform's rules block, once for each rule.
func (hist *enforcementHistory) blockedAtPlatform() []string {
	hist.t.Helper()
	all := []string{}
	for _, rule := range hist.control("GET", "/tenants/"+hist.tenant, nil).objects("rules") {
		for _, address := range rule["blocks"].([]any) {
			all = append(all, address.(string))
		}
	}
	slices.Sort(all)
	return all
}

// usageByAddress returns the usage of the mailboxes by address.
func (hist *enforcementHistory) usageByAddress() map[string]object {
	hist.t.Helper()
	all := map[string]object{}
	for _, m := range hist.mailboxes {
		all[m.text("primary_smtp")] = hist.accountTenant().get(hist.path("/mailboxes/" + m.text("id") + "/usage")).object
	}
	return all
}

// eventsByAddress returns the events by address, oldest first. Blocked and unblocked must
// alternate.
func (hist *enforcementHistory) eventsByAddress() map[string][]object {
	hist.t.Helper()
	all := map[string][]object{}
	list := hist.accountTenant().get("/v1/enforcement/events?limit=200")
	hist.checkEqual("events", list.at("total"), list.at("count"))
	for _, e := range slices.Backward(list.objects("events")) {
		address := e.text("mailbox_address")
		if want := []string{"blocked", "unblocked"}[len(all[address])%2]; e["action_taken"] != want {
			hist.t.Errorf("%s: event %d is %v", address, len(all[address]), e)
		}
		if sent, limit := e["sent_count"].(float64), e["limit_value"].(float64); e["action_taken"] == "blocked" && sent <= limit {
			hist.t.Errorf("%s was blocked for %v of %v", address, sent, limit)
		}
		all[address] = append(all[address], e)
	}
	return all
}

// enforceUntilCounted runs enforcement until the trace was read.
func (hist *enforcementHistory) enforceUntilCounted() {
	hist.t.Helper()
	at := func() any {
		return hist.accountTenant().get(hist.path("/mailboxes")).objects("mailboxes")[0]["sends_today_at"]
	}
	before := at()
	hist.eventually("a pass that counts", func() bool {
		hist.enforce()
		return at() != before
	})
}

// crashDuringPass kills the service during a pass that has a mailbox to block or to unblock. If an
// address is blocked at the platform when the service is killed, this block has exactly one event
// after the next pass. crashDuringPass reports whether the pass was in progress at the kill.
func (hist *enforcementHistory) crashDuringPass() (within bool) {
	hist.t.Helper()
	hist.control("DELETE", "/faults", nil)
	hist.accountTenant().setBehaviour(object{"trace_ms": 0})
	m := hist.randomMailbox().text("primary_smtp")
	if slices.Contains(hist.blockedAtPlatform(), m) {
		hist.nextDay() // so that the mailbox is unblocked first
	}
	hist.send(m, 26)
	before := hist.eventsByAddress()
	within = hist.killDuringPass()
	stopped := hist.blockedAtPlatform()
	switch hist.random.IntN(3) {
	case 0:
		hist.nextDay()
	case 1:
		for _, m := range hist.mailboxes {
			hist.setMailboxLimit(m, 25)
		}
	}
	hist.enforceUntilCounted()
	after := hist.eventsByAddress()
	for _, address := range slices.Compact(stopped) {
		open, more := len(before[address])%2 == 1, countBlocks(after[address])-countBlocks(before[address])
		if open && more != 0 || !open && more != 1 {
			hist.t.Errorf("%s was blocked at the platform, had %v, has %v", address, before[address], after[address])
		}
	}
	return within
}

// killDuringPass kills the service while it waits for a response in a pass, or soon after the pass,
// and starts it again. It reports whether the pass was still in progress.
func (hist *enforcementHistory) killDuringPass() (within bool) {
	hist.t.Helper()
	hist.control("DELETE", "/calls", nil)
	held := []object{
		{"operation": "Get-MessageTraceV2"}, {"operation": "Get-TransportRule", "skip": 2}, {"operation": "Set-TransportRule"},
		{"operation": "Enable-TransportRule"}, {"operation": "Enable-TransportRule"}, {"operation": "Disable-TransportRule"},
	}[hist.random.IntN(6)]
	held["kind"], held["delay_ms"], held["times"] = []string{"delay", "delay_after"}[hist.random.IntN(2)], 60_000, 1
	hist.injectFault(held)
	answered, c := make(chan struct{}), hist.client
	go func() {
		defer close(answered)
		_, _ = c.tryDo("POST", c.ready.ControlURL+"/enforcement/run", "", nil)
	}()
	wait := time.Duration(300+hist.random.IntN(1200)) * time.Millisecond
	select {
	case <-answered:
	case <-time.After(wait):
		within = true
	}
	// Half of the time the restarted service has no background worker.
	hist.extraEnv = []string{"TENANTRY_WORKER=" + []string{"true", "false"}[hist.random.IntN(2)]}
	hist.killAndRestart()
	<-answered
	hist.control("DELETE", "/faults", nil)
	return within
}

func domainOf(address string) string {
	_, domain, _ := strings.Cut(address, "@")
	return domain
}

func countBlocks(events []object) (n int) {
	for _, e := range events {
		if e["action_taken"] == "blocked" {
			n++
		}
	}
	return n
}

// checkConsistency ends all faults and compares usage, rules and events with each other and with
// the messages sent.
func (hist *enforcementHistory) checkConsistency() {
	hist.t.Helper()
	hist.control("DELETE", "/faults", nil)
	hist.now = hist.now.Truncate(24 * time.Hour).Add(20 * time.Hour)
	hist.setClock()
	hist.enforceUntilCounted()
	hist.enforceUntilCounted() // repeats what open circuits prevented in the first pass
	events, stopped, want := hist.eventsByAddress(), hist.blockedAtPlatform(), []string{}
	stored := hist.usageByAddress()
	for _, address := range slices.Sorted(maps.Keys(stored)) {
		u, all := stored[address], events[address]
		hist.checkEqual("sent by "+address, u["sends_today"], hist.sent[address])
		over := hist.sent[address] > hist.limits.Effective(hist.mailboxLimits[address], domainOf(address))
		if _, covered := hist.limits.Covering(domainOf(address)); over && covered {
			want = append(want, address)
			hist.checkEqual("events of "+address, len(all)%2, 1)
			hist.checkEqual("block of "+address, u["blocked_at"], all[len(all)-1]["created_at"])
		} else {
			hist.checkEqual("events of "+address, len(all)%2, 0)
			hist.checkEqual("block of "+address, u["blocked_at"], nil)
		}
		hist.checkEqual(address+" is blocked", u["is_blocked"], u["blocked_at"] != nil)
	}
	hist.checkEqual("stopped at the platform", stopped, want)
}

// TestEnforcementStaysConsistentOverKills combines sends, limit changes, day boundaries, clock
// steps, a late trace and platform faults with kills during passes. Afterwards usage, rules and
// events agree, and every block has one event.
func TestEnforcementStaysConsistentOverKills(t *testing.T) {
	t.Parallel()
	histories, deaths := 1, 1
	if soak.On() {
		histories, deaths = 10, 5
	}
	for n := range histories {
		t.Run(fmt.Sprintf("sqlite %d", n), func(t *testing.T) {
			t.Parallel()
			newEnforcementHistory(t).runRandomly(deaths)
		})
		t.Run(fmt.Sprintf("postgres %d", n), func(t *testing.T) {
			t.Parallel()
			newEnforcementHistory(t, "--database", testserver.Database(t)).runRandomly(deaths)
		})
	}
}

func (hist *enforcementHistory) runRandomly(deaths int) {
	hist.t.Helper()
	within := 0
	for range deaths {
		for range 8 {
			[]func(){
				hist.sendRandomly, hist.sendRandomly, hist.sendRandomly, hist.sendRandomly, hist.setRandomLimit, func() { hist.setMailboxLimit(hist.randomMailbox(), 1+hist.random.IntN(12)) }, hist.nextDay, hist.moveClock, hist.injectRandomFault,
				hist.injectRandomFault, hist.setRandomTraceDelay, hist.enforce, hist.enforce,
			}[hist.random.IntN(13)]()
		}
		if hist.crashDuringPass() {
			within++
		}
	}
	hist.checkConsistency()
	hist.t.Logf("%d of %d kills within a pass, %d events", within, deaths, len(slices.Concat(slices.Collect(maps.Values(hist.eventsByAddress()))...)))
}
