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

// newDatabaseService starts a server on the database at serviceURL, which can lead through a proxy.
// The tests connect to the same database at directURL.
func newDatabaseService(t *testing.T, directURL, serviceURL string) databaseService {
	t.Helper()
	fixture := newServiceFixture(t, requirePrograms(t, releaseBuild))
	env := append(fixture.env(t.TempDir(), serviceURL), "TENANTRY_LIMITS=off")
	fixture.runCommand(env, "migrate")
	_, key := fixture.newAccount(env, "ann@example.com", "complete", 0)
	_, c := fixture.serve(env)
	c.ready.APIKey = key
	db, err := sql.Open("pgx", directURL)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	service := databaseService{accountResources{accountTenant{caller: caller{c, "", "ann@example.com", key}}, map[string]string{}}, fixture, db}
	service.useNewTenant()
	return service
}

// useNewTenant connects a new tenant and uses it from now on.
func (s *databaseService) useNewTenant() {
	s.t.Helper()
	s.guid, s.admin = s.service.newTenant(s.client)
	newAdministrator(s.t, s.admin).connect(s.client, s.key)
	s.mustSync()
	s.ids["tenant_id"] = s.guid
}

func (s *databaseService) addDomainAndMailboxes() {
	s.t.Helper()
	name := fmt.Sprintf("trouble-%d.test", uniqueNumber.Add(1))
	must(s.t, s.service.zones.Add(name, "manual"))
	s.post(s.path("/domains"), object{"domain": name})
	s.publishRecords(name)
	s.post(s.domainPath(name, "/verify"), nil)
	s.post(s.path("/mailboxes"), mailboxesBody(name, "ada", "max", "lise"))
	s.ids["domain_name"] = name
}

func (s *databaseService) exec(statements ...string) {
	s.t.Helper()
	for _, statement := range statements {
		if _, err := s.db.ExecContext(context.Background(), statement); err != nil {
			s.t.Fatalf("the statement %s fails: %v", statement, err)
		}
	}
}

func (s *databaseService) storedLimit(mailbox string) any {
	s.t.Helper()
	for _, m := range s.get(s.path("/mailboxes")).objects("mailboxes") {
		if m.text("id") == mailbox {
			return m["daily_send_limit"]
		}
	}
	return nil
}

// databaseURL returns the URL of a database. server is the URL of its database server.
func databaseURL(t *testing.T, server, database string) string {
	t.Helper()
	u, err := url.Parse(server)
	must(t, err)
	u.Path = "/" + database
	return u.String()
}

// TestAcknowledgedWritesSurviveADatabaseCrash crashes the database while writes run, and starts it
// again. Acknowledged writes are stored, all other writes are answered 503 with Retry-After, and
// reads succeed again.
func TestAcknowledgedWritesSurviveADatabaseCrash(t *testing.T) {
	t.Parallel()
	server, err := testserver.StartPostgres(t.Context())
	must(t, err)
	t.Cleanup(server.Stop)
	admin, err := sql.Open("pgx", server.URL)
	must(t, err)
	defer func() { _ = admin.Close() }()
	for _, statement := range []string{"CREATE DATABASE crash", "ALTER DATABASE crash SET synchronous_commit = on"} { // test servers disable synchronous_commit
		if _, err := admin.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("the statement %s fails: %v", statement, err)
		}
	}
	crashURL := databaseURL(t, server.URL, "crash")
	service := newDatabaseService(t, crashURL, crashURL)
	service.addDomainAndMailboxes()
	ctx, stopWriters := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	mailboxes := service.get(service.path("/mailboxes")).objects("mailboxes")
	acknowledged, attempted := make([]atomic.Int64, len(mailboxes)), make([]atomic.Int64, len(mailboxes))
	var refused atomic.Int64
	for i, m := range mailboxes {
		writers.Go(func() {
			for n := int64(1); ctx.Err() == nil; n++ {
				attempted[i].Store(n)
				got, err := service.tryDo("PATCH", service.ready.APIURL+service.path("/mailboxes/"+m.text("id")), service.key, object{"daily_send_limit": n%25 + 1})
				if err == nil && got.status == http.StatusOK {
					acknowledged[i].Store(n)
					continue
				}
				if err != nil || got.status != 503 || got.header.Get("Retry-After") == "" {
					t.Errorf("a write is answered %d %s, want 200 or 503 with Retry-After (%v)", got.status, got.raw, err)
				}
				refused.Add(1)
				<-time.After(20 * time.Millisecond)
			}
		})
	}
	service.eventually("each mailbox was written to", func() bool {
		for i := range acknowledged {
			if acknowledged[i].Load() == 0 {
				return false
			}
		}
		return true
	})
	must(t, server.Crash(t.Context()))
	service.eventually("reads succeed again", func() bool {
		got, err := service.tryDo("GET", service.ready.APIURL+"/v1/tenants", service.key, nil)
		return err == nil && got.status == http.StatusOK
	})
	stopWriters()
	writers.Wait()
	if refused.Load() == 0 {
		t.Error("no write was refused, want at least one refused because of the crash")
	}
	for i, m := range mailboxes {
		stored := service.storedLimit(m.text("id"))
		isPossible := false
		for n := acknowledged[i].Load(); n <= attempted[i].Load(); n++ {
			isPossible = isPossible || stored == float64(n%25+1)
		}
		if !isPossible {
			t.Errorf("mailbox %d has the limit %v, want the limit of write %d (acknowledged last) to %d (tried last)", i, stored, acknowledged[i].Load(), attempted[i].Load())
		}
	}
}

// TestStandbyIsNotReady demotes the database server to a standby while the service runs. The
// service must report that it is not ready, and must not read from the standby. After the promotion
// of the standby, the service serves requests again.
func TestStandbyIsNotReady(t *testing.T) {
	t.Parallel()
	server, err := testserver.StartPostgres(t.Context())
	must(t, err)
	t.Cleanup(server.Stop)
	serverURL := server.URL + "?synchronous_commit=on" // test servers disable synchronous_commit
	service := newDatabaseService(t, serverURL, serverURL)
	readiness := func() int { return service.do("GET", service.ready.AdminURL+"/readyz", "", nil).status }
	must(t, server.Demote(t.Context()))
	service.eventually("/readyz answers 503", func() bool { return readiness() == http.StatusServiceUnavailable })
	service.expect("GET", "/v1/tenants", nil, 503, "service_unavailable")
	service.exec("SELECT pg_promote()")
	service.eventually("/readyz answers 200", func() bool { return readiness() == http.StatusOK })
	service.addDomainAndMailboxes()
}

// TestSerializationFailuresAreRetried checks that a transaction with a serialization failure is
// repeated. A write whose transaction always ends in a deadlock is answered 503 and changes
// nothing.
func TestSerializationFailuresAreRetried(t *testing.T) {
	t.Parallel()
	directURL := testserver.Database(t)
	service := newDatabaseService(t, directURL, directURL)
	service.addDomainAndMailboxes()
	mailbox := service.get(service.path("/mailboxes")).objects("mailboxes")[0].text("id")
	service.exec("CREATE SEQUENCE updates", // a rollback does not reset a sequence, so failed attempts count too
		`CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF nextval('updates') <= 2 THEN RAISE EXCEPTION 'lost' USING ERRCODE = '40001'; END IF; RETURN NEW; END $$`,
		"CREATE TRIGGER lose BEFORE UPDATE ON mailboxes FOR EACH ROW EXECUTE FUNCTION lose()")
	service.expect("PATCH", service.path("/mailboxes/"+mailbox), object{"daily_send_limit": 7}, 200, "")
	if got := service.storedLimit(mailbox); got != 7.0 {
		t.Errorf("the limit is %v, want 7", got)
	}
	service.exec(`CREATE OR REPLACE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'lost' USING ERRCODE = '40P01'; END $$`)
	got := service.expect("PATCH", service.path("/mailboxes/"+mailbox), object{"daily_send_limit": 9}, 503, "service_unavailable")
	if got.header.Get("Retry-After") == "" || service.storedLimit(mailbox) != 7.0 {
		t.Errorf("the refused write has the Retry-After %q and leaves the limit %v, want a Retry-After and 7", got.header.Get("Retry-After"), service.storedLimit(mailbox))
	}
	service.exec("DROP TRIGGER lose ON mailboxes")
	service.expect("PATCH", service.path("/mailboxes/"+mailbox), object{"daily_send_limit": 9}, 200, "")
}

// TestExhaustedPoolAnswers503 checks that API requests and /readyz are answered 503 while every
// connection waits for a lock. API requests succeed once the lock is released.
func TestExhaustedPoolAnswers503(t *testing.T) {
	t.Parallel()
	directURL := testserver.Database(t)
	service := newDatabaseService(t, directURL, directURL)
	service.addDomainAndMailboxes()
	mailbox := service.get(service.path("/mailboxes")).objects("mailboxes")[0].text("id")
	lock, err := service.db.BeginTx(t.Context(), nil)
	must(t, err)
	if _, err := lock.ExecContext(t.Context(), "LOCK TABLE mailboxes IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	var lockReleased atomic.Bool
	for range 64 { // more writers than connections
		writers.Go(func() {
			for !lockReleased.Load() { // a write that times out releases its connection, and the next write takes it
				got, err := service.tryDo("PATCH", service.ready.APIURL+service.path("/mailboxes/"+mailbox), service.key, object{"daily_send_limit": rand.IntN(25) + 1})
				if err != nil || got.status != 200 && (got.status != 503 || got.header.Get("Retry-After") == "") {
					t.Errorf("a write is answered %d %s, want 200 or 503 with Retry-After (%v)", got.status, got.raw, err)
					return
				}
			}
		})
	}
	service.eventually("every connection waits", func() bool {
		var waiting int
		row := service.db.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
		return row.Scan(&waiting) == nil && waiting >= 20 // the default size of the pool
	})
	for _, path := range []string{"/v1/tenants", service.path("/domains")} {
		service.eventually(path+" is refused", func() bool {
			got := service.call("GET", path, nil)
			return got.status == 503 && got.code() == "service_unavailable" && got.header.Get("Retry-After") != ""
		})
	}
	if got := service.do("GET", service.ready.AdminURL+"/livez", "", nil); got.status != http.StatusOK {
		t.Errorf("/livez answers %d, want 200", got.status)
	}
	service.eventually("/readyz answers 503", func() bool {
		return service.do("GET", service.ready.AdminURL+"/readyz", "", nil).status == http.StatusServiceUnavailable
	})
	lockReleased.Store(true)
	must(t, lock.Rollback())
	writers.Wait()
	service.eventually("reads succeed again", func() bool { return service.call("GET", "/v1/tenants", nil).status == http.StatusOK })
}

// commitCutter is a TCP proxy in front of the database. It can cut a connection before the database
// receives a COMMIT, or after the database has executed the COMMIT and before the response arrives.
// The service cannot distinguish the two cases.
type commitCutter struct {
	address string // of the proxy
	server  string // the address of the database server

	mu          sync.Mutex
	skip        int // number of COMMITs that pass before a COMMIT is cut
	isArmed     bool
	afterCommit bool // cut after the database executed the COMMIT
	cuts        int
}

func newCommitCutter(t *testing.T, server string) *commitCutter {
	t.Helper()
	cutter := &commitCutter{server: server}
	cutter.address = serveTCP(t, cutter.forward)
	return cutter
}

// forward forwards one connection until a COMMIT on it is cut.
func (cutter *commitCutter) forward(clientConn net.Conn) {
	defer func() { _ = clientConn.Close() }()
	serverConn, err := net.Dial("tcp", cutter.server)
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
			if _, writeErr := clientConn.Write(buffer[:n]); err != nil || writeErr != nil {
				return
			}
		}
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := clientConn.Read(buffer)
		cut, afterCommit := cutter.shouldCut(buffer[:n])
		if cut && !afterCommit {
			return
		}
		if cut {
			close(dropAnswers)
		}
		if _, writeErr := serverConn.Write(buffer[:n]); err != nil || writeErr != nil {
			return
		}
		if cut {
			_, _ = io.Copy(io.Discard, clientConn) // ends when the goroutine above, which has read the database's response, closes clientConn
			return
		}
	}
}

// shouldCut reports whether sent is the COMMIT to cut, and whether to cut the connection after the
// database has executed the COMMIT.
func (cutter *commitCutter) shouldCut(sent []byte) (cut, afterCommit bool) {
	cutter.mu.Lock()
	defer cutter.mu.Unlock()
	if !cutter.isArmed || !bytes.Contains(bytes.ToLower(sent), []byte("commit\x00")) {
		return false, false
	}
	if cutter.skip > 0 {
		cutter.skip--
		return false, false
	}
	cutter.isArmed = false
	cutter.cuts++
	return true, cutter.afterCommit
}

// arm makes the cutter let `skip` COMMITs pass and cut the COMMIT after them.
func (cutter *commitCutter) arm(skip int, afterCommit bool) {
	cutter.mu.Lock()
	defer cutter.mu.Unlock()
	cutter.isArmed, cutter.skip, cutter.afterCommit, cutter.cuts = true, skip, afterCommit, 0
}

// disarm stops the cutting and returns the number of cuts since arm.
func (cutter *commitCutter) disarm() int {
	cutter.mu.Lock()
	defer cutter.mu.Unlock()
	cutter.isArmed = false
	return cutter.cuts
}

// TestWritesSurviveConnectionLossInCommit cuts the first COMMIT of each write. In a soak it then
// does the same with the second to the sixth COMMIT. The response is a success, 504, or 503 with
// Retry-After. The repeated request succeeds and has one effect.
func TestWritesSurviveConnectionLossInCommit(t *testing.T) {
	t.Parallel()
	directURL := testserver.Database(t)
	address, err := url.Parse(directURL)
	must(t, err)
	cutter := newCommitCutter(t, address.Host)
	address.Host = cutter.address
	service := newDatabaseService(t, directURL, address.String())
	service.addDomainAndMailboxes()
	skips, cuts := 1, 0
	if soak.Enabled() {
		skips = 6
	}
	for _, afterCommit := range []bool{false, true} {
		if afterCommit {
			service.useNewTenant() // a tenant has at most 12 domains
		}
		for skip := range skips {
			cuts += service.cutEachWrite(cutter, skip, afterCommit)
		}
	}
	t.Logf("%d COMMITs were cut", cuts)
	if cuts < 4 {
		t.Errorf("only %d COMMITs were cut, want at least 4", cuts)
	}
	service.checkCreatedOnce()
}

// cutEachWrite sends writes for a new domain, and cuts at most one COMMIT of each write. It returns
// the number of writes with a cut.
func (s *databaseService) cutEachWrite(cutter *commitCutter, skip int, afterCommit bool) (cuts int) {
	s.t.Helper()
	name := fmt.Sprintf("commit-%d.test", uniqueNumber.Add(1))
	must(s.t, s.service.zones.Add(name, "manual"))
	write := func(method, path string, body any) reply {
		s.t.Helper()
		cutter.arm(skip, afterCommit)
		got, cutWrites := s.retryThroughCuts(cutter, method, path, body)
		cuts += cutWrites
		return got
	}
	write("POST", s.path("/domains"), object{"domain": name})
	s.publishRecords(name)
	checkValues(s.t, write("POST", s.domainPath(name, "/verify"), nil).object, object{"is_verified": true})
	provisioned := write("POST", s.path("/mailboxes"), mailboxesBody(name, "ada", "max"))
	if provisioned.valueAt("created_count") != 2.0 {
		s.t.Errorf("skip %d, cut after the COMMIT %t: got %s, want 2 created mailboxes", skip, afterCommit, provisioned.raw)
	}
	write("POST", s.path("/sync"), nil)
	for _, mailbox := range s.get(s.path("/mailboxes")).objects("mailboxes") {
		if strings.HasSuffix(mailbox.text("primary_smtp"), name) {
			write("PATCH", s.path("/mailboxes/"+mailbox.text("id")), object{"daily_send_limit": 3})
			if s.storedLimit(mailbox.text("id")) != 3.0 {
				s.t.Errorf("the mailbox %v does not have the limit 3", mailbox)
			}
		}
	}
	return cuts
}

// retryThroughCuts repeats a request with the same Idempotency-Key until it succeeds. It returns
// the successful response, and 1 if at least one COMMIT was cut, otherwise 0.
func (s *databaseService) retryThroughCuts(cutter *commitCutter, method, path string, body any) (reply, int) {
	s.t.Helper()
	idempotencyKey, cutCount := fmt.Sprint("commit-", uniqueNumber.Add(1)), 0
	for deadline := time.Now().Add(waitTimeout); time.Now().Before(deadline); {
		got, err := s.tryWithKey(idempotencyKey, method, s.ready.APIURL+path, s.key, body)
		cutCount += cutter.disarm()
		if err == nil && got.status == http.StatusOK {
			return got, min(cutCount, 1)
		}
		if err != nil || got.status != 503 && got.status != 504 || got.status == 503 && got.header.Get("Retry-After") == "" {
			s.t.Fatalf("%s %s is answered %d %s, want 200, 504, or 503 with Retry-After (%v)", method, path, got.status, got.raw, err)
		}
	}
	s.t.Fatalf("%s %s did not succeed in %s", method, path, waitTimeout)
	return reply{}, cutCount
}

// checkCreatedOnce checks that each domain and each mailbox was created only once at the mail
// platform.
func (s *databaseService) checkCreatedOnce() {
	s.t.Helper()
	creations := map[string]int{}
	for _, request := range s.service.recordedRequests() {
		addsDomain := request.method == http.MethodPost && strings.HasSuffix(request.path, "/domains")
		if request.status < 300 && (addsDomain || request.cmdlet() == "New-Mailbox") {
			creations[request.path+" "+string(request.body)]++
		}
	}
	if len(creations) < 6 {
		s.t.Errorf("the platform got only %d creations, want at least 6", len(creations))
	}
	for subject, times := range creations {
		if times > 1 {
			s.t.Errorf("created %d times, want once: %s", times, subject)
		}
	}
}
