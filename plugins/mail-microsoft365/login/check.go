// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"errors"
	"regexp"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
)

// NoHome stands in the place of a tenant and names none.
const NoHome = "organizations"

var tenantName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$`)

// TenantName reports whether name can stand for a tenant in a path.
func TenantName(name string) bool { return tenantName.MatchString(name) }

// wrongCredential says in words what the numbers of class operator mean.
var wrongCredential = map[int]string{
	7000215: "the client secret is not one of this application",
	7000222: "the client secret has expired",
	700027:  "the certificate is not registered with this application, or is not valid",
}

// Check asks for a token of the application in its home tenant. Where no home
// is known it asks for one nowhere: such a request cannot be granted, but the
// login host refuses application and credential before it refuses that.
func (h Host) Check(ctx context.Context, home, scope string) error {
	_, err := h.appToken(ctx, home, scope)
	var f *Failure
	if !errors.As(err, &f) {
		return err
	}
	switch {
	case f.class == operator:
		detail := wrongCredential[f.AADSTS]
		if detail == "" {
			detail = "the application's credential was refused"
		}
		return call.Refuse(fault.AccessDenied, detail, f.Outcome.Cause)
	case f.class == notConsented:
		return call.Refuse(fault.AccessDenied, "there is no application with this client id", f.Outcome.Cause)
	case f.class == consentLost && home != NoHome:
		return call.Refuse(fault.AccessDenied, "home_tenant is not the tenant that the application is registered in", f.Outcome.Cause)
	case home == NoHome && f.AADSTS != 0 && (f.class == bug || f.class == consentLost):
		return nil
	default:
		return err
	}
}
