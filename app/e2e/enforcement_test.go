// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"slices"
	"strings"
	"sync"
	"testing"
)

// limited is a tenant with mailboxes and a limit.
type limited struct {
	holding
	zone  string
	boxes []object
}

// limited makes one in a sandbox of its own.
func (c caller) limited(perDay int, locals ...string) limited {
	c.t.Helper()
	h := c.newCaller(nil).connected(nil)
	zone := h.verified()
	h.post(h.path("/mailboxes"), boxes(zone, locals...))
	h.post(h.path("/mailbox-limits"), object{"daily_send_limit": perDay})
	return limited{h, zone, h.get(h.path("/mailboxes")).objects("mailboxes")}
}

func (l limited) sends(n, count int) {
	l.t.Helper()
	l.control("POST", "/messages", object{"mailbox": l.boxes[n].text("primary_smtp"), "count": count})
}

// run enforces limits now, and says what the platform was asked to change.
func (l limited) run() (writes []string) {
	l.t.Helper()
	l.control("DELETE", "/calls", nil)
	l.control("POST", "/enforcement/run", nil)
	return l.writes()
}

// writes are the changes of the tenant's rules that the platform was asked for.
func (l limited) writes() (all []string) {
	l.t.Helper()
	for _, call := range l.client.calls("microsoft365") {
		if slices.Contains(ruleWrites, call.text("operation")) && strings.Contains(call.text("path"), l.guid) {
			all = append(all, call.text("operation"))
		}
	}
	return all
}

// ruleWrites are the cmdlets by which rules change.
var ruleWrites = []string{"New-TransportRule", "Set-TransportRule", "Enable-TransportRule", "Disable-TransportRule", "Remove-TransportRule"}

func (l limited) usage(n int) object {
	l.t.Helper()
	return l.get(l.path("/mailboxes/" + l.boxes[n].text("id") + "/usage")).object
}

// blocks checks that the platform's one rule stops these and nobody else, is
// switched off for nobody, and that the service says the same.
func (l limited) blocks(numbers ...int) {
	l.t.Helper()
	want := []any{}
	for _, n := range numbers {
		want = append(want, l.boxes[n].text("primary_smtp"))
	}
	rules := l.control("GET", "/tenants/"+l.guid, nil).objects("rules")
	if len(rules) != 1 || rules[0]["enabled"] != (len(want) > 0) {
		l.t.Fatalf("the platform holds %v, to block %v", rules, want)
	}
	if blocked, _ := rules[0]["blocks"].([]any); !slices.Equal(blocked, want) {
		l.t.Errorf("blocked are %v, want %v", blocked, want)
	}
	for n := range l.boxes {
		u, in := l.usage(n), slices.Contains(numbers, n)
		if u["is_blocked"] != in || (u["blocked_at"] != nil) != in {
			l.t.Errorf("mailbox %d: %v, blocked should be %v", n, u, in)
		}
	}
}

// tells checks the messages of all events, newest first.
func (l limited) tells(want ...string) {
	l.t.Helper()
	list := l.get("/v1/enforcement/events")
	var got []string
	for _, e := range list.objects("events") {
		sees(l.t, e, object{"tenant_id": l.guid, "mailbox_address": l.boxes[0].text("primary_smtp")})
		got = append(got, e.text("message"))
	}
	if !slices.Equal(got, want) || list.at("total") != float64(len(want)) {
		l.t.Errorf("events %q, want %q", got, want)
	}
}

// TestEnforcement: a mailbox beyond its limit is blocked at the platform, once
// and alone, and let go when its day turns or its limit allows what it sent.
func TestEnforcement(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T) caller { return alone(t) }, func(t *testing.T, c caller) {
		c.control("POST", "/clock", object{"now": "2031-03-10T10:00:00Z"})
		l := c.limited(5, "ada", "max")
		l.sends(0, 5)
		l.sends(1, 2)
		if w := l.run(); len(w) != 0 {
			t.Errorf("at the limit: %v", w)
		}
		l.blocks()
		sees(t, l.usage(0), object{"daily_send_limit": 5, "sends_today": 5, "remaining_sends": 0, "utilization_pct": 100})

		l.sends(0, 1)
		if w := l.run(); len(w) == 0 {
			t.Error("nothing was changed at the platform")
		}
		l.blocks(0)
		sees(t, l.usage(0), object{"sends_today": 6, "remaining_sends": 0, "utilization_pct": 120})
		sees(t, l.usage(1), object{"sends_today": 2, "remaining_sends": 3, "utilization_pct": 40})
		const first = "Mailbox blocked: sent 6, limit 5"
		l.tells(first)
		since := l.usage(0)["blocked_at"]

		l.again(since, first)
		l.sends(0, 3) // which its rule stops
		l.again(since, first)

		c.control("POST", "/clock", object{"advance": "14h"})
		l.run()
		l.blocks()
		const second = "Mailbox unblocked: sent 0, limit 5"
		l.tells(second, first)
		sees(t, l.usage(0), object{"sends_today": 0, "remaining_sends": 5, "utilization_pct": 0})

		l.sends(0, 7)
		l.run()
		l.blocks(0)
		const third, fourth = "Mailbox blocked: sent 7, limit 5", "Mailbox unblocked: sent 7, limit 7"
		l.tells(third, second, first)
		l.post(l.path("/mailbox-limits"), object{"daily_send_limit": 7})
		l.run()
		l.blocks()
		l.tells(fourth, third, second, first)
		l.measured()
	})
}

// again runs twice at once, and once more: all is as it has to be.
func (l limited) again(since any, events ...string) {
	l.t.Helper()
	l.control("DELETE", "/calls", nil)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { l.control("POST", "/enforcement/run", nil) })
	}
	wg.Wait()
	l.control("POST", "/enforcement/run", nil)
	if w := l.writes(); len(w) != 0 {
		l.t.Errorf("changed again: %v", w)
	}
	l.blocks(0)
	l.tells(events...)
	sees(l.t, l.usage(0), object{"blocked_at": since, "sends_today": 6})
}

// measured checks what an operator sees of it.
func (l limited) measured() {
	l.t.Helper()
	shown := scrape(l.do("GET", l.ready.AdminURL+"/metrics", "", nil).raw)
	for name, labels := range lagSeries {
		for _, label := range append(labels, "job") {
			if _, has := shown[name][label]; !has {
				l.t.Errorf("%s with the label %s is not exported", name, label)
			}
		}
	}
	if actions := shown["tenantry_enforcement_changes_total"]["action"]; len(actions) != 2 {
		l.t.Errorf("actions %v", actions)
	}
}
