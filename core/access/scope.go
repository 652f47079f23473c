// SPDX-License-Identifier: Apache-2.0

package access

import (
	"slices"
	"strings"

	"github.com/tenantry/tenantry/core/fault"
)

// Scope names what a key may do: a resource and read or write, such as tenants:read. A key with
// tenants:write also has tenants:read. A key may also hold `*` (every scope) or a resource with a
// star, such as tenants:* (read and write).
type Scope string

// AnyScope includes all other scopes, even those that later releases add.
const AnyScope Scope = "*"

// NoScope is declared by an operation that every key may call.
const NoScope Scope = "none"

// The scopes that operations declare.
const (
	TenantsRead       Scope = "tenants:read"
	TenantsWrite      Scope = "tenants:write"
	DomainsRead       Scope = "domains:read"
	DomainsWrite      Scope = "domains:write"
	DNSRead           Scope = "dns:read"
	DNSWrite          Scope = "dns:write"
	MailboxesRead     Scope = "mailboxes:read"
	MailboxesWrite    Scope = "mailboxes:write"
	LimitsRead        Scope = "limits:read"
	LimitsWrite       Scope = "limits:write"
	IntegrationsRead  Scope = "integrations:read"
	IntegrationsWrite Scope = "integrations:write"
	EventsRead        Scope = "events:read"
	WebhooksRead      Scope = "webhooks:read"
	WebhooksWrite     Scope = "webhooks:write"
	KeysRead          Scope = "keys:read"
	KeysWrite         Scope = "keys:write"
	AuditRead         Scope = "audit:read"
)

// OperationScopes returns the scopes that an operation can declare, in the order of the
// documentation.
func OperationScopes() []Scope {
	return []Scope{
		TenantsRead, TenantsWrite, DomainsRead, DomainsWrite, DNSRead, DNSWrite, MailboxesRead, MailboxesWrite,
		LimitsRead, LimitsWrite, IntegrationsRead, IntegrationsWrite, EventsRead, WebhooksRead, WebhooksWrite,
		KeysRead, KeysWrite, AuditRead,
	}
}

// KeyScopes returns the scopes that a key can have: `*`, those of OperationScopes, and each of
// their resources with a star, such as tenants:*.
func KeyScopes() []Scope {
	scopes := []Scope{AnyScope}
	for _, s := range OperationScopes() {
		if star := Scope(s.resource() + ":*"); !slices.Contains(scopes, star) {
			scopes = append(scopes, star)
		}
		scopes = append(scopes, s)
	}
	return scopes
}

func (s Scope) resource() string {
	resource, _, _ := strings.Cut(string(s), ":")
	return resource
}

func (s Scope) onlyReads() bool { return strings.HasSuffix(string(s), ":read") }

// includes reports whether a key that has s also has other.
func (s Scope) includes(other Scope) bool {
	if s == AnyScope || s == other {
		return true
	}
	return other != AnyScope && s.resource() == other.resource() && !s.onlyReads()
}

// checkScopes returns invalid_request if scopes is empty or has a scope that no key can have.
func checkScopes(scopes []Scope) error {
	if len(scopes) == 0 {
		return invalidBound("scopes", "must have at least one scope")
	}
	known := KeyScopes()
	for _, s := range scopes {
		if !slices.Contains(known, s) {
			return invalidBound("scopes", "each must be *, or a resource with :read, :write or :*, such as tenants:read")
		}
	}
	return nil
}

// insufficientScope returns the insufficient_scope error. required is the scope that the key lacks,
// or the scope of the operation if the key lacks no scope.
func insufficientScope(required Scope, format string, args ...any) error {
	return fault.InsufficientScope.WithValues(required, format, args...)
}
