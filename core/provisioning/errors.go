// SPDX-License-Identifier: Apache-2.0

package provisioning

import (
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
)

// errorClass is the effect of a step's error on a job.
type errorClass int

const (
	answered       errorClass = iota // no error, or an error that writeFailed handles by itself
	notYet                           // the platform has not finished the step
	unavailable                      // a provider does not answer, or throttles
	outcomeUnknown                   // the outcome is unknown; the step is repeated, because steps are idempotent
	accessDenied                     // the mail platform or the DNS provider denies access
	domainTaken                      // the domain belongs to a different tenant
	domainMissing                    // the mail platform or a sync does not find the domain
	domainGone                       // the tenant no longer exists, or the account is closed
	unexplained                      // a provider refuses for a reason that has no error code of its own
	refused                          // a retry cannot succeed
	internalFault                    // an internal error of the service
)

// classByCode maps error codes to classes. The class of any other error depends on its kind.
var classByCode = map[fault.Code]errorClass{
	fault.AccessDenied: accessDenied, fault.DomainUnavailable: domainTaken,
	fault.DomainNotFound: domainMissing, fault.TenantNotFound: domainGone, fault.AccountClosed: domainGone,
	fault.VerificationFailed: notYet, fault.DomainNotVerified: notYet, fault.DKIMNotReady: notYet, fault.ExchangeNotReady: notYet,
}

// classify returns the class of a step's error and the wait that the error demands, 0 if none.
func classify(err error) (errorClass, time.Duration) {
	if err == nil {
		return answered, 0
	}
	f := fault.ErrorOf(err)
	if class, known := classByCode[f.Code]; known {
		return class, f.RetryAfter
	}
	switch outcome.KindOf(err) {
	case outcome.NotReady:
		return notYet, f.RetryAfter
	case outcome.Throttled, outcome.Down:
		return unavailable, outcome.RetryAfter(err)
	case outcome.Unknown, outcome.Broken:
		return outcomeUnknown, 0
	case outcome.Refused:
		if f.Code == fault.ProviderError {
			return unexplained, 0
		}
	}
	return classifyByKind(f)
}

// classifyByKind classifies a refusal, or an error that does not come from a provider, by the kind
// of its code.
func classifyByKind(f *fault.Error) (errorClass, time.Duration) {
	switch f.Code.Kind {
	case fault.Unavailable, fault.RateLimited:
		return unavailable, f.RetryAfter
	case fault.Timeout, fault.BadGateway:
		return outcomeUnknown, 0
	case fault.Internal:
		return internalFault, 0
	default:
		return refused, 0
	}
}
