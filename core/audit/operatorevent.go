// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"time"

	"github.com/tenantry/tenantry/core/access"
)

// The recorded actions of operators.
const (
	CreateAccount       Action = "account.create"
	ChangePlan          Action = "account.plan"
	SuspendAccount      Action = "account.suspend"
	ResumeAccount       Action = "account.resume"
	SetAccount          Action = "account.set"
	CloseAccount        Action = "account.close"
	CreateKey           Action = "key.create"
	RotateKey           Action = "key.rotate"
	RevokeKey           Action = "key.revoke"
	AssignTenant        Action = "tenant.assign"
	WithdrawTenant      Action = "tenant.withdraw"
	ReleaseTenant       Action = "tenant.release" // when the tenant's account is closed
	SetTenantDay        Action = "tenant.day"     // a new time zone, which determines when the tenant's days begin
	AddDNSConnection    Action = "dns_connection.add"
	RemoveDNSConnection Action = "dns_connection.remove"
	UndoDNS             Action = "dns.undo"
	AddPlugin           Action = "plugin.add"
	UpgradePlugin       Action = "plugin.upgrade"
	RemovePlugin        Action = "plugin.remove"
	CreateKeyset        Action = "keyset.create"
	RotateKeyset        Action = "keyset.rotate"
	Backup              Action = "backup"
	Restore             Action = "restore"
	Migrate             Action = "migrate"
)

// Event is one action of an operator.
type Event struct {
	ID string
	At time.Time
	// Operator is the user and the host of the operator, such as ann@host.
	Operator string
	Action   Action
	// Account is the account that the action changed, empty for an action on the installation.
	Account access.AccountID
	// Details holds the parameters of the action. It never contains a secret.
	Details map[string]string
}
