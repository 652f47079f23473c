// SPDX-License-Identifier: Apache-2.0

package tenant_test

import (
	"errors"
	"testing"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
)

func TestReachable(t *testing.T) {
	held := working()
	if err := held.Reachable(); err != nil {
		t.Fatalf("with a consent: %v", err)
	}
	held.Consent = tenant.ConsentRevoked
	if err := held.Reachable(); !errors.Is(err, fault.AccessDenied) || fault.Of(err).Detail == "" {
		t.Fatalf("without: %v", err)
	}
}
