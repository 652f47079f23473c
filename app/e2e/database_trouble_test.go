// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
)

// onDatabase is a server on a PostgreSQL, with an account that has a whole
// tenant.
type onDatabase struct {
	estate
	rig *rig
	db  *sql.DB // not by the way that the server takes
}

func newOnDatabase(t *testing.T, direct, as string) onDatabase {
	t.Helper()
	r := newRig(t, binary(t, release))
	env := append(r.env(t.TempDir(), as), "TENANTRY_LIMITS=off")
	r.command(env, "migrate")
	_, key := r.account(env, "ann@example.com", "complete", 0)
	_, c := r.serve(env)
	c.ready.APIKey = key
	db, err := sql.Open("pgx", direct)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	o := onDatabase{estate{holding{caller: caller{c, "", "ann@example.com", key}}, map[string]string{}}, r, db}
	o.moves()
	return o
}

// moves goes on with a new tenant.
func (o *onDatabase) moves() {
	o.t.Helper()
	o.guid, o.admin = o.rig.tenant(o.client)
	newAdministrator(o.t, o.admin).connects(o.client, o.key)
	o.synced()
	o.ids["tenant_id"] = o.guid
}

// furnish adds a domain and mailboxes.
func (o *onDatabase) furnish() {
	o.t.Helper()
	name := fmt.Sprintf("trouble-%d.test", serial.Add(1))
	if err := o.rig.zones.Add(name, "manual"); err != nil {
		o.t.Fatal(err)
	}
	o.post(o.path("/domains"), object{"domain": name})
	o.publish(name)
	o.post(o.domain(name, "/verify"), nil)
	o.post(o.path("/mailboxes"), boxes(name, "ada", "max", "lise"))
	o.ids["domain_name"] = name
}

func (o *onDatabase) exec(statements ...string) {
	o.t.Helper()
	for _, s := range statements {
		if _, err := o.db.ExecContext(context.Background(), s); err != nil {
			o.t.Fatalf("%s: %v", s, err)
		}
	}
}

func (o *onDatabase) limit(mailbox string) any {
	o.t.Helper()
	for _, m := range o.get(o.path("/mailboxes")).objects("mailboxes") {
		if m.text("id") == mailbox {
			return m["daily_send_limit"]
		}
	}
	return nil
}

func withDatabase(t *testing.T, server, name string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

// TestDatabaseCrash stops the database immediately while writes run, and starts it
// again. Acknowledged writes are stored, all others are answered 503 with
// Retry-After, and reads succeed again.
func TestDatabaseCrash(t *testing.T) {
	t.Parallel()
	server, err := testserver.StartPostgres(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	admin, err := sql.Open("pgx", server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close() }()
	for _, s := range []string{"CREATE DATABASE crash", "ALTER DATABASE crash SET synchronous_commit = on"} {
		if _, err := admin.ExecContext(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	own := withDatabase(t, server.URL, "crash")
	o := newOnDatabase(t, own, own)
	o.furnish()
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	all := o.get(o.path("/mailboxes")).objects("mailboxes")
	acked, tried := make([]atomic.Int64, len(all)), make([]atomic.Int64, len(all))
	var refused atomic.Int64
	for i, m := range all {
		writers.Go(func() {
			for n := int64(1); ctx.Err() == nil; n++ {
				tried[i].Store(n)
				got, err := o.try("PATCH", o.ready.APIURL+o.path("/mailboxes/"+m.text("id")), o.key, object{"daily_send_limit": n%25 + 1})
				if err == nil && got.status == http.StatusOK {
					acked[i].Store(n)
					continue
				}
				if err != nil || got.status != 503 || got.header.Get("Retry-After") == "" {
					t.Errorf("a write is answered %d %s, %v", got.status, got.raw, err)
				}
				refused.Add(1)
				<-time.After(20 * time.Millisecond)
			}
		})
	}
	o.eventually("each mailbox was written to", func() bool {
		for i := range acked {
			if acked[i].Load() == 0 {
				return false
			}
		}
		return true
	})
	if err := server.Crash(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.eventually("reads succeed again", func() bool {
		got, err := o.try("GET", o.ready.APIURL+"/v1/tenants", o.key, nil)
		return err == nil && got.status == http.StatusOK
	})
	stop()
	writers.Wait()
	if refused.Load() == 0 {
		t.Error("no write met the crash")
	}
	for i, m := range all {
		stored := o.limit(m.text("id"))
		good := false
		for n := acked[i].Load(); n <= tried[i].Load(); n++ {
			good = good || stored == float64(n%25+1)
		}
		if !good {
			t.Errorf("mailbox %d has %v; %d was acknowledged last, %d tried", i, stored, acked[i].Load(), tried[i].Load())
		}
	}
}

// TestSerializationFailures: a transaction that lost is run again; one that
// always loses is 503, and leaves nothing.
func TestSerializationFailures(t *testing.T) {
	t.Parallel()
	direct := testserver.Database(t)
	o := newOnDatabase(t, direct, direct)
	o.furnish()
	mailbox := o.get(o.path("/mailboxes")).objects("mailboxes")[0].text("id")
	o.exec("CREATE SEQUENCE lost", // which no rollback takes back
		`CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF nextval('lost') <= 2 THEN RAISE EXCEPTION 'lost' USING ERRCODE = '40001'; END IF; RETURN NEW; END $$`,
		"CREATE TRIGGER lose BEFORE UPDATE ON mailboxes FOR EACH ROW EXECUTE FUNCTION lose()")
	o.expect("PATCH", o.path("/mailboxes/"+mailbox), object{"daily_send_limit": 7}, 200, "")
	if got := o.limit(mailbox); got != 7.0 {
		t.Errorf("the limit is %v", got)
	}
	o.exec(`CREATE OR REPLACE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'lost' USING ERRCODE = '40P01'; END $$`)
	got := o.expect("PATCH", o.path("/mailboxes/"+mailbox), object{"daily_send_limit": 9}, 503, "service_unavailable")
	if got.header.Get("Retry-After") == "" || o.limit(mailbox) != 7.0 {
		t.Errorf("Retry-After %q, limit %v", got.header.Get("Retry-After"), o.limit(mailbox))
	}
	o.exec("DROP TRIGGER lose ON mailboxes")
	o.expect("PATCH", o.path("/mailboxes/"+mailbox), object{"daily_send_limit": 9}, 200, "")
}

// TestPoolExhausted checks that requests are answered 503 while every connection
// waits for a lock, and succeed once the lock is released.
func TestPoolExhausted(t *testing.T) {
	t.Parallel()
	direct := testserver.Database(t)
	o := newOnDatabase(t, direct, direct)
	o.furnish()
	mailbox := o.get(o.path("/mailboxes")).objects("mailboxes")[0].text("id")
	tx, err := o.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "LOCK TABLE mailboxes IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	var stuck sync.WaitGroup
	var released atomic.Bool
	for range 64 {
		stuck.Go(func() {
			for !released.Load() { // a write that waits too long gives its connection back
				got, err := o.try("PATCH", o.ready.APIURL+o.path("/mailboxes/"+mailbox), o.key, object{"daily_send_limit": rand.IntN(25) + 1})
				if err != nil || got.status != 200 && (got.status != 503 || got.header.Get("Retry-After") == "") {
					t.Errorf("a write that waits is answered %d %s, %v", got.status, got.raw, err)
					return
				}
			}
		})
	}
	o.eventually("every connection waits", func() bool {
		var n int
		row := o.db.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
		return row.Scan(&n) == nil && n >= 20
	})
	for _, path := range []string{"/v1/tenants", o.path("/domains")} {
		o.eventually(path+" is refused", func() bool {
			got := o.call("GET", path, nil)
			return got.status == 503 && got.code() == "service_unavailable" && got.header.Get("Retry-After") != ""
		})
	}
	if got := o.do("GET", o.ready.AdminURL+"/livez", "", nil); got.status != http.StatusOK {
		t.Errorf("/livez: %d", got.status)
	}
	o.eventually("not ready", func() bool {
		return o.do("GET", o.ready.AdminURL+"/readyz", "", nil).status == http.StatusServiceUnavailable
	})
	released.Store(true)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	stuck.Wait()
	o.eventually("reads succeed again", func() bool { return o.call("GET", "/v1/tenants", nil).status == http.StatusOK })
}
