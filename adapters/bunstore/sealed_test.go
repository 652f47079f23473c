// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/dnsconnection"
)

func TestWhatIsSealedIsFound(t *testing.T) {
	eachDatabase(t, func(t *testing.T, url func(testing.TB) string) {
		s, err := Open(t.Context(), url(t), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		ann, err := s.CreateAccount(t.Context(), "ann@example.test", "complete", 0, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if holds, err := s.HoldsSealed(t.Context()); err != nil || holds {
			t.Errorf("an account alone: %v, %v", holds, err)
		}
		c := dnsconnection.Connection{ID: newID(), AccountID: ann.ID, Provider: "cloudflare", Status: dnsconnection.Connected, TestedAt: time.Now(), CreatedAt: time.Now()}
		if err := s.AddDNSConnection(t.Context(), c, []byte("sealed")); err != nil {
			t.Fatal(err)
		}
		if holds, err := s.HoldsSealed(t.Context()); err != nil || !holds {
			t.Errorf("with a credential: %v, %v", holds, err)
		}
	})
}
