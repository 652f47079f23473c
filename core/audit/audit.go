// SPDX-License-Identifier: Apache-2.0

// Package audit holds what is remembered of the acts of operators: who did
// what, and when.
package audit

import (
	"time"

	"github.com/tenantry/tenantry/core/access"
)

// Action is what an operator did.
type Action string

// The recorded actions of operators. Reads and refused actions are not recorded.
const (
	CreateAccount       Action = "account.create"
	ChangePlan          Action = "account.plan"
	SuspendAccount      Action = "account.suspend"
	ResumeAccount       Action = "account.resume"
	CloseAccount        Action = "account.close"
	CreateKey           Action = "key.create"
	RotateKey           Action = "key.rotate"
	RevokeKey           Action = "key.revoke"
	AssignTenant        Action = "tenant.assign"
	WithdrawTenant      Action = "tenant.withdraw"
	ReleaseTenant       Action = "tenant.release" // by the closing of its account
	SetTenantDay        Action = "tenant.day"
	AddDNSConnection    Action = "dns_connection.add"
	RemoveDNSConnection Action = "dns_connection.remove" // also by the closing of its account
	AddPlugin           Action = "plugin.add"
	CreateKeyset        Action = "keyset.create"
	RotateKeyset        Action = "keyset.rotate"
	Backup              Action = "backup"
	Restore             Action = "restore"
	Migrate             Action = "migrate"
)

// Event is one act of an operator.
type Event struct {
	ID string
	At time.Time
	// Operator is who did it, as ann@host.
	Operator string
	Action   Action
	// Account is whose account was acted on; empty for the installation.
	Account access.AccountID
	// Details says what exactly was done. It never holds a secret.
	Details map[string]string
}
