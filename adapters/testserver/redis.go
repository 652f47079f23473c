// SPDX-License-Identifier: Apache-2.0

package testserver

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// redisScript runs redis-server. When the script's standard input ends, the script kills the server
// and removes the server's folder. The file server.pid in the folder has the server's process id.
const redisScript = `
exec 3<&0
redis-server "$1/redis.conf" >&2 3<&- &
echo $! >"$1/server.pid"
(read -r _ <&3; kill -KILL $(cat "$1/server.pid")) 2>/dev/null &
wait $(cat "$1/server.pid")
rm -rf "$1"
`

// Redis is a server on a free loopback port, with a random password and without persistence.
type Redis struct {
	URL string

	port, password string
	stdin          io.Closer // closing it ends the server
	dir            string
	ended          chan struct{}
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
	t.Cleanup(r.Stop)
	return r
}

// Start starts the server without data and waits until it answers. After Stop, Start uses the same
// address again.
func (r *Redis) Start(t testing.TB) {
	t.Helper()
	if err := r.start(); err != nil {
		t.Fatalf("start Redis: %v", err)
	}
}

func (r *Redis) start() error {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return errors.New("it is not installed: apt-get install redis-server")
	}
	dir, attr, err := newServerDir("redis", map[string]string{
		"redis.conf": fmt.Sprintf("bind 127.0.0.1\nport %s\nrequirepass %s\nsave \"\"\nappendonly no\n", r.port, r.password),
	})
	if err != nil {
		return err
	}
	cmd := exec.Command("/bin/sh", "-c", redisScript, "redis", dir)
	cmd.Dir, cmd.SysProcAttr, cmd.Env = dir, attr, []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	if r.stdin, err = cmd.StdinPipe(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	r.dir, r.ended = dir, make(chan struct{})
	go func() {
		defer close(r.ended)
		_ = cmd.Wait()
	}()
	return r.awaitAnswer()
}

func (r *Redis) awaitAnswer() error {
	deadline := time.After(serverTimeout)
	for {
		err := r.sendCommands("PING")
		if err == nil {
			return nil
		}
		select {
		case <-r.ended:
			return errors.New("it ended before it answered")
		case <-deadline:
			r.Stop()
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
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

// Stop kills the server without a shutdown and waits until it has ended. It may be called more than
// once.
func (r *Redis) Stop() {
	_ = r.stdin.Close()
	<-r.ended
}
