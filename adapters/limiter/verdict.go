// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"fmt"
	"time"

	"github.com/tenantry/tenantry/core/ratelimit"
)

// verdict reads what take.lua says.
func verdict(b ratelimit.Bucket, said []any) (v ratelimit.Verdict, token string, err error) {
	var numbers [4]int64
	if len(said) != len(numbers)+1 {
		return v, "", fmt.Errorf("the script said %v", said)
	}
	for i := range numbers {
		n, ok := said[i].(int64)
		if !ok {
			return v, "", fmt.Errorf("the script said %v", said)
		}
		numbers[i] = n
	}
	token, _ = said[4].(string)
	return ratelimit.Verdict{
		Allowed: numbers[0] == 1, Limit: b.Limit, Remaining: int(numbers[1]),
		ResetIn: time.Duration(numbers[2]) * time.Microsecond, RetryIn: time.Duration(numbers[3]) * time.Microsecond,
	}, token, nil
}
