// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/tenantry/tenantry/ports/contract"
)

// TestContract runs the port's promises over the adapter and its simulator.
// The built binary goes through the same in plugins/conformance.
func TestContract(t *testing.T) {
	w := newWorld(t)
	contract.MailPlatform(t, func(testing.TB) contract.World { return w })
}
