// SPDX-License-Identifier: Apache-2.0

// Package settling pushes on what the mail platform finishes in its own time,
// by one bounded pass: e-mail service and accepted domain of a verified
// domain, its DKIM configuration. Verify, sync, enable-dkim and provision
// make such a pass; jobs take the same steps one try at a time, and either finds
// done what the other did. It also holds what those share: calls with a
// deadline, patience with a slow platform, a lost consent noticed.
package settling

import (
	"context"
	"fmt"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

// passLimit bounds a pass unless Limit is set.
const passLimit = 20 * time.Second

// Pass makes bounded passes.
type Pass struct {
	Platform ports.MailPlatform
	Domains  ports.Domains
	DNS      ports.DNSReader
	Now      func() time.Time
	// Limit bounds one pass; 20 s unless set. Pause lies between two looks.
	Limit, Pause time.Duration
}

// Domain pushes a verified domain on and returns it with what is known now:
// records, signing, MailReady and DNS. mailServer false leaves out the steps
// that need a ready bootstrap. What the platform has not finished when the
// pass ends is no error: the fields of the domain say so. The result is
// stored, also when a step met an error.
func (p *Pass) Domain(ctx context.Context, owner access.AccountID, d domain.Domain, mailServer bool) (domain.Domain, error) {
	stepErr := p.push(ctx, &d, mailServer)
	stored, err := p.keep(ctx, owner, p.Look(ctx, d))
	if err != nil {
		return d, err
	}
	return stored, stepErr
}

// keep stores what steps at the platform came to.
func (p *Pass) keep(ctx context.Context, owner access.AccountID, d domain.Domain) (domain.Domain, error) {
	return Change(ctx, p.Domains, owner, d, func(stored *domain.Domain) {
		stored.MailReady, stored.DKIM, stored.Signing = d.MailReady, d.DKIM, d.Signing
		stored.Verification, stored.Service = d.Verification, d.Service
	})
}

// Change stores what is known anew of a domain: its DNS as looked at, and what
// apply changes. The row is read again first, as much may have happened to it
// while the platform took its time, and what happens to it from then on stays.
func Change(ctx context.Context, domains ports.Domains, owner access.AccountID, d domain.Domain, apply func(*domain.Domain)) (domain.Domain, error) {
	stored := d
	err := Store(ctx, func(ctx context.Context) error {
		was, err := domains.Domain(ctx, owner, d.TenantGUID, d.Name)
		if err != nil {
			return err
		}
		now := was.Seen(d)
		apply(&now)
		stored, err = domains.ChangeDomain(ctx, owner, was, now)
		return err
	})
	if err != nil {
		return d, fmt.Errorf("save domain: %w", err)
	}
	return stored, nil
}

// push takes the steps in order, as each needs the one before it.
func (p *Pass) push(ctx context.Context, d *domain.Domain, mailServer bool) error {
	at := p.Platform.For(d.TenantGUID)
	if err := p.steps(ctx, at, d, mailServer); err != nil {
		return err
	}
	return readRecords(ctx, at, d)
}

// steps takes what time is up for as unfinished.
func (p *Pass) steps(ctx context.Context, at ports.MailTenant, d *domain.Domain, mailServer bool) error {
	limit := p.Limit
	if limit == 0 {
		limit = passLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := p.settle(ctx, at, d, mailServer)
	if outcome.Of(err) == outcome.NotReady || ctx.Err() != nil && !outcome.Settled(err) {
		return nil
	}
	return err
}

func (p *Pass) settle(ctx context.Context, at ports.MailTenant, d *domain.Domain, mailServer bool) error {
	if err := mail(ctx, at, d, mailServer, p.Persist); err != nil || !mailServer {
		return err
	}
	return signing(ctx, at, d, p.Persist)
}

// Persist repeats a harmless step as the function Persist does.
func (p *Pass) Persist(ctx context.Context, step func(context.Context) error) error {
	return Persist(ctx, p.Pause, step)
}

// Look reads the domain's DNS and returns it with what the world sees.
func (p *Pass) Look(ctx context.Context, d domain.Domain) domain.Domain {
	sight, err := Sight(ctx, p.DNS, d.Name, d.Signing.Wanted()...)
	if err != nil {
		return d
	}
	return d.Looked(sight, p.Now())
}

// Sight reads a domain's DNS, with what the wanted records need to be decided
// on, with a deadline of its own.
func Sight(ctx context.Context, reader ports.DNSReader, name string, wanted ...dns.Desired) (dns.Sight, error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	return reader.Read(ctx, name, wanted...)
}
