// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/tenantry/tenantry/core/ratelimit"
)

// counted is what Redis did with a request. The token undoes it.
type counted struct {
	verdict ratelimit.Verdict
	token   string
}

// read reads what take.lua says.
func read(b ratelimit.Bucket, said []any) (counted, error) {
	var numbers [4]int64
	if len(said) != len(numbers)+1 {
		return counted{}, fmt.Errorf("the script said %v", said)
	}
	for i := range numbers {
		n, ok := said[i].(int64)
		if !ok {
			return counted{}, fmt.Errorf("the script said %v", said)
		}
		numbers[i] = n
	}
	token, err := redis.String(said[len(numbers)], nil)
	if err != nil {
		return counted{}, fmt.Errorf("the script said %v: %w", said, err)
	}
	// No wait is longer than the window, also after the server's clock went back.
	wait := func(microseconds int64) time.Duration {
		return min(time.Duration(microseconds)*time.Microsecond, b.Window)
	}
	return counted{ratelimit.Verdict{
		Allowed: numbers[0] == 1, Limit: b.Limit, Remaining: int(numbers[1]),
		ResetIn: wait(numbers[2]), RetryIn: wait(numbers[3]),
	}, token}, nil
}
