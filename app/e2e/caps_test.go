// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/rand"
	"database/sql"
	"fmt"
	"sync"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // to count in the database itself

	"github.com/tenantry/tenantry/adapters/testserver"
)

// crowd is how many requests come at once.
const crowd = 50

// twins are two servers on one PostgreSQL and one keyset.
type twins struct {
	*rig
	servers [2]client
	key     string
	db      *sql.DB
}

func newTwins(t *testing.T, plan string, slots int) *twins {
	t.Helper()
	r := newRig(t, binary(t, release))
	database := testserver.Database(t)
	env := r.env(t.TempDir(), database)
	r.command(env, "migrate")
	w := &twins{rig: r}
	_, w.key = r.account(env, "owner@example.com", plan, slots)
	for i := range w.servers {
		_, w.servers[i] = r.serve(env)
		w.servers[i].ready.APIKey = w.key
	}
	var err error
	if w.db, err = sql.Open("pgx", database); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.db.Close() })
	return w
}

// rush sends requests at once, by turns to both servers, and counts the
// answers by status and code.
func (w *twins) rush(n int, send func(i int, c client) reply) map[string]int {
	w.t.Helper()
	answers, gate := make([]reply, n), make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-gate
			answers[i] = send(i, w.servers[i%2])
		})
	}
	close(gate)
	all.Wait()
	count := map[string]int{}
	for _, a := range answers {
		count[fmt.Sprint(a.status, " ", a.code())]++
	}
	return count
}

func (w *twins) post(c client, path string, body any) reply {
	w.t.Helper()
	got, err := c.patient(rand.Text(), "POST", path, w.key, body)
	if err != nil {
		w.t.Error(err)
	}
	return got
}

func (w *twins) rows(query string) (n int) {
	w.t.Helper()
	if err := w.db.QueryRow(query).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (w *twins) counts(what string, got, want any) {
	w.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// effective counts what the simulator did of an operation.
func (w *twins) effective(method, path, cmdlet string) (n int) {
	for _, call := range w.requests() {
		if call.method == method && call.path == path && call.status < 300 && (cmdlet == "" || call.cmdlet() == cmdlet) {
			n++
		}
	}
	return n
}

// TestCapsOverTwoServers: fifty requests at once over two processes, for more
// domains, mailboxes and tenants than there may be. The database and the mail
// platform hold exactly as many as there may be.
func TestCapsOverTwoServers(t *testing.T) {
	t.Parallel()
	w := newTwins(t, "complete", 3)
	a := w.servers[0]
	tenant, admin := w.tenant(a)
	newAdministrator(t, admin).connects(a, w.key)
	path := "/v1/tenants/" + tenant
	w.counts("sync", a.api("POST", path+"/sync", nil).text("status"), "completed")

	t.Run("mailboxes", func(t *testing.T) {
		zone := w.verifiedDomain(tenant)
		got := w.rush(crowd, func(i int, c client) reply {
			return w.post(c, path+"/mailboxes", boxes(zone, fmt.Sprintf("box%d", i)))
		})
		w.counts("answers", got, map[string]int{"200 ": 3, "400 mailbox_limit_reached": crowd - 3})
		w.counts("in the database", w.rows("SELECT count(*) FROM mailboxes"), 3)
		w.counts("at the platform", len(a.control("GET", "/tenants/"+tenant, nil).objects("mailboxes")), 3)
		w.counts("made at the platform", w.effective("POST", "/exchange/adminapi/beta/"+tenant+"/InvokeCommand", "New-Mailbox"), 3)
	})
	t.Run("the same domain", func(t *testing.T) {
		got := w.rush(crowd, func(_ int, c client) reply { return w.post(c, path+"/domains", object{"domain": "same.test"}) })
		w.counts("answers", got, map[string]int{"200 ": crowd})
		w.counts("in the database", w.rows("SELECT count(*) FROM domains WHERE name = 'same.test'"), 1)
		w.counts("made at the platform", w.effective("POST", "/graph/v1.0/domains", ""), 2)
	})
	t.Run("domains", func(t *testing.T) {
		got := w.rush(crowd, func(i int, c client) reply {
			return w.post(c, path+"/domains", object{"domain": fmt.Sprintf("domain-%d.test", i)})
		})
		w.counts("answers", got, map[string]int{"200 ": 10, "400 domain_limit_reached": crowd - 10})
		w.counts("in the database", w.rows("SELECT count(*) FROM domains"), 12)
		w.counts("at the platform", len(a.control("GET", "/tenants/"+tenant, nil).objects("domains")), 12)
		w.counts("made at the platform", w.effective("POST", "/graph/v1.0/domains", ""), 12)
	})
	t.Run("tenants", w.tenantCeiling)
}

// tenantCeiling: the account has three slots, one of them taken; fifty
// administrators press Connect at once.
func (w *twins) tenantCeiling(t *testing.T) {
	ready := make([]*administrator, crowd)
	for i := range ready {
		c := w.servers[i%2]
		_, admin := w.tenant(c)
		ready[i] = newAdministrator(t, admin)
		ready[i].proves(c, w.key)
	}
	got := w.rush(crowd, func(i int, _ client) reply {
		// The confirmation goes to the server that did not show the page.
		ready[i].press("connect", w.servers[(i+1)%2].ready.APIURL)
		return reply{status: ready[i].status}
	})
	w.counts("answers", got, map[string]int{"200 ": 2, "402 ": crowd - 2})
	w.counts("in the database", w.rows("SELECT count(*) FROM tenants"), 3)
	w.counts("listed", w.servers[0].api("GET", "/v1/tenants", nil).text("count"), 3)
	refused := w.servers[1].api("GET", "/v1/tenants/connect-url", nil)
	w.counts("one more link", fmt.Sprint(refused.status, " ", refused.code()), "402 tenant_limit_reached")
}

// verifiedDomain adds a domain and verifies it.
func (w *twins) verifiedDomain(tenant string) string {
	w.t.Helper()
	zone := "mail.test"
	if err := w.zones.Add(zone, "manual"); err != nil {
		w.t.Fatal(err)
	}
	h := holding{caller: ownerAt(w.t, w.servers[0].ready), guid: tenant}
	h.post(h.path("/domains"), object{"domain": zone})
	h.publish(zone)
	h.post(h.domain(zone, "/verify"), nil)
	return zone
}
