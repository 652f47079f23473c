// SPDX-License-Identifier: Apache-2.0

package provisioning

import (
	"errors"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
)

// ending is what an error of a step means for a job.
type ending int

const (
	answered ending = iota
	notYet          // the other side has not finished something
	away            // the other side is out of reach, or wants us to stay away
	lost            // nobody knows what happened: do it again, it is harmless
	denied          // we may not manage the tenant
	taken           // the domain is another tenant's
	gone            // the domain or its tenant is not there any more
	refused         // trying again does not help
	ours            // a fault on our side
)

var endings = map[fault.Code]ending{
	fault.AccessDenied: denied, fault.DomainUnavailable: taken,
	fault.DomainNotFound: gone, fault.TenantNotFound: gone, fault.AccountClosed: gone,
	fault.VerificationFailed: notYet, fault.DKIMNotReady: notYet, fault.ExchangeNotReady: notYet,
}

// judge reads an error, and how long it asks us to wait.
func judge(err error) (ending, time.Duration) {
	if err == nil {
		return answered, 0
	}
	f := fault.Of(err)
	if e, known := endings[f.Code]; known {
		return e, f.RetryAfter
	}
	switch outcome.Of(err) {
	case outcome.NotReady:
		return notYet, f.RetryAfter
	case outcome.Throttled, outcome.Down:
		return away, retryAfter(err)
	case outcome.Unknown, outcome.Broken:
		return lost, 0
	case outcome.Refused:
		return refused, 0
	}
	return judgeRefusal(f)
}

// judgeRefusal judges what no provider said.
func judgeRefusal(f *fault.Error) (ending, time.Duration) {
	switch f.Code.Kind {
	case fault.Unavailable, fault.RateLimited:
		return away, f.RetryAfter
	case fault.Timeout, fault.BadGateway:
		return lost, 0
	case fault.Internal:
		return ours, 0
	default:
		return refused, 0
	}
}

// retryAfter is what the provider itself said, 0 for nothing.
func retryAfter(err error) time.Duration {
	var o *outcome.Error
	if errors.As(err, &o) {
		return o.RetryAfter
	}
	return 0
}
