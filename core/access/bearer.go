// SPDX-License-Identifier: Apache-2.0

package access

import (
	"strings"

	"github.com/tenantry/tenantry/core/fault"
)

// Bearer returns the token in the values of a request's Authorization
// headers. Two headers are malformed even when they agree: a proxy and this
// service may each read another one.
func Bearer(headers []string) (string, error) {
	if len(headers) != 1 {
		return "", fault.InvalidAuthHeader.With("the request carries no Authorization header, or several")
	}
	scheme, token, _ := strings.Cut(strings.Trim(headers[0], " \t"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", fault.InvalidAuthHeader.With("the Authorization header has another form than `Bearer <API_KEY>`")
	}
	token = strings.Trim(token, " \t")
	if token == "" {
		return "", fault.MissingAPIKey.With("the Authorization header has no key after `Bearer`")
	}
	return token, nil
}
