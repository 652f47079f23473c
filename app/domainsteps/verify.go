// SPDX-License-Identifier: Apache-2.0

package domainsteps

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/observation"
	"github.com/tenantry/tenantry/ports"
)

// VerifyByID asks the mail platform to verify a domain, and stores the result. It fails with
// verification_failed when the platform does not see the verification record.
func (s *Steps) VerifyByID(ctx context.Context, owner access.AccountID, domainID string) error {
	_, d, err := s.loadWithConsent(ctx, owner, domainID)
	if err == nil {
		_, err = s.VerifyAndStore(ctx, owner, d)
	}
	return err
}

// VerifyAndStore asks the platform to verify a domain, and stores the result.
func (s *Steps) VerifyAndStore(ctx context.Context, owner access.AccountID, d domain.Domain) (domain.Domain, error) {
	stored := d
	d, err := s.readBeforeVerification(ctx, d)
	verified := d
	if err == nil {
		verified, err = s.verifyAtPlatform(ctx, d)
	}
	if err != nil {
		if errors.Is(err, fault.VerificationFailed) && stored.Verified && !d.Verified {
			// The time of a stored verification can be in the future (see observation.HeldUntil).
			// An observation with an earlier time would not replace the verification.
			d.Observed.Verified = observation.HeldUntil(s.Now())
		}
		return d, s.recordFailedVerification(ctx, owner, d, err)
	}
	return reconcile.SaveDomain(ctx, s.Domains, owner, verified)
}

// readBeforeVerification reads a domain that is stored as verified. The platform may have a new,
// unverified domain with the same name. Only a read before the verification shows this, because the
// verification verifies the new domain too. If the read does not find the domain, a lagging replica
// hides it, or someone has removed it. In all of these cases readBeforeVerification sets
// Observed.Change, which records that the platform's domain may be a new one.
func (s *Steps) readBeforeVerification(ctx context.Context, d domain.Domain) (domain.Domain, error) {
	if !d.Verified {
		return d, nil
	}
	began := s.Now()
	found, err := FetchDomain(ctx, s.Platform.For(d.TenantGUID), d.Name)
	switch {
	case errors.Is(err, fault.DomainNotFound):
		d.Observed.Change = began
	case err != nil:
		return d, err
	case !found.Verified:
		d = d.WithPlatformState(found, began).WithoutMail(began)
		d.Observed.Change = began
	}
	return d, nil
}

// verifyAtPlatform returns the verified domain. It resolves an unknown outcome by reading the
// domain. Lagging replicas may show for some time that the domain is not verified. The result
// therefore has the time of observation.HeldUntil, so that reads from these replicas do not
// replace it.
func (s *Steps) verifyAtPlatform(ctx context.Context, d domain.Domain) (verified domain.Domain, err error) {
	platform := s.Platform.For(d.TenantGUID)
	err = reconcile.Run(ctx, reconcile.Once, func(ctx context.Context) error {
		found, err := platform.VerifyDomain(ctx, d.Name)
		verified = d.WithPlatformState(found, s.Now())
		verified.Observed.Verified = observation.HeldUntil(verified.Observed.State)
		return err
	}, func(ctx context.Context) (bool, error) {
		began := s.Now()
		found, err := FetchDomain(ctx, platform, d.Name)
		verified = d.WithPlatformState(found, began)
		verified.Observed.Verified = observation.HeldUntil(began)
		return found.Verified, err
	})
	return verified, err
}

// recordFailedVerification stores the state that was read before the verification failed. If the
// platform did not see the record, it also stores the current DNS. The stored DNS shows a caller
// whether the record is missing, or is published and the platform does not see it yet.
func (s *Steps) recordFailedVerification(ctx context.Context, owner access.AccountID, d domain.Domain, cause error) error {
	verificationFailed := errors.Is(cause, fault.VerificationFailed)
	if verificationFailed {
		cause = nameExpectedRecord(d, cause)
		d = s.Reconciler.WithCurrentDNS(ctx, owner, d)
	}
	if verificationFailed || !d.Observed.State.IsZero() {
		if _, err := reconcile.SaveDomain(ctx, s.Domains, owner, d); err != nil {
			return err
		}
	}
	return s.RecordLostConsent(ctx, owner, d.TenantGUID, cause)
}

// nameExpectedRecord returns cause with the record that the platform expects, so that the caller
// need not look it up.
func nameExpectedRecord(d domain.Domain, cause error) error {
	expected, found := dns.VerificationRecord(d.Verification)
	if !found {
		return cause
	}
	detail := strings.TrimSuffix(fault.ErrorOf(cause).Detail, ".")
	return fmt.Errorf("%w (%w)", fault.VerificationFailed.With("%s. It expects this record: %s at %s with the content %s", detail, expected.Type, expected.Name, expected.Value()), cause)
}

// FetchDomain reads a domain at the platform. It fails with domain_not_found or a different error
// of the platform.
func FetchDomain(ctx context.Context, platform ports.MailTenant, name string) (found domain.Platform, err error) {
	err = reconcile.Call(ctx, func(ctx context.Context) error {
		found, err = platform.Domain(ctx, name)
		return err
	})
	return found, err
}
