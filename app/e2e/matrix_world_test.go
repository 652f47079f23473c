// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // to look into the database itself

	"github.com/tenantry/tenantry/app/wiring"
)

// population is who there is in the authorization matrix.
type population struct {
	owner    caller
	a, b     manor  // full twins
	trial    manor  // with a key of the old form
	spare    manor  // whose plan lapses and whose key is rotated in between
	shrunk   manor  // with more tenants than its plan has slots now
	full     caller // every slot taken
	lapsed   manor
	retired  string  // a key that was rotated
	managed  holding // assigned to somebody else, never to a
	returned holding // was assigned to a
	deleted  holding // was a's
	ids      map[string]string

	journal *receiver
	process *process
	db      *sql.DB
	digest  string // the statement that sums up all rows
}

// manor is an account with a tenant, two domains, three mailboxes, and a
// second tenant with a domain and a mailbox.
type manor struct {
	estate
	second estate
}

// settle makes a manor. Only who must show what happens between two tenants of
// one account gets the second.
func settle(c caller, slots int) manor {
	m := manor{estate: c.whole("ada", "max", "lise")}
	m.post(m.path("/domains"), object{"domain": m.newZone()})
	if slots > 1 {
		m.second = c.whole("ada")
	}
	return m
}

// whole is a tenant with a domain that signs, mailboxes and a limit.
func (c caller) whole(locals ...string) estate {
	h := c.connected(nil)
	zone := h.verified()
	h.publish(zone)
	h.eventually("the selectors are seen", func() bool {
		return h.get(h.domain(zone, "/dkim-status")).at("ready_to_enable") == true
	})
	h.post(h.domain(zone, "/enable-dkim"), nil)
	h.post(h.path("/mailboxes"), boxes(zone, locals...))
	h.post(h.path("/mailbox-limits"), object{"daily_send_limit": 25})
	return estate{h, map[string]string{
		"tenant_id": h.guid, "domain_name": zone, "row": h.get(h.path("")).text("id"),
		"domain_id":  h.get(h.path("/domains")).objects("domains")[0].text("id"),
		"mailbox_id": h.get(h.path("/mailboxes")).objects("mailboxes")[0].text("id"),
	}}
}

func populate(t *testing.T) *population {
	t.Helper()
	p, data := &population{journal: newReceiver(t), ids: map[string]string{}}, t.TempDir()
	env := append(p.journal.env(), "OTEL_BSP_SCHEDULE_DELAY=200", "TENANTRY_WORKER=false")
	process, ready := startDev(t, binary(t, release), data, env, "--limits", "off")
	p.process, p.owner = process, ownerAt(t, ready)
	c := p.owner
	p.a, p.b = settle(c.newCaller(nil), 2), settle(c.newCaller(nil), 1)
	p.trial, p.spare = settle(c.newCaller(object{"key_form": "trial"}), 1), settle(c.newCaller(nil), 1)
	p.shrunk = settle(c.newCaller(nil), 2)
	p.shrunk.plan(object{"plan": "complete", "active": true, "tenant_slots": 1})
	p.lapsed = settle(c.newCaller(nil), 1)
	p.lapsed.plan(object{"plan": "complete", "active": false})
	p.full = c.newCaller(object{"tenant_slots": 1}).newTenant(nil).connect().caller
	p.retired = p.spare.rotates()
	p.managed, p.returned, p.deleted = c.newCaller(nil).newTenant(nil), p.a.newTenant(nil), p.a.newTenant(nil).connect()
	for _, h := range []holding{p.managed, p.returned} {
		c.control("POST", "/managed", object{"tenant_id": h.guid, "account_id": h.id})
	}
	for name, h := range map[string]holding{"managed": p.managed, "deleted": p.deleted, "returned": p.returned} {
		h.synced()
		h.post(h.path("/domains"), object{"domain": h.newZone()})
		p.ids[name] = h.get(h.path("/domains")).objects("domains")[0].text("id")
	}
	file := filepath.Join(data, "tenantry.db")
	returned := estate{p.returned, map[string]string{"domain_id": p.ids["returned"], "domain_name": "returned.example"}}
	ran(t, file, p.a.estate, p.b.estate, p.trial.estate, p.spare.estate, p.shrunk.estate, p.lapsed.estate, returned)
	p.ids["returned job"] = returned.ids["job_id"]
	p.sell(t)
	c.control("DELETE", "/managed/"+p.returned.guid, nil)
	p.deleted.expect("DELETE", p.deleted.path(""), nil, 200, "")
	p.look(t, file)
	return p
}

// rotates gives the account a new key and returns the old one.
func (m *manor) rotates() (old string) {
	old = m.key
	m.key = m.post("/api-key/rotate?user_email="+m.email, nil).text("api_key")
	return old
}

// look opens the database beside the service.
func (p *population) look(t *testing.T, file string) {
	t.Helper()
	var err error
	if p.db, err = sql.Open("sqlite", "file:"+file+"?mode=ro&_pragma=busy_timeout(5000)"); err != nil {
		t.Fatal(err)
	}
	p.db.SetMaxOpenConns(1) // data_version is about one connection
	t.Cleanup(func() { _ = p.db.Close() })
	var parts []string
	for _, table := range p.strings(t, "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'") {
		var values []string
		for _, column := range p.strings(t, "SELECT name FROM pragma_table_info('"+table+"')") {
			values = append(values, `quote("`+column+`")`)
		}
		parts = append(parts, fmt.Sprintf(`'%s:' || (SELECT ifnull(group_concat(row, x'0a'), '') FROM (SELECT %s AS row FROM "%s" ORDER BY 1))`,
			table, strings.Join(values, "||','||"), table))
	}
	if len(parts) < 10 {
		t.Fatalf("only %d tables", len(parts))
	}
	p.digest = "SELECT " + strings.Join(parts, "||x'0a'||")
}

func (p *population) strings(t *testing.T, query string) (all []string) {
	t.Helper()
	rows, err := p.db.QueryContext(context.Background(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// sight is the database at a moment. Rows are read only when something was
// written at all.
type sight struct{ version, rows string }

func (p *population) sees(t *testing.T, before sight) sight {
	t.Helper()
	now := sight{version: p.strings(t, "PRAGMA data_version")[0], rows: before.rows}
	if now.version != before.version {
		now.rows = p.strings(t, p.digest)[0]
	}
	return now
}

// asked empties the journals of the platforms and says how much there was.
func (p *population) asked(t *testing.T) (n int) {
	t.Helper()
	c := p.owner.with(t)
	for _, provider := range []string{wiring.MailPlatform, sellsAt} {
		var calls []json.RawMessage
		if err := json.Unmarshal(c.control("GET", "/calls?provider="+provider, nil).raw, &calls); err != nil {
			t.Fatal(err)
		}
		n += len(calls)
	}
	if n > 0 {
		c.control("DELETE", "/calls", nil)
	}
	return n
}

// foreign is what belongs to b and must be in no answer to others.
func (p *population) foreign() []string {
	return append(slices.Collect(maps.Values(p.b.ids)), p.b.id, p.b.email, p.b.key, p.b.admin)
}
