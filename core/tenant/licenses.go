// SPDX-License-Identifier: Apache-2.0

package tenant

// Licenses are a tenant's licences for e-mail.
type Licenses struct {
	Paid  int
	Trial int // of subscriptions that are tried out
}
