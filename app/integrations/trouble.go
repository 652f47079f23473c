// SPDX-License-Identifier: Apache-2.0

package integrations

import (
	"context"
	"errors"
	"fmt"

	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
)

// turnedAway reports whether a platform answered that it does not take the
// credential.
func turnedAway(err error) bool {
	return outcome.Of(err) == outcome.Refused && errors.Is(err, fault.AccessDenied)
}

// unpaid reports whether it would, but for the plan of its customer.
func unpaid(err error) bool {
	var e *outcome.Error
	return errors.As(err, &e) && e.Cause == "plan_inactive"
}

// told is a platform's error in the words of this API: access_denied is the
// mail platform's.
func told(err error) error {
	switch {
	case !turnedAway(err):
		return err
	case unpaid(err):
		return fmt.Errorf("%w (%w)", fault.CredentialRejected.With("the sending platform knows the credential, but no plan is active there"), err)
	default:
		return fmt.Errorf("%w (%w)", fault.CredentialRejected.With("the sending platform does not take the credential"), err)
	}
}

// notice stores that a credential is not taken any more, wherever that shows,
// and returns the error as callers are told it.
func (s *Service) notice(ctx context.Context, owner access.AccountID, id string, err error) error {
	if !turnedAway(err) {
		return told(err)
	}
	return errors.Join(told(err), s.mark(ctx, owner, id, func(i *integration.Integration) {
		if i.HasError = true; !unpaid(err) {
			i.Status = integration.Failed
		}
	}))
}

// mark changes an integration as it is stored by now. One that is gone needs
// no mark.
func (s *Service) mark(ctx context.Context, owner access.AccountID, id string, change func(*integration.Integration)) error {
	err := settling.Store(ctx, func(ctx context.Context) error {
		i, _, err := s.Integrations.Integration(ctx, owner, id)
		if err != nil {
			return err
		}
		change(&i)
		i.UpdatedAt = s.now()
		return s.Integrations.SaveIntegration(ctx, i)
	})
	if errors.Is(err, fault.IntegrationNotFound) {
		return nil
	}
	return err
}
