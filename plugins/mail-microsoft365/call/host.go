// SPDX-License-Identifier: Apache-2.0

package call

import (
	"net/url"
	"strings"
)

// SameHost reports whether link is at the scheme and host of base.
func SameHost(base, link string) bool {
	a, errA := url.Parse(base)
	b, errB := url.Parse(link)
	return errA == nil && errB == nil && b.User == nil &&
		strings.EqualFold(a.Scheme, b.Scheme) && strings.EqualFold(a.Host, b.Host)
}
