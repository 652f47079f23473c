// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

var errDead = errors.New("the process is dead")

// life ends a process at one of its steps: before or after the step's effect.
// From then on nothing it does reaches the store or the platform.
type life struct {
	left  int
	after bool
	dead  bool
}

func (l *life) step(do func() error) error {
	if l.dead {
		return errDead
	}
	if l.left > 0 {
		l.left--
		return do()
	}
	l.dead = true
	if l.after {
		_ = do()
	}
	return errDead
}

func answer[T any](l *life, do func() (T, error)) (out T, err error) {
	err = l.step(func() (err error) {
		out, err = do()
		return err
	})
	return out, err
}

type mortalPlatform struct {
	ports.MailPlatform
	*life
}

func (p mortalPlatform) For(id tenant.GUID) ports.MailTenant {
	return mortalTenant{p.MailPlatform.For(id), p.life}
}

type mortalTenant struct {
	ports.MailTenant
	*life
}

func (m mortalTenant) Domain(ctx context.Context, name string) (domain.Platform, error) {
	return answer(m.life, func() (domain.Platform, error) { return m.MailTenant.Domain(ctx, name) })
}

func (m mortalTenant) AddDomain(ctx context.Context, name string) (domain.Platform, error) {
	return answer(m.life, func() (domain.Platform, error) { return m.MailTenant.AddDomain(ctx, name) })
}

func (m mortalTenant) VerifyDomain(ctx context.Context, name string) (domain.Platform, error) {
	return answer(m.life, func() (domain.Platform, error) { return m.MailTenant.VerifyDomain(ctx, name) })
}

func (m mortalTenant) Records(ctx context.Context, name string) (domain.Records, error) {
	return answer(m.life, func() (domain.Records, error) { return m.MailTenant.Records(ctx, name) })
}

func (m mortalTenant) EnableMail(ctx context.Context, name string) error {
	return m.step(func() error { return m.MailTenant.EnableMail(ctx, name) })
}

func (m mortalTenant) EnsureSigning(ctx context.Context, name string) (dns.Signing, error) {
	return answer(m.life, func() (dns.Signing, error) { return m.MailTenant.EnsureSigning(ctx, name) })
}

func (m mortalTenant) EnableSigning(ctx context.Context, name string) error {
	return m.step(func() error { return m.MailTenant.EnableSigning(ctx, name) })
}

func (m mortalTenant) Signing(ctx context.Context, name string) (dns.Signing, error) {
	return answer(m.life, func() (dns.Signing, error) { return m.MailTenant.Signing(ctx, name) })
}

// domains is the port under a name that none of its methods has.
type domains = ports.Domains

type mortalStore struct {
	domains
	*life
}

func (s mortalStore) SaveDomain(ctx context.Context, owner access.AccountID, d domain.Domain) error {
	return s.step(func() error { return s.domains.SaveDomain(ctx, owner, d) })
}

func (s mortalStore) ReleaseDomain(ctx context.Context, owner access.AccountID, id string) error {
	return s.step(func() error { return s.domains.ReleaseDomain(ctx, owner, id) })
}

// walk adds, verifies and signs the domain, with its DNS kept as the platform
// asks.
func (h *house) walk(t *testing.T, s *Service) error {
	t.Helper()
	if _, err := s.Add(t.Context(), h.acc, guid, zone); err != nil {
		return err
	}
	h.publishAll(t)
	if _, err := s.Verify(t.Context(), h.acc.ID, guid, zone); err != nil {
		return err
	}
	h.publishAll(t)
	_, err := s.EnableDKIM(t.Context(), h.acc.ID, guid, zone)
	if err != nil && h.fake.Calls("EnsureSigning") > 0 {
		// Verify may have died in its pass, so the targets are new.
		h.publishAll(t)
		_, err = s.EnableDKIM(t.Context(), h.acc.ID, guid, zone)
	}
	return err
}

func (h *house) publishAll(t *testing.T) {
	t.Helper()
	at := h.fake.For(guid)
	records, err := at.Records(t.Context(), zone)
	must(t, err)
	signing, err := at.Signing(t.Context(), zone)
	must(t, err)
	h.fake.DNS.Publish(zone, append(append(records.Verification, records.Service...), signing.Selector1, signing.Selector2)...)
}

// TestEveryCrashConverges ends the process at every step of the walk in turn;
// a new process walks again and gets there, and nothing was made twice.
func TestEveryCrashConverges(t *testing.T) {
	for _, after := range []bool{false, true} {
		for steps, finished := 0, false; !finished; steps++ {
			t.Run(fmt.Sprintf("step %d, after its effect %v", steps, after), func(t *testing.T) {
				h := newHouse(t)
				l := &life{left: steps, after: after}
				err := h.walk(t, h.service(mortalPlatform{h.fake, l}, mortalStore{h.store, l}))
				if finished = !l.dead; finished {
					must(t, err)
				}
				must(t, h.walk(t, h.Service))
				d := h.stored(t, zone)
				if !d.Verified || !d.DKIM || !d.MailReady || len(d.Service) == 0 {
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
