// SPDX-License-Identifier: Apache-2.0

package tenant

import "math"

// Licenses are a tenant's licences for e-mail.
type Licenses struct {
	Paid  int
	Trial int // of subscriptions that are tried out
}

// trialRecipients is the limit of a tenant without paid licences.
const trialRecipients = 5000

// ExternalRecipientLimit returns the estimated number of external recipients in 24 hours, by the
// platform's published formula. Trial licences do not count. Without paid licences it returns the
// trial limit, which is lower than the formula's result.
func (l Licenses) ExternalRecipientLimit() int {
	if l.Paid <= 0 {
		return trialRecipients
	}
	return int(math.Round(500*math.Pow(float64(l.Paid), 0.7) + 9500))
}
