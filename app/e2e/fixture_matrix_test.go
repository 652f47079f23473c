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

	_ "modernc.org/sqlite" // the SQLite driver
)

// matrixFixture has the accounts and resources of the authorization matrix
// (testdata/authz-matrix.csv).
type matrixFixture struct {
	owner           caller            // the account with which the sandbox starts
	a               matrixAccount     // sends most requests
	b               matrixAccount     // has the resources that are foreign to account a
	trial           matrixAccount     // its API key has the trial form
	spare           matrixAccount     // its plan lapses and its key is rotated during the test
	downgraded      matrixAccount     // has more tenants than its plan has slots
	full            caller            // has no free tenant slot
	lapsed          matrixAccount     // its plan is not active
	rotatedKey      string            // an API key of spare, invalid since its rotation
	managed         accountTenant     // assigned to an account that has no other tenant
	formerlyManaged accountTenant     // was assigned to account a
	deleted         accountTenant     // was connected to account a
	ids             map[string]string // ids of further resources, and an address, by name

	spans         *spanReceiver
	db            *sql.DB
	snapshotQuery string // SQL that returns all rows of the tables that a refused request must not change, as text
}

// matrixAccount is an account with a tenant, which has two domains and three mailboxes. The account
// can have a second tenant, which has a domain and a mailbox.
type matrixAccount struct {
	accountResources
	second accountResources // empty if the account has only one tenant
}

// newMatrixAccount creates the resources of an account, with one or two tenants.
func newMatrixAccount(c caller, tenants int) matrixAccount {
	account := matrixAccount{accountResources: c.newSigningResources("ada", "max", "lise")}
	account.post(account.path("/domains"), object{"domain": account.newZone()})
	if tenants > 1 {
		account.second = c.newSigningResources("ada")
	}
	return account
}

// newSigningResources creates a tenant that has a domain with DKIM, mailboxes and a send limit.
func (c caller) newSigningResources(localParts ...string) accountResources {
	tenant := c.newConnectedTenant(nil)
	zone := tenant.newVerifiedDomain()
	tenant.publishRecords(zone)
	tenant.eventually("the selectors are seen", func() bool {
		return tenant.get(tenant.domainPath(zone, "/dkim-status")).valueAt("ready_to_enable") == true
	})
	tenant.post(tenant.domainPath(zone, "/enable-dkim"), nil)
	tenant.post(tenant.path("/mailboxes"), mailboxesBody(zone, localParts...))
	tenant.post(tenant.path("/mailbox-limits"), object{"daily_send_limit": 25})
	return accountResources{tenant, map[string]string{
		"tenant_id": tenant.guid, "domain_name": zone, "tenant_resource_id": tenant.get(tenant.path("")).text("id"),
		"domain_id":  tenant.get(tenant.path("/domains")).objects("domains")[0].text("id"),
		"mailbox_id": tenant.get(tenant.path("/mailboxes")).objects("mailboxes")[0].text("id"),

		"connect_session_id": c.get("/v1/tenants/connect-url").text("id"),
	}}
}

// newMatrixFixture starts a sandbox and creates the accounts and resources of the matrix.
func newMatrixFixture(t *testing.T) *matrixFixture {
	t.Helper()
	fixture, dataDir := &matrixFixture{spans: newSpanReceiver(t), ids: map[string]string{}}, t.TempDir()
	env := append(fixture.spans.env(), "TENANTRY_WORKER=false")
	_, ready := startDev(t, requirePrograms(t, releaseBuild), dataDir, env, "--limits", "off")
	fixture.owner = seededAccount(t, ready)
	c := fixture.owner
	fixture.a, fixture.b = newMatrixAccount(c.newAccount(nil), 2), newMatrixAccount(c.newAccount(nil), 1)
	fixture.trial, fixture.spare = newMatrixAccount(c.newAccount(object{"key_form": "trial"}), 1), newMatrixAccount(c.newAccount(nil), 1)
	fixture.downgraded = newMatrixAccount(c.newAccount(nil), 2)
	fixture.downgraded.setPlan(object{"plan": "complete", "active": true, "tenant_slots": 1})
	fixture.lapsed = newMatrixAccount(c.newAccount(nil), 1)
	fixture.lapsed.setPlan(object{"plan": "complete", "active": false})
	fixture.full = c.newAccount(object{"tenant_slots": 1}).newTenant(nil).connect().caller
	fixture.rotatedKey = fixture.spare.rotateKey()
	fixture.managed, fixture.formerlyManaged, fixture.deleted = c.newAccount(nil).newTenant(nil), fixture.a.newTenant(nil), fixture.a.newTenant(nil).connect()
	for _, tenant := range []accountTenant{fixture.managed, fixture.formerlyManaged} {
		c.control("POST", "/managed", object{"tenant_id": tenant.guid, "account_id": tenant.id})
	}
	for name, tenant := range map[string]accountTenant{"managed": fixture.managed, "deleted": fixture.deleted, "returned": fixture.formerlyManaged} {
		tenant.mustSync()
		tenant.post(tenant.path("/domains"), object{"domain": tenant.newZone()})
		fixture.ids[name] = tenant.get(tenant.path("/domains")).objects("domains")[0].text("id")
	}
	file := filepath.Join(dataDir, "tenantry.db")
	returned := accountResources{fixture.formerlyManaged, map[string]string{"domain_id": fixture.ids["returned"], "domain_name": "returned.example"}}
	addWaitingRuns(t, file, fixture.a.accountResources, fixture.b.accountResources, fixture.trial.accountResources, fixture.spare.accountResources, fixture.downgraded.accountResources, fixture.lapsed.accountResources, returned)
	fixture.ids["returned job"] = returned.ids["job_id"]
	fixture.addIntegrations(t)
	c.control("DELETE", "/managed/"+fixture.formerlyManaged.guid, nil)
	fixture.deleted.expect("DELETE", fixture.deleted.path(""), nil, 200, "")
	fixture.openDatabase(t, file)
	return fixture
}

func (m *matrixAccount) rotateKey() (oldKey string) {
	oldKey = m.key
	m.key = m.post("/api-key/rotate?user_email="+m.email, nil).text("api_key")
	return oldKey
}

// openDatabase opens the service's database read-only and sets snapshotQuery.
func (f *matrixFixture) openDatabase(t *testing.T, file string) {
	t.Helper()
	var err error
	if f.db, err = sql.Open("sqlite", "file:"+file+"?mode=ro&_pragma=busy_timeout(5000)"); err != nil {
		t.Fatal(err)
	}
	f.db.SetMaxOpenConns(1) // PRAGMA data_version is specific to a connection
	t.Cleanup(func() { _ = f.db.Close() })
	var parts []string
	// The excluded tables may change: a refused request of a known key adds an audit entry, and
	// once a minute the service stores when each key was last used.
	for _, table := range f.queryStrings(t, "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT IN ('audit_chains', 'audit_entries', 'api_key_uses')") {
		var values []string
		for _, column := range f.queryStrings(t, "SELECT name FROM pragma_table_info('"+table+"')") {
			values = append(values, `quote("`+column+`")`)
		}
		parts = append(parts, fmt.Sprintf(`'%s:' || (SELECT ifnull(group_concat(row, x'0a'), '') FROM (SELECT %s AS row FROM "%s" ORDER BY 1))`,
			table, strings.Join(values, "||','||"), table))
	}
	if len(parts) < 10 {
		t.Fatalf("the database has only %d tables, want at least 10", len(parts))
	}
	f.snapshotQuery = "SELECT " + strings.Join(parts, "||x'0a'||")
}

func (f *matrixFixture) queryStrings(t *testing.T, query string) (values []string) {
	t.Helper()
	rows, err := f.db.QueryContext(context.Background(), query)
	must(t, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var text string
		must(t, rows.Scan(&text))
		values = append(values, text)
	}
	must(t, rows.Err())
	return values
}

// databaseSnapshot is the content of the database at one moment. version is SQLite's data_version.
// rows are the tables as text.
type databaseSnapshot struct{ version, rows string }

// snapshot takes a snapshot of the database. It reads the rows only if something was written since
// the snapshot in before.
func (f *matrixFixture) snapshot(t *testing.T, before databaseSnapshot) databaseSnapshot {
	t.Helper()
	current := databaseSnapshot{version: f.queryStrings(t, "PRAGMA data_version")[0], rows: before.rows}
	if current.version != before.version {
		current.rows = f.queryStrings(t, f.snapshotQuery)[0]
	}
	return current
}

// drainJournals empties the journals in which the simulated platforms record calls. It returns the
// number of calls to mailPlatform and matrixPlatform.
func (f *matrixFixture) drainJournals(t *testing.T) (n int) {
	t.Helper()
	c := f.owner.withT(t)
	for _, provider := range []string{mailPlatform, matrixPlatform} {
		var calls []json.RawMessage
		must(t, json.Unmarshal(c.control("GET", "/calls?provider="+provider, nil).raw, &calls))
		n += len(calls)
	}
	if n > 0 {
		c.control("DELETE", "/calls", nil)
	}
	return n
}

// otherAccountValues returns the values of account b that no response to a different account may
// contain.
func (f *matrixFixture) otherAccountValues() []string {
	return append(slices.Collect(maps.Values(f.b.ids)), f.b.id, f.b.email, f.b.key, f.b.admin)
}
