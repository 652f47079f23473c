// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/tenantry/tenantry/core/ratelimit"
)

var errURL = errors.New("it must be redis://host:port/number or rediss://host:port/number")

var databasePath = regexp.MustCompile(`^(/[0-9]*)?$`)

// CheckURL returns an error when address is not a valid redis:// or rediss:// URL. It accepts "",
// which means no Redis. The error does not quote the URL, because the URL may contain a password.
func CheckURL(address string) error {
	if address == "" {
		return nil
	}
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "redis" && u.Scheme != "rediss") || u.Hostname() == "" || !databasePath.MatchString(u.Path) {
		return errURL
	}
	return nil
}

// dial connects to the Redis at address. timeout limits each read and each write.
func dial(ctx context.Context, address string, timeout time.Duration) (redis.Conn, error) {
	return redis.DialURLContext(ctx, address,
		redis.DialConnectTimeout(dialTimeout), redis.DialReadTimeout(timeout), redis.DialWriteTimeout(timeout))
}

// pooledConn is a connection that counts as broken after Redis has refused a command, so that the
// pool closes it. The server may have become a replica, which refuses every write. A new connection
// to the same address can lead to the new primary. The error for a missing script does not count.
type pooledConn struct {
	redis.Conn
	refusal error
}

// Receive implements redis.Conn.
func (c *pooledConn) Receive() (any, error) {
	reply, err := c.Conn.Receive()
	if err != nil && !isScriptMissing(err) {
		c.refusal = err
	}
	return reply, err
}

// Err implements redis.Conn.
func (c *pooledConn) Err() error {
	if c.refusal != nil {
		return c.refusal
	}
	return c.Conn.Err()
}

// Ping connects to the Redis at address and sends PING once. It returns an error when the URL is
// invalid, Redis does not answer, or PING fails.
func Ping(ctx context.Context, address string) error {
	if err := CheckURL(address); err != nil {
		return err
	}
	conn, err := dial(ctx, address, dialTimeout)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := redis.DoContext(conn, ctx, "PING"); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	return nil
}

type command struct {
	name  string
	args  []any
	reply any
	err   error
}

// scriptCommand returns the command that runs a script on one key.
func scriptCommand(script *redis.Script, key string, args ...any) *command {
	return &command{name: "EVALSHA", args: append([]any{script.Hash(), 1, keyspace + key}, args...)}
}

// takeReply is the reply of take.lua. The token identifies the counted request for giveBack.
type takeReply struct {
	verdict ratelimit.Verdict
	token   string
}

func parseTakeReply(b ratelimit.Bucket, reply []any) (takeReply, error) {
	var numbers [4]int64
	if len(reply) != len(numbers)+1 {
		return takeReply{}, fmt.Errorf("unexpected reply of the script: %v", reply)
	}
	for i := range numbers {
		n, ok := reply[i].(int64)
		if !ok {
			return takeReply{}, fmt.Errorf("unexpected reply of the script: %v", reply)
		}
		numbers[i] = n
	}
	token, err := redis.String(reply[len(numbers)], nil)
	if err != nil {
		return takeReply{}, fmt.Errorf("unexpected reply of the script: %v: %w", reply, err)
	}
	// The script can return a longer wait than the window if the clock of the Redis server was set
	// back.
	wait := func(microseconds int64) time.Duration {
		return min(time.Duration(microseconds)*time.Microsecond, b.Window)
	}
	return takeReply{ratelimit.Verdict{
		Allowed: numbers[0] == 1, Limit: b.Limit, Remaining: int(numbers[1]),
		ResetIn: wait(numbers[2]), RetryIn: wait(numbers[3]),
	}, token}, nil
}
