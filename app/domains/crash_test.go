// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"fmt"
	"testing"

	"github.com/tenantry/tenantry/adapters/fake"
)

// walk adds, verifies and signs the domain, and publishes the DNS records that the platform asks
// for.
func (h *fixture) walk(t *testing.T, s *Service) error {
	t.Helper()
	if _, err := s.Add(t.Context(), h.acc, guid, zone, nil); err != nil {
		return err
	}
	h.publishAll(t)
	if _, err := s.Verify(t.Context(), h.acc.ID, guid, zone); err != nil {
		return err
	}
	h.publishAll(t)
	_, err := s.EnableDKIM(t.Context(), h.acc.ID, guid, zone)
	if err != nil && h.fake.Calls("EnsureSigning") > 0 {
		// Verify may have crashed after it created the DKIM configuration, so the DKIM targets can
		// be new.
		h.publishAll(t)
		_, err = s.EnableDKIM(t.Context(), h.acc.ID, guid, zone)
	}
	return err
}

func (h *fixture) publishAll(t *testing.T) {
	t.Helper()
	at := h.fake.For(guid)
	records, err := at.Records(t.Context(), zone)
	must(t, err)
	signing, err := at.Signing(t.Context(), zone)
	must(t, err)
	h.fake.DNS.Publish(zone, append(append(records.Verification, records.Service...), signing.Selector1, signing.Selector2)...)
}

// TestEveryCrashConverges crashes the process once at each step of walk. A new process repeats
// walk and succeeds, and nothing is created twice.
func TestEveryCrashConverges(t *testing.T) {
	for _, after := range []bool{false, true} {
		for steps, finished := 0, false; !finished; steps++ {
			t.Run(fmt.Sprintf("step %d, after its effect %v", steps, after), func(t *testing.T) {
				h := newFixture(t)
				l := fake.NewCrashingProcess(steps, after)
				err := h.walk(t, h.service(fake.SteppedMailPlatform(h.fake, l), fake.SteppedDomains(h.store, l)))
				if finished = !l.Dead(); finished {
					must(t, err)
				}
				must(t, h.walk(t, h.Service))
				d := h.stored(t)
				if !d.Verified || !d.DKIMEnabled || !d.MailReady || len(d.Service) == 0 {
					t.Fatalf("stored %+v", d)
				}
				for _, write := range []string{"AddDomain", "VerifyDomain", "EnableMail", "EnsureSigning", "EnableSigning"} {
					if n := h.fake.Effects(write); n != 1 {
						t.Errorf("%s took effect %d times", write, n)
					}
				}
			})
		}
	}
}
