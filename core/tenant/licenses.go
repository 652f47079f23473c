// SPDX-License-Identifier: Apache-2.0

package tenant

import "math"

// Licenses are a tenant's licences for e-mail.
type Licenses struct {
	Paid  int
	Trial int // of subscriptions that are tried out
}

// trialRecipients is what a tenant gets that has bought nothing.
const trialRecipients = 5000

// ExternalRecipientLimit estimates, by the formula that the platform has
// published, how many recipients outside of it a tenant may send to in 24
// hours. Licences on trial do not count. With none at all it is what a trial
// gives: the formula's own answer would be more, for a tenant that the platform
// trusts less.
func (l Licenses) ExternalRecipientLimit() int {
	if l.Paid <= 0 {
		return trialRecipients
	}
	return int(math.Round(500*math.Pow(float64(l.Paid), 0.7) + 9500))
}
