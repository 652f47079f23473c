// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
)

// The types of the first operations of a MailPlatform. The comments of MailTenant name the types of
// the others.
type (
	// TenantID is the id of a tenant.
	TenantID = tenant.GUID
	// TenantProfile has the names of a tenant.
	TenantProfile = tenant.Profile
	// MailDomain is a domain of a tenant at the mail platform.
	MailDomain = domain.Platform
)

// DomainNotFound returns the error for a domain that the tenant does not have at the platform.
func DomainNotFound(cause string) error {
	return &outcome.Error{Kind: outcome.Refused, Code: fault.DomainNotFound, Cause: cause, Detail: "the tenant does not have this domain"}
}
