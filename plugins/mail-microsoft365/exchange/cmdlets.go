// SPDX-License-Identifier: Apache-2.0

package exchange

// The cmdlets that we run. Exchange takes a wrong value that begins like a
// right one and then answers with nothing, so names and values are written
// only here.
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
	GetMessageTrace       = "Get-MessageTraceV2" // the one without V2 answers 400 now
)

// Values of parameters and properties.
const (
	Unlimited     = "Unlimited"     // ResultSize
	SharedMailbox = "SharedMailbox" // RecipientTypeDetails
	KeySize       = 2048            // of DKIM keys; the cmdlet's own default is 1024
	Enforce       = "Enforce"       // Mode of a rule; the others only report
	Enabled       = "Enabled"       // State of a rule, as is the next
	Disabled      = "Disabled"
	AnySender     = "HeaderOrEnvelope"
	Failed        = "Failed" // Status of a message in the trace
	TracePage     = 5000     // the largest ResultSize of the trace
)
