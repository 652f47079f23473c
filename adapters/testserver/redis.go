// SPDX-License-Identifier: Apache-2.0

package testserver

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Redis is a server on a free loopback port, with a random password and without persistence.
type Redis struct {
	*child
	URL            string
	port, password string
}

// NewRedis starts a server that ends with the test.
func NewRedis(t testing.TB) *Redis {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	r := &Redis{port: port, password: rand.Text()}
	r.URL = "redis://:" + r.password + "@127.0.0.1:" + port + "/0"
	r.Start(t)
	t.Cleanup(func() { r.Stop() }) // the server of the last call of Start
	return r
}

// Start starts the server without data and waits until it answers. After Stop, Start uses the same
// address again.
func (r *Redis) Start(t testing.TB) {
	t.Helper()
	files := map[string]string{
		"redis.conf": fmt.Sprintf("bind 127.0.0.1\nport %s\nrequirepass %s\nsave \"\"\nappendonly no\n", r.port, r.password),
	}
	server, err := startChild(context.Background(), "redis-server", []string{"$DIR/redis.conf"}, files, func(context.Context) error {
		return r.sendCommands("PING")
	})
	if err != nil {
		t.Fatal(err)
	}
	r.child = server
}

// DeleteAllData removes all data and scripts.
func (r *Redis) DeleteAllData(t testing.TB) {
	t.Helper()
	if err := r.sendCommands("FLUSHALL", "SCRIPT FLUSH"); err != nil {
		t.Fatal(err)
	}
}

// sendCommands sends commands over a plain connection, so that this package needs no Redis client.
func (r *Redis) sendCommands(commands ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", "127.0.0.1:"+r.port)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(serverTimeout))
	answers := bufio.NewScanner(conn)
	for _, command := range append([]string{"AUTH " + r.password}, commands...) {
		if _, err := fmt.Fprintf(conn, "%s\r\n", command); err != nil {
			return err
		}
		if !answers.Scan() || strings.HasPrefix(answers.Text(), "-") {
			return fmt.Errorf("%s: %q %w", command, answers.Text(), answers.Err())
		}
	}
	return nil
}

// Suspend suspends the server: it accepts connections but answers nothing until Resume.
func (r *Redis) Suspend(t testing.TB) { r.signal(t, syscall.SIGSTOP) }

// Resume resumes a suspended server.
func (r *Redis) Resume(t testing.TB) { r.signal(t, syscall.SIGCONT) }

func (r *Redis) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, "server.pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatal(err)
	}
}
