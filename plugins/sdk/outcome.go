// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
)

// Outcome is how a call ended that brought no answer; an error is one as far as
// errors.As finds it. The functions of this package make the common ones.
type Outcome = outcome.Error

// The kinds of outcomes, of which docs/plugins.md says when to use which.
const (
	Refused   = outcome.Refused
	NotReady  = outcome.NotReady
	Throttled = outcome.Throttled
	Down      = outcome.Down
	Broken    = outcome.Broken
	Unknown   = outcome.Unknown
)

// NewSecret makes a Secret, as tests need.
func NewSecret(value string) Secret { return secret.New(value) }
