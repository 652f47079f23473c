// SPDX-License-Identifier: Apache-2.0

// Package testserver starts private servers for tests. Only tests and their
// runner import it.
package testserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
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

const startLimit = 5 * time.Minute

// script runs the server below a shell that waits for its input to end, which
// the kernel sees to however the parent ends. Then nothing is left: no
// process, no files.
const script = `
exec 3<&0 # what the shell puts into the background loses its input
"$1/initdb" --pgdata "$2/data" --username "$3" --pwfile "$2/password" --auth scram-sha-256 \
  --encoding UTF8 --locale C --no-sync >&2 || { rm -rf "$2"; exit 1; }
run() {
  "$1/postgres" -D "$2/data" -h 127.0.0.1 -p "$4" -c unix_socket_directories= -c fsync=off \
    -c synchronous_commit=off -c full_page_writes=off -c shared_buffers=64MB -c max_connections=300 >&2 3<&- &
  echo $! >"$2/server"
  wait $!
}
(read -r _ <&3; rm -f "$2/again"; kill -QUIT $(cat "$2/server")) 2>/dev/null &
run "$@"
while [ -e "$2/again" ]; do rm "$2/again"; run "$@"; done
rm -rf "$2"
`

// Postgres is a private server: on a free loopback port, with a password of
// its own and without durability.
type Postgres struct {
	URL string // of a superuser

	parent io.Closer // closing it ends the server
	dir    string
	psql   string
	ended  chan struct{}
	log    *bytes.Buffer // safe to read once ended is closed
}

// StartPostgres starts a server and waits until it answers.
func StartPostgres(ctx context.Context) (*Postgres, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	password, user := rand.Text(), "tenantry"
	dir, who, err := home("postgres", "password", password)
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("/bin/sh", "-c", script, "postgres", bin, dir, user, port)
	cmd.Dir, cmd.SysProcAttr = dir, who
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	p := &Postgres{
		URL:   (&url.URL{Scheme: "postgres", User: url.UserPassword(user, password), Host: "127.0.0.1:" + port, Path: "/postgres"}).String(),
		ended: make(chan struct{}), log: new(bytes.Buffer), dir: dir, psql: filepath.Join(bin, "psql"),
	}
	if err := p.launch(cmd); err != nil {
		return nil, errors.Join(fmt.Errorf("start PostgreSQL: %w", err), os.RemoveAll(dir))
	}
	return p, p.await(ctx)
}

func (p *Postgres) launch(cmd *exec.Cmd) error {
	cmd.Stdout, cmd.Stderr = p.log, p.log
	parent, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	p.parent = parent
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		defer close(p.ended)
		_ = cmd.Wait()
	}()
	return nil
}

// await asks until the server answers a query: the port opens earlier.
func (p *Postgres) await(ctx context.Context) error {
	for {
		ask := exec.CommandContext(ctx, p.psql, "--no-psqlrc", "--quiet", "--command", "SELECT 1", p.URL)
		if ask.Run() == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("PostgreSQL did not start:\n%s", p.log)
		case <-ctx.Done():
			p.Stop()
			return fmt.Errorf("PostgreSQL does not answer: %w\n%s", ctx.Err(), p.log)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Crash ends the server as `pg_ctl restart -m immediate` does, without a
// checkpoint and in the middle of everything, and starts it again. It returns
// when the server answers, after its recovery.
func (p *Postgres) Crash(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	text, err := os.ReadFile(filepath.Join(p.dir, "server"))
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(p.dir, "again"), nil, 0o600); err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGQUIT); err != nil {
		return err
	}
	for {
		now, err := os.ReadFile(filepath.Join(p.dir, "server"))
		if err == nil && !bytes.Equal(now, text) {
			return p.await(ctx)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Stop ends the server and removes its files.
func (p *Postgres) Stop() {
	_ = p.parent.Close()
	<-p.ended
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}
