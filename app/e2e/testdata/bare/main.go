// SPDX-License-Identifier: Apache-2.0

// Command bare is the baseline of benchmarks: a net/http handler that makes the same round trips to
// the same database as the service, and does nothing else. A GET runs the statements of the tenant
// list. A PATCH runs as many commits as the PATCH of a mailbox's limit in the service.
//
// Its arguments are the database URL and the Redis URL. The Redis URL may be empty. It prints its
// address.
package main

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path"
	"strings"

	"github.com/gomodule/redigo/redis"
	_ "github.com/jackc/pgx/v5/stdlib" // the PostgreSQL driver
	_ "modernc.org/sqlite"             // the SQLite driver
)

const (
	callerQuery = `SELECT k.account_id, a.active, p.tenant_slots FROM api_keys k JOIN accounts a ON a.account_id = k.account_id
		JOIN plans p ON p.name = a.plan WHERE k.hash = $1 AND k.revoked_at IS NULL`
	listQuery = `SELECT t.id, t.guid, t.name, t.builtin_domain, t.default_domain, t.bootstrap, t.discovery, t.consented_at, t.last_sync_at,
		COALESCE(d.held, 0), COALESCE(m.held, 0) FROM tenants t
		LEFT JOIN (SELECT tenant_id, COUNT(*) AS held, COUNT(*) FILTER (WHERE verified) AS verified,
			COUNT(*) FILTER (WHERE dkim) AS signed, COUNT(*) FILTER (WHERE verification_seen AND NOT verified) AS published
			FROM domains WHERE account_id = $1 AND added GROUP BY tenant_id) AS d ON d.tenant_id = t.id
		LEFT JOIN (SELECT tenant_id, COUNT(*) AS held FROM mailboxes
			WHERE account_id = $1 AND stage IN ('ready') GROUP BY tenant_id) AS m ON m.tenant_id = t.id
		WHERE t.account_id = $1 ORDER BY t.consented_at DESC, t.id DESC`
	limitUpdate = `UPDATE mailboxes SET daily_send_limit = $1 WHERE id = $2`
)

// commits is the number of commits of the PATCH of a mailbox's limit in the service: the claim of
// the Idempotency-Key, the change, and the stored response.
const commits = 3

type tenant struct {
	ID        string `json:"id"`
	GUID      string `json:"tenant_id"`
	Name      string `json:"tenant_name"`
	Domain    string `json:"tenant_domain"`
	Default   string `json:"default_domain"`
	Bootstrap string `json:"exchange_bootstrap_status"`
	Discovery string `json:"discovery"`
	Consented any    `json:"consented_at"`
	Synced    any    `json:"last_sync_at"`
	Domains   int    `json:"domain_count"`
	Mailboxes int    `json:"mailbox_count"`
}

func main() {
	db, err := open(os.Args[1])
	if err != nil {
		panic(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println("http://" + listener.Addr().String())
	panic(http.Serve(listener, handler(db, counter(os.Args[2]))))
}

// open returns a pool of at most 16 connections to PostgreSQL, or 4 to SQLite. The pool of the
// service's store has at most 20 connections to PostgreSQL, or 4 to SQLite.
func open(url string) (*sql.DB, error) {
	driver, source, connections := "pgx", url, 16
	if file, ok := strings.CutPrefix(url, "sqlite://"); ok {
		driver, source, connections = "sqlite", "file:"+file+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)", 4
	}
	db, err := sql.Open(driver, source)
	if err == nil {
		db.SetMaxOpenConns(connections)
		db.SetMaxIdleConns(connections)
	}
	return db, err
}

// counter returns a function that counts a request in Redis. If url is empty, the function does
// nothing.
func counter(url string) func(r *http.Request) error {
	if url == "" {
		return func(*http.Request) error { return nil }
	}
	pool := &redis.Pool{MaxIdle: 64, DialContext: func(ctx context.Context) (redis.Conn, error) { return redis.DialURLContext(ctx, url) }}
	return func(r *http.Request) error {
		conn, err := pool.GetContext(r.Context())
		if err != nil {
			return err
		}
		_, err = redis.DoContext(conn, r.Context(), "INCR", "bare")
		return errors.Join(err, conn.Close())
	}
}

// handler returns a handler that answers each request with the same number of round trips as the
// service.
func handler(db *sql.DB, count func(r *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var tenants []tenant
		var err error
		if r.Method == http.MethodPatch {
			err = runCommits(r, db)
		} else {
			tenants, err = listTenants(r, db)
		}
		if err == nil {
			err = count(r)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"tenants": tenants, "count": len(tenants)})
	})
}

// runCommits runs the updates of a write, each with its own commit.
func runCommits(r *http.Request, db *sql.DB) error {
	for i := range commits {
		if _, err := db.ExecContext(r.Context(), limitUpdate, i, path.Base(r.URL.Path)); err != nil {
			return err
		}
	}
	return nil
}

// listTenants runs the statements of the tenant list.
func listTenants(r *http.Request, db *sql.DB) (tenants []tenant, err error) {
	hash := sha256.Sum256([]byte(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")))
	var account string
	var active bool
	var slots int
	if err := db.QueryRowContext(r.Context(), callerQuery, hash[:]).Scan(&account, &active, &slots); err != nil {
		return nil, err
	}
	rows, err := db.QueryContext(r.Context(), listQuery, account)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var t tenant
		if err := rows.Scan(&t.ID, &t.GUID, &t.Name, &t.Domain, &t.Default, &t.Bootstrap, &t.Discovery, &t.Consented, &t.Synced,
			&t.Domains, &t.Mailboxes); err != nil {
			return nil, err
		}
		tenants = append(tenants, t)
	}
	return tenants, rows.Err()
}
