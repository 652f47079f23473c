// SPDX-License-Identifier: Apache-2.0

// Package testserver starts private servers for tests: PostgreSQL, Redis, PowerDNS, BIND, and a
// server that answers like Cloudflare's API. Only tests, helper packages of tests and the program
// that runs the tests import it.
//
//   - database.go: Database, an empty PostgreSQL database for one test.
//   - postgres.go: Postgres, the PostgreSQL server.
//   - redis.go, powerdns.go, bind.go, cloudflare.go: the other servers.
//   - process.go: starts server processes that end with their parent.
//   - programs.go: Program (a binary that was built for tests), Benchmarks and other helpers.
//   - certificate.go: SelfSigned, a certificate.
package testserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const serverTimeout = 5 * time.Minute

// postgresScript runs the server and waits for the end of the script's standard input. The kernel
// closes the input when the parent process ends, even after a crash. Then the script stops the
// server and removes its files. If the server ends and the file "restart" exists, the script starts
// the server again. The file server.pid has the server's process id (see supervisorScript).
const postgresScript = `
exec 3<&0 # a background command gets /dev/null as its standard input, so it reads descriptor 3
"$1/initdb" --pgdata "$2/data" --username "$3" --pwfile "$2/password" --auth scram-sha-256 \
  --encoding UTF8 --locale C --no-sync >&2 || { rm -rf "$2"; exit 1; }
run() {
  /bin/sh -c 'echo $$ >"$0"; exec "$@"' "$2/server.pid" \
    "$1/postgres" -D "$2/data" -h 127.0.0.1 -p "$4" -c unix_socket_directories= -c fsync=off \
    -c synchronous_commit=off -c full_page_writes=off -c shared_buffers=64MB -c max_connections=300 >&2 3<&- &
  wait $!
}
(read -r _ <&3; rm -f "$2/restart"; kill -QUIT $(cat "$2/server.pid")) 2>/dev/null &
run "$@"
while [ -e "$2/restart" ]; do rm "$2/restart"; run "$@"; done
rm -rf "$2"
`

// PostgresEnv is the environment variable with the URL of the test server, for a superuser.
const PostgresEnv = "TENANTRY_TEST_POSTGRES_URL"

// Postgres is a server on a free loopback port, with a random password and without durability.
type Postgres struct {
	*child
	URL  string // for a superuser
	psql string // the path of the program
}

// StartPostgres starts a server and waits until it answers.
func StartPostgres(ctx context.Context) (*Postgres, error) {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	bin, err := postgresBinaries()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	password, user := rand.Text(), "tenantry"
	dir, attr, err := newServerDir("postgres", map[string]string{"password": password})
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("/bin/sh", "-c", postgresScript, "postgres", bin, dir, user, port)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	p := &Postgres{
		URL:  (&url.URL{Scheme: "postgres", User: url.UserPassword(user, password), Host: "127.0.0.1:" + port, Path: "/postgres"}).String(),
		psql: filepath.Join(bin, "psql"),
	}
	if p.child, err = launch(cmd, dir, attr); err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	return p, p.awaitReady(ctx, "PostgreSQL", p.checkAnswers)
}

// checkAnswers makes a query. A successful connection would not be enough, because the port opens
// earlier.
func (p *Postgres) checkAnswers(ctx context.Context) error {
	return exec.CommandContext(ctx, p.psql, "--no-psqlrc", "--quiet", "--command", "SELECT 1", p.URL).Run()
}

// Crash ends the server without a checkpoint, like `pg_ctl restart -m immediate`, and starts it
// again. It returns when the server has recovered and answers.
func (p *Postgres) Crash(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	oldPID, err := os.ReadFile(filepath.Join(p.dir, "server.pid"))
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(oldPID)))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(p.dir, "restart"), nil, 0o600); err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGQUIT); err != nil {
		return err
	}
	for {
		currentPID, err := os.ReadFile(filepath.Join(p.dir, "server.pid"))
		if err == nil && !bytes.Equal(currentPID, oldPID) {
			return p.awaitReady(ctx, "PostgreSQL", p.checkAnswers)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Demote crashes the server and starts it again as a standby. A standby accepts no writes until it
// is promoted.
func (p *Postgres) Demote(ctx context.Context) error {
	if err := os.WriteFile(filepath.Join(p.dir, "data", "standby.signal"), nil, 0o600); err != nil {
		return err
	}
	return p.Crash(ctx)
}

// minPort and maxPort limit the ports that freePort chooses. The range is below the range of the
// kernel's ephemeral ports, so that no outgoing connection takes a port before the server starts.
const minPort, maxPort = 10_000, 32_000

// freePort returns a TCP port on which nothing listens on 127.0.0.1. The port is random, so that
// tests in concurrent processes normally choose different ports.
func freePort() (string, error) {
	var err error
	for range 100 {
		port := strconv.Itoa(minPort + mathrand.IntN(maxPort-minPort))
		var l net.Listener
		if l, err = net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			return port, l.Close()
		}
	}
	return "", fmt.Errorf("find a free port: %w", err)
}
