// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// CheckURL refuses a URL that names no Redis. "" is fine: there is none then.
func CheckURL(address string) error {
	if address == "" {
		return nil
	}
	_, err := options(address)
	return err
}

// options reads the URL. Errors do not quote it: it may hold a password.
func options(address string) (*redis.Options, error) {
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "redis" && u.Scheme != "rediss") || u.Hostname() == "" {
		return nil, errors.New("it is not redis://host:port/number or rediss://…")
	}
	o, err := redis.ParseURL(address)
	if err != nil {
		return nil, errors.New("it is not redis://host:port/number or rediss://…")
	}
	o.MaxRetries, o.DialerRetries = -1, 1
	o.ContextTimeoutEnabled, o.DisableIdentity = true, true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	logging.Disable() // it would write to standard error, in its own form
	return o, nil
}

// Ping asks the Redis for a sign of life, once.
func Ping(ctx context.Context, address string) error {
	o, err := options(address)
	if err != nil {
		return err
	}
	o.PoolSize = 1
	client := redis.NewClient(o)
	defer func() { _ = client.Close() }()
	if err := client.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	return nil
}
