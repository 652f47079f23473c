// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/tenantry/tenantry/adapters/limiter"
	"github.com/tenantry/tenantry/app/cli"
)

func (e *examination) redis(ctx context.Context) finding {
	if wrong := e.wrong["redis_url"]; wrong != "" {
		return broken("correct redis_url (TENANTRY_REDIS_URL): redis://:PASSWORD@HOST:6379/0, or rediss:// with TLS", "%s", wrong)
	}
	if e.config.RedisURL == "" {
		return fine("not configured: counters are kept in the process")
	}
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	if err := limiter.Ping(ctx, e.config.RedisURL); err != nil {
		return broken("start Redis, or correct redis_url (TENANTRY_REDIS_URL), its password included", "Redis does not answer: %s", cli.OneLine(err))
	}
	return fine("Redis answers")
}
