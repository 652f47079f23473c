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

// OnHost puts the link of a further page onto base, from the path element root
// on ("/v1.0"). The platform writes such links with its published host, and
// our token goes to no host but the one in use. It reports false for a link
// that is none of the API's.
func OnHost(base, link, root string) (string, bool) {
	u, err := url.Parse(link)
	if err != nil || u.User != nil || u.Opaque != "" {
		return "", false
	}
	path := u.EscapedPath()
	at := strings.Index(path+"/", root+"/")
	if at < 0 || strings.Contains(path, "/..") {
		return "", false
	}
	address := strings.TrimSuffix(base, root) + path[at:]
	if u.RawQuery != "" {
		address += "?" + u.RawQuery
	}
	return address, true
}
