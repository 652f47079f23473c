// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
)

// The other benchmarks start processes and servers, and take minutes.
func TestBenchmarks(t *testing.T) { testserver.Benchmarks(t, "Sweep$") }
