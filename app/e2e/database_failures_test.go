// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/adapters/testserver/soak"
)

// databaseService is a server on PostgreSQL with an account and a connected tenant.
type databaseService struct {
	accountResources
	service *serviceFixture
	db      *sql.DB // a direct connection to the database
}

func newDatabaseService(t *testing.T, direct, serviceURL string) databaseService {
	t.Helper()
	r := newServiceFixture(t, requirePrograms(t, releaseBuild))
	env := append(r.env(t.TempDir(), serviceURL), "TENANTRY_LIMITS=off")
	r.runCommand(env, "migrate")
	_, key := r.newAccount(env, "ann@example.com", "complete", 0)
	_, c := r.serve(env)
	c.ready.APIKey = key
	db, err := sql.Open("pgx", direct)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	o := databaseService{accountResources{accountTenant{caller: caller{c, "", "ann@example.com", key}}, map[string]string{}}, r, db}
	o.useNewTenant()
	return o
}

// useNewTenant connects a new tenant and uses it from now on.
func (o *databaseService) useNewTenant() {
	o.t.Helper()
	o.guid, o.admin = o.service.newTenant(o.client)
	newAdministrator(o.t, o.admin).connect(o.client, o.key)
	o.mustSync()
	o.ids["tenant_id"] = o.guid
}

// addDomainAndMailboxes adds a verified domain with three mailboxes.
func (o *databaseService) addDomainAndMailboxes() {
	o.t.Helper()
	name := fmt.Sprintf("trouble-%d.test", uniqueNumber.Add(1))
	must(o.t, o.service.zones.Add(name, "manual"))
	o.post(o.path("/domains"), object{"domain": name})
	o.publishRecords(name)
	o.post(o.domainPath(name, "/verify"), nil)
	o.post(o.path("/mailboxes"), mailboxesBody(name, "ada", "max", "lise"))
	o.ids["domain_name"] = name
}

func (o *databaseService) exec(statements ...string) {
	o.t.Helper()
	for _, s := range statements {
		if _, err := o.db.ExecContext(context.Background(), s); err != nil {
			o.t.Fatalf("%s: %v", s, err)
		}
	}
}

func (o *databaseService) storedLimit(mailbox string) any {
	o.t.Helper()
	for _, m := range o.get(o.path("/mailboxes")).objects("mailboxes") {
		if m.text("id") == mailbox {
			return m["daily_send_limit"]
		}
	}
	return nil
}

func databaseURL(t *testing.T, server, database string) string {
	t.Helper()
	u, err := url.Parse(server)
	must(t, err)
	u.Path = "/" + database
	return u.String()
}

// TestAcknowledgedWritesSurviveADatabaseCrash crashes the database while writes run, and starts it
// again. Acknowledged writes are stored, all others are answered 503 with Retry-After, and reads
// succeed again.
func TestAcknowledgedWritesSurviveADatabaseCrash(t *testing.T) {
	t.Parallel()
	server, err := testserver.StartPostgres(t.Context())
	must(t, err)
	t.Cleanup(server.Stop)
	admin, err := sql.Open("pgx", server.URL)
	must(t, err)
	defer func() { _ = admin.Close() }()
	for _, s := range []string{"CREATE DATABASE crash", "ALTER DATABASE crash SET synchronous_commit = on"} {
		if _, err := admin.ExecContext(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	own := databaseURL(t, server.URL, "crash")
	o := newDatabaseService(t, own, own)
	o.addDomainAndMailboxes()
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	all := o.get(o.path("/mailboxes")).objects("mailboxes")
	acked, tried := make([]atomic.Int64, len(all)), make([]atomic.Int64, len(all))
	var refused atomic.Int64
	for i, m := range all {
		writers.Go(func() {
			for n := int64(1); ctx.Err() == nil; n++ {
				tried[i].Store(n)
				got, err := o.tryDo("PATCH", o.ready.APIURL+o.path("/mailboxes/"+m.text("id")), o.key, object{"daily_send_limit": n%25 + 1})
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
	must(t, server.Crash(t.Context()))
	o.eventually("reads succeed again", func() bool {
		got, err := o.tryDo("GET", o.ready.APIURL+"/v1/tenants", o.key, nil)
		return err == nil && got.status == http.StatusOK
	})
	stop()
	writers.Wait()
	if refused.Load() == 0 {
		t.Error("no write was in progress at the crash")
	}
	for i, m := range all {
		stored := o.storedLimit(m.text("id"))
		good := false
		for n := acked[i].Load(); n <= tried[i].Load(); n++ {
			good = good || stored == float64(n%25+1)
		}
		if !good {
			t.Errorf("mailbox %d has %v; %d was acknowledged last, %d tried", i, stored, acked[i].Load(), tried[i].Load())
		}
	}
}

// TestSerializationFailuresAreRetried checks that a transaction with a serialization failure is
// repeated. One that always fails is answered 503 and changes nothing.
func TestSerializationFailuresAreRetried(t *testing.T) {
	t.Parallel()
	direct := testserver.Database(t)
	o := newDatabaseService(t, direct, direct)
	o.addDomainAndMailboxes()
	mailbox := o.get(o.path("/mailboxes")).objects("mailboxes")[0].text("id")
	o.exec("CREATE SEQUENCE lost", // no rollback resets a sequence
		`CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF nextval('lost') <= 2 THEN RAISE EXCEPTION 'lost' USING ERRCODE = '40001'; END IF; RETURN NEW; END $$`,
		"CREATE TRIGGER lose BEFORE UPDATE ON mailboxes FOR EACH ROW EXECUTE FUNCTION lose()")
	o.expect("PATCH", o.path("/mailboxes/"+mailbox), object{"daily_send_limit": 7}, 200, "")
	if got := o.storedLimit(mailbox); got != 7.0 {
		t.Errorf("the limit is %v", got)
	}
	o.exec(`CREATE OR REPLACE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'lost' USING ERRCODE = '40P01'; END $$`)
	got := o.expect("PATCH", o.path("/mailboxes/"+mailbox), object{"daily_send_limit": 9}, 503, "service_unavailable")
	if got.header.Get("Retry-After") == "" || o.storedLimit(mailbox) != 7.0 {
		t.Errorf("Retry-After %q, limit %v", got.header.Get("Retry-After"), o.storedLimit(mailbox))
	}
	o.exec("DROP TRIGGER lose ON mailboxes")
	o.expect("PATCH", o.path("/mailboxes/"+mailbox), object{"daily_send_limit": 9}, 200, "")
}

// TestExhaustedPoolAnswers503 checks that requests are answered 503 while every connection waits
// for a lock, and succeed once the lock is released.
func TestExhaustedPoolAnswers503(t *testing.T) {
	t.Parallel()
	direct := testserver.Database(t)
	o := newDatabaseService(t, direct, direct)
	o.addDomainAndMailboxes()
	mailbox := o.get(o.path("/mailboxes")).objects("mailboxes")[0].text("id")
	tx, err := o.db.BeginTx(t.Context(), nil)
	must(t, err)
	if _, err := tx.ExecContext(t.Context(), "LOCK TABLE mailboxes IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	var stuck sync.WaitGroup
	var released atomic.Bool
	for range 64 {
		stuck.Go(func() {
			for !released.Load() { // a write that waits too long releases its connection
				got, err := o.tryDo("PATCH", o.ready.APIURL+o.path("/mailboxes/"+mailbox), o.key, object{"daily_send_limit": rand.IntN(25) + 1})
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
	must(t, tx.Rollback())
	stuck.Wait()
	o.eventually("reads succeed again", func() bool { return o.call("GET", "/v1/tenants", nil).status == http.StatusOK })
}

// commitCutter is a TCP proxy in front of the database that can cut a connection in the middle of a
// COMMIT: before the database receives it, or after the database executed it and before the
// response arrives. The service cannot distinguish the two cases.
type commitCutter struct {
	listener net.Listener
	to       string

	mu          sync.Mutex
	skip        int // number of COMMITs that pass before one is cut
	armed       bool
	afterCommit bool // cut after the database executed the COMMIT
	cuts        int
}

func newCommitCutter(t *testing.T, to string) *commitCutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	s := &commitCutter{listener: l, to: to}
	go func() {
		for {
			clientConn, err := l.Accept()
			if err != nil {
				return
			}
			go s.connect(clientConn)
		}
	}()
	return s
}

func (s *commitCutter) connect(clientConn net.Conn) {
	defer func() { _ = clientConn.Close() }()
	serverConn, err := net.Dial("tcp", s.to)
	if err != nil {
		return
	}
	defer func() { _ = serverConn.Close() }()
	dropAnswers := make(chan struct{}) // closed when responses are no longer forwarded
	go func() {
		defer func() { _ = clientConn.Close() }()
		buffer := make([]byte, 64<<10)
		for {
			n, err := serverConn.Read(buffer)
			select {
			case <-dropAnswers:
				return // the response to the COMMIT arrived and is dropped
			default:
			}
			if _, fail := clientConn.Write(buffer[:n]); err != nil || fail != nil {
				return
			}
		}
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := clientConn.Read(buffer)
		cut, done := s.shouldCut(buffer[:n])
		if cut && !done {
			return
		}
		if cut {
			close(dropAnswers)
		}
		if _, fail := serverConn.Write(buffer[:n]); err != nil || fail != nil {
			return
		}
		if cut {
			_, _ = io.Copy(io.Discard, clientConn) // until the database's response was read
			return
		}
	}
}

// shouldCut reports whether sent is the COMMIT to cut, and whether to cut after it was executed.
func (s *commitCutter) shouldCut(sent []byte) (cut, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.armed || !bytes.Contains(bytes.ToLower(sent), []byte("commit\x00")) {
		return false, false
	}
	if s.skip > 0 {
		s.skip--
		return false, false
	}
	s.armed = false
	s.cuts++
	return true, s.afterCommit
}

func (s *commitCutter) arm(skip int, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed, s.skip, s.afterCommit, s.cuts = true, skip, done, 0
}

// disarm returns the number of cuts since arm.
func (s *commitCutter) disarm() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed = false
	return s.cuts
}

// TestWritesSurviveConnectionLossInCommit cuts each COMMIT of each write. The response is a
// success, 504, or 503 with Retry-After. The repeated request succeeds and has one effect.
func TestWritesSurviveConnectionLossInCommit(t *testing.T) {
	t.Parallel()
	direct := testserver.Database(t)
	address, err := url.Parse(direct)
	must(t, err)
	s := newCommitCutter(t, address.Host)
	address.Host = s.listener.Addr().String()
	o := newDatabaseService(t, direct, address.String())
	o.addDomainAndMailboxes()
	most, cuts := 1, 0
	if soak.On() {
		most = 6
	}
	for _, done := range []bool{false, true} {
		if done {
			o.useNewTenant() // a tenant has at most 12 domains
		}
		for skip := range most {
			cuts += o.eachWrite(s, skip, done)
		}
	}
	t.Logf("%d COMMITs were cut", cuts)
	if cuts < 4 {
		t.Errorf("only %d COMMITs were cut", cuts)
	}
	o.checkCreatedOnce()
}

// eachWrite sends every write once, for a new domain.
func (o *databaseService) eachWrite(s *commitCutter, skip int, done bool) (cuts int) {
	o.t.Helper()
	name := fmt.Sprintf("commit-%d.test", uniqueNumber.Add(1))
	must(o.t, o.service.zones.Add(name, "manual"))
	write := func(method, path string, body any) reply {
		o.t.Helper()
		s.arm(skip, done)
		got, wasCut := o.retryThroughCuts(s, method, path, body)
		cuts += wasCut
		return got
	}
	write("POST", o.path("/domains"), object{"domain": name})
	o.publishRecords(name)
	checkValues(o.t, write("POST", o.domainPath(name, "/verify"), nil).object, object{"is_verified": true})
	got := write("POST", o.path("/mailboxes"), mailboxesBody(name, "ada", "max"))
	if got.at("created_count") != 2.0 {
		o.t.Errorf("skip %d, done %v: %s", skip, done, got.raw)
	}
	write("POST", o.path("/sync"), nil)
	for _, m := range o.get(o.path("/mailboxes")).objects("mailboxes") {
		if strings.HasSuffix(m.text("primary_smtp"), name) {
			write("PATCH", o.path("/mailboxes/"+m.text("id")), object{"daily_send_limit": 3})
			if o.storedLimit(m.text("id")) != 3.0 {
				o.t.Errorf("the limit of %v", m)
			}
		}
	}
	return cuts
}

// retryThroughCuts repeats a request with the same key until it succeeds. It also returns 1 if a
// COMMIT was cut.
func (o *databaseService) retryThroughCuts(s *commitCutter, method, path string, body any) (reply, int) {
	o.t.Helper()
	key, cutCount := fmt.Sprint("commit-", uniqueNumber.Add(1)), 0
	for deadline := time.Now().Add(waitTimeout); time.Now().Before(deadline); {
		got, err := o.tryWithKey(key, method, o.ready.APIURL+path, o.key, body)
		cutCount += s.disarm()
		if err == nil && got.status == http.StatusOK {
			return got, min(cutCount, 1)
		}
		if err != nil || got.status != 503 && got.status != 504 || got.status == 503 && got.header.Get("Retry-After") == "" {
			o.t.Fatalf("%s %s: %d %s, %v", method, path, got.status, got.raw, err)
		}
	}
	o.t.Fatalf("%s %s did not succeed in %s", method, path, waitTimeout)
	return reply{}, cutCount
}

// checkCreatedOnce checks that no domain or mailbox was created twice at the mail platform.
func (o *databaseService) checkCreatedOnce() {
	o.t.Helper()
	made := map[string]int{}
	for _, q := range o.service.recordedRequests() {
		adds := q.method == http.MethodPost && strings.HasSuffix(q.path, "/domains")
		if q.status < 300 && (adds || q.cmdlet() == "New-Mailbox") {
			made[q.path+" "+string(q.body)]++
		}
	}
	if len(made) < 6 {
		o.t.Errorf("only %d creations were seen", len(made))
	}
	for what, times := range made {
		if times > 1 {
			o.t.Errorf("done %d times: %s", times, what)
		}
	}
}
