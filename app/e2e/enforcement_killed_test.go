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

// enforcementHistory runs random actions on a tenant with limits while the service is killed
// repeatedly. Its fields record the state that must result.
type enforcementHistory struct {
	*onboarding
	random        *rand.Rand
	mailboxes     []object
	domains       []string
	limits        sendlimit.Policies
	mailboxLimits map[string]int
	// sent counts the messages of each address on the current day, except blocked messages. now is
	// the clock of the sandbox, and latestNow the latest time that the clock had on the current
	// day.
	sent           map[string]int
	now, latestNow time.Time
}

// newEnforcementHistory creates a tenant with two domains and two mailboxes in each.
func newEnforcementHistory(t *testing.T, flags ...string) *enforcementHistory {
	t.Helper()
	server := &restartingSandbox{client: client{t: t}, build: requirePrograms(t, releaseBuild), dataDir: t.TempDir(), flags: append(flags, "--no-seed")}
	server.start()
	tenant := seededAccount(t, server.ready).newConnectedTenant(nil)
	history := &enforcementHistory{onboarding: &onboarding{restartingSandbox: server, tenant: tenant.guid}, random: soak.Rand(t), limits: sendlimit.Policies{}, mailboxLimits: map[string]int{},
		sent: map[string]int{}}
	for range 2 {
		zone := tenant.newVerifiedDomain()
		tenant.post(tenant.path("/mailboxes"), mailboxesBody(zone, "ada", "max"))
		history.domains = append(history.domains, zone)
	}
	history.mailboxes = tenant.get(tenant.path("/mailboxes")).objects("mailboxes")
	history.limits[sendlimit.TenantWide] = 5
	tenant.post(tenant.path("/mailbox-limits"), object{"daily_send_limit": 5})
	history.nextDay()
	return history
}

func (history *enforcementHistory) randomMailbox() object {
	return history.mailboxes[history.random.IntN(len(history.mailboxes))]
}

func (history *enforcementHistory) sendRandomly() {
	history.t.Helper()
	history.send(history.randomMailbox().text("primary_smtp"), 1+history.random.IntN(9))
}

// send sends messages from a mailbox. It does not count the messages of a blocked mailbox in sent.
func (history *enforcementHistory) send(address string, count int) {
	history.t.Helper()
	blocked := slices.Contains(history.blockedAtPlatform(), address)
	history.control("POST", "/messages", object{"mailbox": address, "count": count})
	if !blocked {
		history.sent[address] += count
	}
}

// setRandomLimit sets a limit for the tenant or a domain, and repeats the request until it
// succeeds.
func (history *enforcementHistory) setRandomLimit() {
	history.t.Helper()
	scope, perDay := append(history.domains, sendlimit.TenantWide)[history.random.IntN(3)], 1+history.random.IntN(12)
	body := object{"daily_send_limit": perDay}
	if scope != sendlimit.TenantWide {
		body["domain_scope"] = scope
	}
	history.eventually("a limit is set", func() bool {
		return history.accountTenant().call("POST", history.path("/mailbox-limits"), body).status == 200
	})
	history.limits[scope] = perDay
}

func (history *enforcementHistory) setMailboxLimit(mailbox object, perDay int) {
	history.t.Helper()
	history.accountTenant().expect("PATCH", history.path("/mailboxes/"+mailbox.text("id")), object{"daily_send_limit": perDay}, 200, "")
	history.mailboxLimits[mailbox.text("primary_smtp")] = perDay
}

// nextDay moves the clock to 08:00 of the next day.
func (history *enforcementHistory) nextDay() {
	history.t.Helper()
	if history.now.IsZero() {
		history.now = time.Date(2031, 3, 10, 0, 0, 0, 0, time.UTC)
	}
	history.now = history.now.Truncate(24 * time.Hour).Add(32 * time.Hour)
	history.sent, history.latestNow = map[string]int{}, history.now
	history.setClock()
}

// moveClock sets the clock to a random time, at most 90 minutes before or after latestNow and not
// after 18:00.
func (history *enforcementHistory) moveClock() {
	history.t.Helper()
	history.now = history.latestNow.Add(time.Duration(history.random.IntN(180)-90) * time.Minute)
	if latestAllowed := history.now.Truncate(24 * time.Hour).Add(18 * time.Hour); history.now.After(latestAllowed) {
		history.now = latestAllowed
	}
	if history.now.After(history.latestNow) {
		history.latestNow = history.now
	}
	history.setClock()
}

func (history *enforcementHistory) setClock() {
	history.t.Helper()
	history.control("POST", "/clock", object{"now": history.now.Format(time.RFC3339)})
}

var enforcementCmdlets = []string{
	"Get-MessageTraceV2", "Get-TransportRule", "New-TransportRule", "Set-TransportRule", "Enable-TransportRule", "Disable-TransportRule",
}

// injectRandomFault makes calls of a random cmdlet fail at the platform, or delays them.
func (history *enforcementHistory) injectRandomFault() {
	history.t.Helper()
	fault := []object{
		{"kind": "status", "status": 429, "retry_after": 1}, {"kind": "status", "status": 503}, {"kind": "status", "status": 500},
		{"kind": "drop_before"}, {"kind": "drop_after"}, {"kind": "delay", "delay_ms": 300},
	}[history.random.IntN(6)]
	fault["operation"], fault["times"], fault["skip"] = enforcementCmdlets[history.random.IntN(len(enforcementCmdlets))], 1+history.random.IntN(3), history.random.IntN(2)
	history.injectFault(fault)
}

// setRandomTraceDelay lets the trace show new messages at once, or after 30 minutes.
func (history *enforcementHistory) setRandomTraceDelay() {
	history.t.Helper()
	history.accountTenant().setBehaviour(object{"trace_ms": history.random.IntN(2) * 30 * 60_000})
}

func (history *enforcementHistory) enforce() {
	history.t.Helper()
	history.control("POST", "/enforcement/run", nil)
}

// blockedAtPlatform returns the addresses that the platform's rules block, once for each rule.
func (history *enforcementHistory) blockedAtPlatform() []string {
	history.t.Helper()
	addresses := []string{}
	for _, rule := range history.control("GET", "/tenants/"+history.tenant, nil).objects("rules") {
		for _, address := range rule["blocks"].([]any) {
			addresses = append(addresses, address.(string))
		}
	}
	slices.Sort(addresses)
	return addresses
}

func (history *enforcementHistory) usageByAddress() map[string]object {
	history.t.Helper()
	usage := map[string]object{}
	for _, mailbox := range history.mailboxes {
		usage[mailbox.text("primary_smtp")] = history.accountTenant().get(history.path("/mailboxes/" + mailbox.text("id") + "/usage")).object
	}
	return usage
}

// eventsByAddress returns the enforcement events by address, oldest first. It checks that blocks
// and unblocks alternate, and that each block has a count above the limit.
func (history *enforcementHistory) eventsByAddress() map[string][]object {
	history.t.Helper()
	events := map[string][]object{}
	list := history.accountTenant().get("/v1/enforcement/events?limit=200")
	history.checkEqual("events", list.valueAt("total"), list.valueAt("count"))
	for _, e := range slices.Backward(list.objects("events")) {
		address := e.text("mailbox_address")
		if want := []string{"blocked", "unblocked"}[len(events[address])%2]; e["action_taken"] != want {
			history.t.Errorf("%s: event %d is %v, want %s", address, len(events[address]), e, want)
		}
		if sent, limit := e["sent_count"].(float64), e["limit_value"].(float64); e["action_taken"] == "blocked" && sent <= limit {
			history.t.Errorf("%s was blocked with the count %v and the limit %v, want a count above the limit", address, sent, limit)
		}
		events[address] = append(events[address], e)
	}
	return events
}

// crashDuringPass kills the service during or soon after a pass that has a mailbox to block or to
// unblock. After the next pass, each block that the platform had after the kill must have exactly
// one event. inProgress is true if the pass had not ended before the kill.
func (history *enforcementHistory) crashDuringPass() (inProgress bool) {
	history.t.Helper()
	history.control("DELETE", "/faults", nil)
	history.accountTenant().setBehaviour(object{"trace_ms": 0})
	address := history.randomMailbox().text("primary_smtp")
	if slices.Contains(history.blockedAtPlatform(), address) {
		history.nextDay() // the next pass then unblocks the mailbox
	}
	history.send(address, 26) // more than the highest limit, 25
	eventsBefore := history.eventsByAddress()
	inProgress = history.killDuringPass()
	blocked := history.blockedAtPlatform()
	switch history.random.IntN(3) {
	case 0:
		history.nextDay()
	case 1:
		for _, mailbox := range history.mailboxes {
			history.setMailboxLimit(mailbox, 25)
		}
	}
	history.enforceUntilOutcome("done")
	eventsAfter := history.eventsByAddress()
	for _, address := range slices.Compact(blocked) {
		wasBlocked, newBlocks := len(eventsBefore[address])%2 == 1, countBlocks(eventsAfter[address])-countBlocks(eventsBefore[address])
		if wasBlocked && newBlocks != 0 || !wasBlocked && newBlocks != 1 {
			history.t.Errorf("%s was blocked at the platform, and its events changed from %v to %v, want exactly one event for the block", address, eventsBefore[address], eventsAfter[address])
		}
	}
	return inProgress
}

// killDuringPass starts a pass, kills the service during the pass or soon after it, and starts the
// service again. inProgress is true if the pass had not ended before the kill.
func (history *enforcementHistory) killDuringPass() (inProgress bool) {
	history.t.Helper()
	history.control("DELETE", "/calls", nil)
	fault := []object{
		{"operation": "Get-MessageTraceV2"}, {"operation": "Get-TransportRule", "skip": 2}, {"operation": "Set-TransportRule"},
		{"operation": "Enable-TransportRule"}, {"operation": "Enable-TransportRule"}, {"operation": "Disable-TransportRule"},
	}[history.random.IntN(6)]
	fault["kind"], fault["delay_ms"], fault["times"] = []string{"delay", "delay_after"}[history.random.IntN(2)], 60_000, 1
	history.injectFault(fault)
	answered, c := make(chan struct{}), history.client
	go func() {
		defer close(answered)
		_, _ = c.tryDo("POST", c.ready.ControlURL+"/enforcement/run", "", nil)
	}()
	wait := time.Duration(300+history.random.IntN(1200)) * time.Millisecond
	select {
	case <-answered:
	case <-time.After(wait):
		inProgress = true
	}
	// Half of the time the restarted service has no background worker.
	history.extraEnv = []string{"TENANTRY_WORKER=" + []string{"true", "false"}[history.random.IntN(2)]}
	history.killAndRestart()
	<-answered
	history.control("DELETE", "/faults", nil)
	return inProgress
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
func (history *enforcementHistory) checkConsistency() {
	history.t.Helper()
	history.control("DELETE", "/faults", nil)
	history.now = history.now.Truncate(24 * time.Hour).Add(20 * time.Hour)
	history.setClock()
	history.enforceUntilOutcome("done")
	events, blocked, wantBlocked := history.eventsByAddress(), history.blockedAtPlatform(), []string{}
	stored := history.usageByAddress()
	for _, address := range slices.Sorted(maps.Keys(stored)) {
		usage, addressEvents := stored[address], events[address]
		history.checkEqual("sent by "+address, usage["sends_today"], history.sent[address])
		overLimit := history.sent[address] > history.limits.Effective(history.mailboxLimits[address], domainOf(address))
		if _, hasLimit := history.limits.Covering(domainOf(address)); overLimit && hasLimit {
			wantBlocked = append(wantBlocked, address)
			history.checkEqual("events of "+address, len(addressEvents)%2, 1)
			history.checkEqual("block of "+address, usage["blocked_at"], addressEvents[len(addressEvents)-1]["created_at"])
		} else {
			history.checkEqual("events of "+address, len(addressEvents)%2, 0)
			history.checkEqual("block of "+address, usage["blocked_at"], nil)
		}
		history.checkEqual(address+" is blocked", usage["is_blocked"], usage["blocked_at"] != nil)
	}
	history.checkEqual("blocked at the platform", blocked, wantBlocked)
}

// TestEnforcementStaysConsistentOverKills sends messages, changes limits, moves the clock, delays
// the trace and injects platform faults. It kills the service during passes or soon after them.
// Afterwards usage, rules and events agree, and every block has one event.
func TestEnforcementStaysConsistentOverKills(t *testing.T) {
	t.Parallel()
	histories, kills := 1, 1
	if soak.Enabled() {
		histories, kills = 10, 5
	}
	for index := range histories {
		t.Run(fmt.Sprintf("sqlite %d", index), func(t *testing.T) {
			t.Parallel()
			newEnforcementHistory(t).runRandomly(kills)
		})
		t.Run(fmt.Sprintf("postgres %d", index), func(t *testing.T) {
			t.Parallel()
			newEnforcementHistory(t, "--database", testserver.Database(t)).runRandomly(kills)
		})
	}
}

// runRandomly runs 8 random actions before each kill, and checks the result after the last kill.
func (history *enforcementHistory) runRandomly(kills int) {
	history.t.Helper()
	killsDuringPass := 0
	for range kills {
		for range 8 {
			[]func(){
				history.sendRandomly, history.sendRandomly, history.sendRandomly, history.sendRandomly, history.setRandomLimit, func() { history.setMailboxLimit(history.randomMailbox(), 1+history.random.IntN(12)) }, history.nextDay, history.moveClock, history.injectRandomFault,
				history.injectRandomFault, history.setRandomTraceDelay, history.enforce, history.enforce,
			}[history.random.IntN(13)]()
		}
		if history.crashDuringPass() {
			killsDuringPass++
		}
	}
	history.checkConsistency()
	history.t.Logf("%d of %d kills during a pass, %d events", killsDuringPass, kills, len(slices.Concat(slices.Collect(maps.Values(history.eventsByAddress()))...)))
}
