// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/dns"
)

// setUpDomain adds the domain, verifies it and enables DKIM. It publishes the DNS records that the
// platform specifies.
func (fx *fixture) setUpDomain(t *testing.T, s *Service) error {
	t.Helper()
	if _, err := s.Add(t.Context(), fx.account, guid, zone, nil); err != nil {
		return err
	}
	fx.publishSpecified(t)
	if _, err := s.Verify(t.Context(), fx.account.ID, guid, zone); err != nil {
		return err
	}
	fx.publishSpecified(t)
	_, err := s.EnableDKIM(t.Context(), fx.account.ID, guid, zone)
	if err != nil && fx.fake.Calls("EnsureSigning") > 0 {
		// EnableDKIM may just have created the DKIM configuration. Its records are then not
		// published yet.
		fx.publishSpecified(t)
		_, err = s.EnableDKIM(t.Context(), fx.account.ID, guid, zone)
	}
	return err
}

func (fx *fixture) publishSpecified(t *testing.T) {
	t.Helper()
	platform := fx.fake.For(guid)
	records, err := platform.Records(t.Context(), zone)
	must(t, err)
	signing, err := platform.Signing(t.Context(), zone)
	must(t, err)
	fx.fake.DNS.Publish(zone, slices.Concat(records.Verification, records.Service, []dns.Record{signing.Selector1, signing.Selector2})...)
}

// TestEveryCrashConverges crashes the process once at each step of setUpDomain. A step is a call to
// the platform or a write to the store. A new process repeats setUpDomain and succeeds. Nothing is
// created twice.
func TestEveryCrashConverges(t *testing.T) {
	for _, afterEffect := range []bool{false, true} {
		step := 0
		for finished := false; !finished; step++ {
			t.Run(fmt.Sprintf("step %d, after its effect %v", step, afterEffect), func(t *testing.T) {
				fx := newFixture(t)
				process := fake.NewCrashingProcess(step, afterEffect)
				err := fx.setUpDomain(t, fx.service(fake.SteppedMailPlatform(fx.fake, process), fake.SteppedDomains(fx.store, process)))
				if finished = !process.Dead(); finished {
					must(t, err)
				}
				must(t, fx.setUpDomain(t, fx.Service))
				d := fx.storedDomain(t)
				if !d.Verified || !d.DKIMEnabled || !d.MailReady || len(d.Service) == 0 {
					t.Fatalf("the stored domain is %+v, want it verified and ready for mail, with DKIM and service records", d)
				}
				for _, method := range []string{"AddDomain", "VerifyDomain", "EnableMail", "EnsureSigning", "EnableSigning"} {
					if n := fx.fake.Effects(method); n != 1 {
						t.Errorf("%s took effect %d times, want once", method, n)
					}
				}
			})
		}
		if step <= 5 { // the calls of the five methods alone are steps
			t.Fatalf("the process crashed at only %d steps, want at least 5", step-1)
		}
	}
}
