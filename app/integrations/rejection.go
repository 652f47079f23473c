// SPDX-License-Identifier: Apache-2.0

package integrations

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
)

func isCredentialRejected(err error) bool {
	return outcome.KindOf(err) == outcome.Refused && errors.Is(err, fault.AccessDenied)
}

// isPlanInactive reports whether the platform rejected the credential only because the plan of the
// credential has ended.
func isPlanInactive(err error) bool {
	var e *outcome.Error
	return errors.As(err, &e) && e.Cause == "plan_inactive"
}

// translateError replaces access_denied of a sending platform with provider_credential_rejected.
// Callers expect access_denied only from the mail platform.
func translateError(err error) error {
	switch {
	case !isCredentialRejected(err):
		return err
	case isPlanInactive(err):
		return fmt.Errorf("%w (%w)", fault.CredentialRejected.With("the sending platform accepts the credential, but the plan of the credential has ended"), err)
	default:
		return fmt.Errorf("%w (%w)", fault.CredentialRejected.With("the sending platform rejects the credential"), err)
	}
}

// recordRejection translates the error of a platform call for the caller. If the platform rejected
// the credential, recordRejection also stores the failure of the integration. calledAt is a time
// before the call.
func (s *Service) recordRejection(ctx context.Context, i integration.Integration, calledAt time.Time, err error) error {
	if !isCredentialRejected(err) {
		return err
	}
	failed := i.AfterRejection(calledAt)
	if isPlanInactive(err) {
		failed = i.AfterError(calledAt)
	}
	return errors.Join(translateError(err), s.saveObserved(ctx, failed))
}

// saveObserved stores an observation of an integration. It ignores an integration that was deleted.
func (s *Service) saveObserved(ctx context.Context, i integration.Integration) error {
	i.UpdatedAt = s.now()
	err := reconcile.Store(ctx, func(ctx context.Context) error { return s.Integrations.SaveIntegration(ctx, i, nil) })
	if errors.Is(err, fault.IntegrationNotFound) {
		return nil
	}
	return err
}
