// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
)

func TestBenchmarks(t *testing.T) { testserver.Benchmarks(t, "Take") }
