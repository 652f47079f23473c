// SPDX-License-Identifier: Apache-2.0

package exchange

// The cmdlets that tenantry runs. Exchange accepts some wrong values, for example the beginning of
// a valid value, and then returns no rows. Therefore this file defines names and values as
// constants.
const (
	GetOrganizationConfig = "Get-OrganizationConfig"
	EnableCustomization   = "Enable-OrganizationCustomization"
	GetTransportConfig    = "Get-TransportConfig"
	SetTransportConfig    = "Set-TransportConfig"
	GetAcceptedDomain     = "Get-AcceptedDomain"
	GetDkimSigningConfig  = "Get-DkimSigningConfig"
	NewDkimSigningConfig  = "New-DkimSigningConfig"
	SetDkimSigningConfig  = "Set-DkimSigningConfig"
	GetMailbox            = "Get-Mailbox"
	NewMailbox            = "New-Mailbox"
	SetMailbox            = "Set-Mailbox"
	SetCASMailbox         = "Set-CASMailbox"
	GetTransportRule      = "Get-TransportRule"
	NewTransportRule      = "New-TransportRule"
	SetTransportRule      = "Set-TransportRule"
	EnableTransportRule   = "Enable-TransportRule"
	DisableTransportRule  = "Disable-TransportRule"
	RemoveTransportRule   = "Remove-TransportRule"
	GetMessageTrace       = "Get-MessageTraceV2" // the older Get-MessageTrace answers 400
)

// Values of parameters and properties.
const (
	Unlimited     = "Unlimited"     // ResultSize
	SharedMailbox = "SharedMailbox" // RecipientTypeDetails
	KeySize       = 2048            // bits of a DKIM key. The default of the cmdlet is 1024.
	Enforce       = "Enforce"       // Mode of a rule. In all other modes a rule only reports messages.
	Enabled       = "Enabled"       // State of a rule
	Disabled      = "Disabled"
	AnySender     = "HeaderOrEnvelope" // SenderAddressLocation of a rule
	Failed        = "Failed"           // Status of a row of the trace
	TracePage     = 5000               // the largest ResultSize of the message trace
)
