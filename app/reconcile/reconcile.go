// SPDX-License-Identifier: Apache-2.0

// Package reconcile sets up verified domains at the mail platform: it enables the e-mail service,
// waits until the mail server accepts mail, and creates the DKIM configuration. Other packages use
// the retry loop of this package for provider calls.
//
// The API requests that verify a domain, enable DKIM, sync a tenant or create mailboxes call
// Reconciler.ReconcileDomain, which repeats steps within a time limit. Provisioning jobs call the
// same steps with one try each: Reconciler.SetUpMail and Reconciler.CreateSigning. A request and a
// job can run for the same domain at the same time, because all steps are idempotent.
//
// Start reading at Reconciler.ReconcileDomain and Run.
//
//   - reconcile.go: Reconciler, Reconciler.ReconcileDomain, SaveDomain, and reads of a domain's DNS
//   - steps.go: the steps of Reconciler.ReconcileDomain, Reconciler.SetUpMail and
//     Reconciler.CreateSigning
//   - calls.go: Call, which makes one provider call with a timeout; Run, which decides whether a
//     call is repeated; Consent, which detects a revoked consent
//   - enforcement_intents.go: ReconcileIntents, which resolves the unknown outcomes of an
//     interrupted enforcement pass
//   - pause.go: EnforcementPause, which stops enforcement while a use case changes a tenant's rules
package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

// defaultTimeout is the default of Reconciler.Timeout.
const defaultTimeout = 20 * time.Second

// Reconciler sets up verified domains at the mail platform.
type Reconciler struct {
	Platform ports.MailPlatform
	Domains  ports.Domains
	DNS      ports.DNSReader
	Facts    ports.PlatformFacts
	Now      func() time.Time
	// Timeout is the maximum duration of the steps of one ReconcileDomain call. It does not include
	// the reads of records and DNS after the steps. It defaults to 20 s. A sync of a tenant also
	// uses Timeout when it prepares the mail server. Pause is the time between two tries.
	Timeout, Pause time.Duration
}

// MailServerReady is passed as mailServerReady to ReconcileDomain if the tenant's mail server is
// known to be prepared.
const MailServerReady = true

// ReconcileDomain runs all steps on a verified domain. It returns the domain with its current
// records, signing state, MailReady and DNS. If mailServerReady is false, ReconcileDomain skips the
// steps that need a prepared mail server.
//
// If the platform has not finished a step in time, ReconcileDomain does not fail. The fields of the
// returned domain show which steps are finished. ReconcileDomain fails when a step, the read of the
// records or the store fails. If the deadline of ctx ends before the records are read, it fails
// with outcome.Unknown. It stores the state even when a step or this read fails.
func (r *Reconciler) ReconcileDomain(ctx context.Context, owner access.AccountID, d domain.Domain, mailServerReady bool) (domain.Domain, error) {
	platform := r.Platform.For(d.TenantGUID)
	stepErr := r.runSteps(ctx, platform, &d, mailServerReady)
	if stepErr == nil {
		stepErr = r.readRecords(ctx, platform, &d)
	}
	stored, err := SaveDomain(ctx, r.Domains, owner, r.WithCurrentDNS(ctx, owner, d))
	if err != nil {
		return d, err
	}
	return stored, stepErr
}

// SaveDomain stores an observation of a domain and returns the stored domain. It fails when the row
// was deleted or the store fails.
func SaveDomain(ctx context.Context, domains ports.Domains, owner access.AccountID, d domain.Domain) (domain.Domain, error) {
	stored := d
	err := Store(ctx, func(ctx context.Context) (err error) {
		stored, err = domains.ChangeDomain(ctx, owner, d)
		return err
	})
	if err != nil {
		return d, fmt.Errorf("save domain: %w", err)
	}
	return stored, nil
}

// runSteps runs the steps within the timeout. Steps that run out of time count as unfinished, not
// as failed.
func (r *Reconciler) runSteps(ctx context.Context, platform ports.MailTenant, d *domain.Domain, mailServerReady bool) error {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(r.Timeout, defaultTimeout))
	defer cancel()
	err := r.setUpMailAndSigning(ctx, platform, d, mailServerReady)
	if outcome.KindOf(err) == outcome.NotReady || ctx.Err() != nil && !outcome.ChangedNothing(err) {
		return nil
	}
	return err
}

func (r *Reconciler) setUpMailAndSigning(ctx context.Context, platform ports.MailTenant, d *domain.Domain, mailServerReady bool) error {
	retry := RetryPolicy{Pause: r.Pause}
	if err := r.setUpMail(ctx, platform, d, mailServerReady, retry); err != nil || !mailServerReady {
		return err
	}
	return r.createSigning(ctx, platform, d, retry)
}

// WithCurrentDNS returns d with the current state of its DNS. If the DNS cannot be read, it returns
// d unchanged.
func (r *Reconciler) WithCurrentDNS(ctx context.Context, owner access.AccountID, d domain.Domain) domain.Domain {
	began := r.Now()
	zoneRead, err := ReadZone(ctx, r.DNS, owner, d.Name, d.Signing.Wanted()...)
	if err != nil {
		return d
	}
	return d.WithRead(zoneRead, began, PlatformHosts(ctx, r.Facts))
}

// PlatformHosts returns the hosts of the mail platform, or nil if they are not known.
func PlatformHosts(ctx context.Context, facts ports.PlatformFacts) *dns.PlatformHosts {
	platformFacts, err := facts.Facts(ctx)
	if err != nil {
		return nil
	}
	return &platformFacts.Hosts
}

// ReadZone reads a domain's DNS for an account, including the names of the wanted records. It takes
// at most readTimeout. It fails with the error of the reader.
func ReadZone(ctx context.Context, reader ports.DNSReader, owner access.AccountID, name string, wanted ...dns.Desired) (dns.ZoneRead, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return reader.Read(ctx, owner, name, wanted...)
}
