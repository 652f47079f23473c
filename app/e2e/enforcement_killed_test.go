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
	"github.com/tenantry/tenantry/core/sendlimit"
)

// history is what happens to a tenant with limits while the service is killed
// again and again, and what has to come of it.
type history struct {
	*errand
	random *rand.Rand
	boxes  []object
	zones  []string
	limits sendlimit.Policies
	own    map[string]int
	// sent is how many each address sent on the day of now, peak its latest time.
	sent      map[string]int
	now, peak time.Time
}

// newHistory makes a tenant with two domains and two mailboxes in each.
func newHistory(t *testing.T, flags ...string) *history {
	t.Helper()
	m := &mortal{client: client{t: t}, binary: binary(t, release), data: t.TempDir(), flags: append(flags, "--no-seed")}
	m.start()
	h := ownerAt(t, m.ready).connected(nil)
	y := &history{errand: &errand{mortal: m, tenant: h.guid}, random: seeded(t), limits: sendlimit.Policies{}, own: map[string]int{},
		sent: map[string]int{}}
	for range 2 {
		zone := h.verified()
		h.post(h.path("/mailboxes"), boxes(zone, "ada", "max"))
		y.zones = append(y.zones, zone)
	}
	y.boxes = h.get(h.path("/mailboxes")).objects("mailboxes")
	y.limits[sendlimit.TenantWide] = 5
	h.post(h.path("/mailbox-limits"), object{"daily_send_limit": 5})
	y.turn()
	return y
}

func (y *history) any() object { return y.boxes[y.random.IntN(len(y.boxes))] }

func (y *history) sends() {
	y.t.Helper()
	y.send(y.any().text("primary_smtp"), 1+y.random.IntN(9))
}

// send has a mailbox send, unless a rule stops what it sends.
func (y *history) send(m string, count int) {
	y.t.Helper()
	stopped := slices.Contains(y.stopped(), m)
	y.control("POST", "/messages", object{"mailbox": m, "count": count})
	if !stopped {
		y.sent[m] += count
	}
}

// limit enforces one for the tenant or a domain, however often that takes.
func (y *history) limit() {
	y.t.Helper()
	scope, perDay := append(y.zones, sendlimit.TenantWide)[y.random.IntN(3)], 1+y.random.IntN(12)
	body := object{"daily_send_limit": perDay}
	if scope != sendlimit.TenantWide {
		body["domain_scope"] = scope
	}
	y.eventually("a limit is set", func() bool { return y.holding().call("POST", y.api("/mailbox-limits"), body).status == 200 })
	y.limits[scope] = perDay
}

// owns stores a limit of one mailbox.
func (y *history) owns(m object, perDay int) {
	y.t.Helper()
	y.holding().expect("PATCH", y.api("/mailboxes/"+m.text("id")), object{"daily_send_limit": perDay}, 200, "")
	y.own[m.text("primary_smtp")] = perDay
}

// turn is the morning of the next day.
func (y *history) turn() {
	y.t.Helper()
	if y.now.IsZero() {
		y.now = time.Date(2031, 3, 10, 0, 0, 0, 0, time.UTC)
	}
	y.now = y.now.Truncate(24 * time.Hour).Add(32 * time.Hour)
	y.sent, y.peak = map[string]int{}, y.now
	y.moved()
}

// drift moves the clock on within the day, or back by less than the trace is
// read again.
func (y *history) drift() {
	y.t.Helper()
	y.now = y.peak.Add(time.Duration(y.random.IntN(180)-90) * time.Minute)
	if last := y.now.Truncate(24 * time.Hour).Add(18 * time.Hour); y.now.After(last) {
		y.now = last
	}
	if y.now.After(y.peak) {
		y.peak = y.now
	}
	y.moved()
}

func (y *history) moved() {
	y.t.Helper()
	y.control("POST", "/clock", object{"now": y.now.Format(time.RFC3339)})
}

// troubled are the cmdlets that enforcement needs.
var troubled = []string{
	"Get-MessageTraceV2", "Get-TransportRule", "New-TransportRule", "Set-TransportRule", "Enable-TransportRule", "Disable-TransportRule",
}

func (y *history) trouble() {
	y.t.Helper()
	plan := []object{
		{"kind": "status", "status": 429, "retry_after": 1}, {"kind": "status", "status": 503}, {"kind": "status", "status": 500},
		{"kind": "drop_before"}, {"kind": "drop_after"}, {"kind": "delay", "delay_ms": 300},
	}[y.random.IntN(6)]
	plan["operation"], plan["times"], plan["skip"] = troubled[y.random.IntN(len(troubled))], 1+y.random.IntN(3), y.random.IntN(2)
	y.fault(plan)
}

// late has the trace show what is sent from now on at once, or after a while.
func (y *history) late() {
	y.t.Helper()
	y.holding().behave(object{"trace_ms": y.random.IntN(2) * 30 * 60_000})
}

func (y *history) enforce() {
	y.t.Helper()
	y.control("POST", "/enforcement/run", nil)
}

// stopped are the addresses that the platform's rules stop, one for each rule
// that does.
func (y *history) stopped() []string {
	y.t.Helper()
	all := []string{}
	for _, rule := range y.control("GET", "/tenants/"+y.tenant, nil).objects("rules") {
		for _, address := range rule["blocks"].([]any) {
			all = append(all, address.(string))
		}
	}
	slices.Sort(all)
	return all
}

// stored are the mailboxes by address.
func (y *history) stored() map[string]object {
	y.t.Helper()
	all := map[string]object{}
	for _, m := range y.boxes {
		all[m.text("primary_smtp")] = y.holding().get(y.api("/mailboxes/" + m.text("id") + "/usage")).object
	}
	return all
}

// told are the events by address, oldest first. They say blocked and unblocked
// in turn.
func (y *history) told() map[string][]object {
	y.t.Helper()
	all := map[string][]object{}
	list := y.holding().get("/v1/enforcement/events?limit=200")
	y.expect("events", list.at("total"), list.at("count"))
	for _, e := range slices.Backward(list.objects("events")) {
		address := e.text("mailbox_address")
		if want := []string{"blocked", "unblocked"}[len(all[address])%2]; e["action_taken"] != want {
			y.t.Errorf("%s: event %d is %v", address, len(all[address]), e)
		}
		if sent, limit := e["sent_count"].(float64), e["limit_value"].(float64); e["action_taken"] == "blocked" && sent <= limit {
			y.t.Errorf("%s was blocked for %v of %v", address, sent, limit)
		}
		all[address] = append(all[address], e)
	}
	return all
}

// counted enforces until the trace was read.
func (y *history) counted() {
	y.t.Helper()
	at := func() any { return y.holding().get(y.api("/mailboxes")).objects("mailboxes")[0]["sends_today_at"] }
	before := at()
	y.eventually("a run that counts", func() bool {
		y.enforce()
		return at() != before
	})
}

// dies kills the service in the middle of a run that has somebody to block or to
// let go, if it gets so far as was meant. Who was blocked at the platform by then has an
// event for it after the next run, whatever happened before that.
func (y *history) dies() (within bool) {
	y.t.Helper()
	y.control("DELETE", "/faults", nil)
	y.holding().behave(object{"trace_ms": 0})
	m := y.any().text("primary_smtp")
	if slices.Contains(y.stopped(), m) {
		y.turn() // then it is to be let go
	}
	y.send(m, 26)
	before := y.told()
	within = y.cutOff()
	stopped := y.stopped()
	switch y.random.IntN(3) {
	case 0:
		y.turn()
	case 1:
		for _, m := range y.boxes {
			y.owns(m, 25)
		}
	}
	y.counted()
	after := y.told()
	for _, address := range slices.Compact(stopped) {
		open, more := len(before[address])%2 == 1, blocks(after[address])-blocks(before[address])
		if open && more != 0 || !open && more != 1 {
			y.t.Errorf("%s was blocked at the platform, had %v, has %v", address, before[address], after[address])
		}
	}
	return within
}

// cutOff kills the service while it waits for an answer in a run, or soon after,
// and starts it again.
func (y *history) cutOff() (within bool) {
	y.t.Helper()
	y.control("DELETE", "/calls", nil)
	held := []object{
		{"operation": "Get-MessageTraceV2"}, {"operation": "Get-TransportRule", "skip": 2}, {"operation": "Set-TransportRule"},
		{"operation": "Enable-TransportRule"}, {"operation": "Enable-TransportRule"}, {"operation": "Disable-TransportRule"},
	}[y.random.IntN(6)]
	held["kind"], held["delay_ms"], held["times"] = []string{"delay", "delay_after"}[y.random.IntN(2)], 60_000, 1
	y.fault(held)
	answered, c := make(chan struct{}), y.client
	go func() {
		defer close(answered)
		_, _ = c.try("POST", c.ready.ControlURL+"/enforcement/run", "", nil)
	}()
	wait := time.Duration(300+y.random.IntN(1200)) * time.Millisecond
	select {
	case <-answered:
	case <-time.After(wait):
		within = true
	}
	// Half of the time nobody looks at the tenant by himself at once.
	y.given = []string{"TENANTRY_WORKER=" + []string{"true", "false"}[y.random.IntN(2)]}
	y.killed()
	<-answered
	y.control("DELETE", "/faults", nil)
	return within
}

func domainOf(address string) string {
	_, domain, _ := strings.Cut(address, "@")
	return domain
}

func blocks(events []object) (n int) {
	for _, e := range events {
		if e["action_taken"] == "blocked" {
			n++
		}
	}
	return n
}

// settles ends all trouble and holds state, rules and events to each other and
// to what was sent.
func (y *history) settles() {
	y.t.Helper()
	y.control("DELETE", "/faults", nil)
	y.now = y.now.Truncate(24 * time.Hour).Add(20 * time.Hour)
	y.moved()
	y.counted()
	y.counted() // whatever the first one's circuits kept it from
	events, stopped, want := y.told(), y.stopped(), []string{}
	stored := y.stored()
	for _, address := range slices.Sorted(maps.Keys(stored)) {
		u, all := stored[address], events[address]
		y.expect("sent by "+address, u["sends_today"], y.sent[address])
		over := y.sent[address] > y.limits.Effective(y.own[address], domainOf(address))
		if _, covered := y.limits.Covering(domainOf(address)); over && covered {
			want = append(want, address)
			y.expect("events of "+address, len(all)%2, 1)
			y.expect("block of "+address, u["blocked_at"], all[len(all)-1]["created_at"])
		} else {
			y.expect("events of "+address, len(all)%2, 0)
			y.expect("block of "+address, u["blocked_at"], nil)
		}
		y.expect(address+" is blocked", u["is_blocked"], u["blocked_at"] != nil)
	}
	y.expect("stopped at the platform", stopped, want)
}

// TestHistoriesOverKills: mailboxes send, limits change, days turn, the clock
// steps back, the trace is late and the platform in trouble, and the service is
// killed in the middle of runs. State, rules and events agree when it is over,
// and every block has one event.
func TestHistoriesOverKills(t *testing.T) {
	t.Parallel()
	histories, deaths := 1, 1
	if soak {
		histories, deaths = 10, 5
	}
	for n := range histories {
		t.Run(fmt.Sprintf("sqlite %d", n), func(t *testing.T) {
			t.Parallel()
			newHistory(t).over(deaths)
		})
		t.Run(fmt.Sprintf("postgres %d", n), func(t *testing.T) {
			t.Parallel()
			newHistory(t, "--database", testserver.Database(t)).over(deaths)
		})
	}
}

func (y *history) over(deaths int) {
	y.t.Helper()
	within := 0
	for range deaths {
		for range 8 {
			[]func(){
				y.sends, y.sends, y.sends, y.sends, y.limit, func() { y.owns(y.any(), 1+y.random.IntN(12)) }, y.turn, y.drift, y.trouble,
				y.trouble, y.late, y.enforce, y.enforce,
			}[y.random.IntN(13)]()
		}
		if y.dies() {
			within++
		}
	}
	y.settles()
	y.t.Logf("%d of %d deaths within a run, %d events", within, deaths, len(slices.Concat(slices.Collect(maps.Values(y.told()))...)))
}
