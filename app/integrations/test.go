// SPDX-License-Identifier: Apache-2.0

package integrations

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

// Test checks the credential at the platform, and stores and returns the result. A rejected
// credential is a result, not an error. If the credential is valid but its plan has ended, the
// result has the status Failed too. Test then stores an error of the integration, but not this
// status. Test returns integration_not_found, UnreadableError, or an error if the platform neither
// accepts nor refuses the credential.
func (s *Service) Test(ctx context.Context, owner access.AccountID, id string, encoder ports.AnswerEncoder[TestResult]) (TestResult, error) {
	i, sealedCredential, err := s.Integrations.Integration(ctx, owner, id)
	if err != nil {
		return TestResult{}, err
	}
	platform, err := s.openPlatform(i, sealedCredential)
	if err != nil {
		return TestResult{}, err
	}
	began := s.now()
	reach, err := checkCredential(ctx, platform)
	if err == nil {
		if i.Workspace, err = reach.Current(i.Workspace); err == nil {
			i.Observed.Workspace = began
		}
	}
	i.LastTestedAt = s.now()
	i.UpdatedAt = i.LastTestedAt
	t, testErr := testResult(i, began, translateError(err))
	if testErr != nil {
		return TestResult{}, testErr
	}
	tested := t.Integration
	if isPlanInactive(err) { // the platform accepts the credential
		tested = i.AfterError(began)
	}
	return t, s.saveTest(ctx, tested, t, encoder)
}

// testResult returns the result of a test, or err when the platform neither accepted nor refused
// the credential. began is the time at which the test began.
func testResult(i integration.Integration, began time.Time, err error) (TestResult, error) {
	switch {
	case err == nil:
		return TestResult{i.AfterSuccess(began), "The sending platform accepts the credential."}, nil
	case errors.Is(err, fault.CredentialRejected), outcome.KindOf(err) == outcome.Refused:
		return TestResult{i.AfterRejection(began), "The test failed: " + fault.ErrorOf(err).Detail + ". " + failureAdvice(err)}, nil
	default:
		return TestResult{}, err
	}
}

func failureAdvice(err error) string {
	if isPlanInactive(err) {
		return "Renew the plan at the platform, then test again."
	}
	return "Fix the credential at the platform and test again, or add an integration with a new credential."
}

// saveTest stores a tested integration, and t as the answer to the request.
func (s *Service) saveTest(ctx context.Context, tested integration.Integration, t TestResult, encoder ports.AnswerEncoder[TestResult]) error {
	storedAnswer, err := encoder.Encode(t)
	if err != nil {
		return err
	}
	err = reconcile.Store(ctx, func(ctx context.Context) error {
		return s.Integrations.SaveIntegration(ctx, tested, storedAnswer)
	})
	if err != nil {
		return fmt.Errorf("save test of integration: %w", err)
	}
	return nil
}
