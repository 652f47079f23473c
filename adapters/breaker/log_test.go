// SPDX-License-Identifier: Apache-2.0

package breaker

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/core/outcome"
)

// TestChangesAreLogged checks that the log has a line for each change of a circuit's state, without
// the id of the tenant.
func TestChangesAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		backend := &provider{err: outcomeError(outcome.Down)}
		platform := newGuardedMail(backend, Options{Provider: "p", Failures: 1, OpenTime: time.Minute, Log: slog.New(slog.NewTextHandler(&log, nil))})
		_ = callRead(t.Context(), platform.For("a-customer"))
		time.Sleep(2 * time.Minute)
		backend.err = nil
		if err := callRead(t.Context(), platform.For("a-customer")); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			"domain=tenant from=closed to=open", "domain=tenant from=open to=half_open", "domain=tenant from=half_open to=closed",
		} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log lacks %q:\n%s", want, log.String())
			}
		}
		if strings.Contains(log.String(), "a-customer") {
			t.Errorf("the log contains the id of the tenant, want only the kind of the fault domain:\n%s", log.String())
		}
	})
}
