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
)

var errURL = errors.New("it is not redis://host:port/number or rediss://…")

var databasePath = regexp.MustCompile(`^(/[0-9]*)?$`)

// CheckURL refuses a URL that names no Redis. The empty URL is accepted: there is
// no Redis then. Errors do not quote the URL, which may hold a password.
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

// dial connects to the Redis of a URL. answer bounds each read and each write.
func dial(ctx context.Context, address string, answer time.Duration) (redis.Conn, error) {
	return redis.DialURLContext(ctx, address,
		redis.DialConnectTimeout(greeting), redis.DialReadTimeout(answer), redis.DialWriteTimeout(answer))
}

// Ping asks the Redis for a sign of life, once.
func Ping(ctx context.Context, address string) error {
	if err := CheckURL(address); err != nil {
		return err
	}
	conn, err := dial(ctx, address, greeting)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := redis.DoContext(conn, ctx, "PING"); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	return nil
}

// command is one command for Redis, and what Redis answered.
type command struct {
	name  string
	args  []any
	reply any
	err   error
}

// runScript is the command that runs a script on one key.
func runScript(script *redis.Script, key string, args ...any) *command {
	return &command{name: "EVALSHA", args: append([]any{script.Hash(), 1, keyspace + key}, args...)}
}
