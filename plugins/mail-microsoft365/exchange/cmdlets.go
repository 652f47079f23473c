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
)

// Values of parameters and properties.
const (
	Unlimited     = "Unlimited"     // ResultSize
	SharedMailbox = "SharedMailbox" // RecipientTypeDetails
	KeySize       = 2048            // of DKIM keys; the cmdlet's own default is 1024
)
