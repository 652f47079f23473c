// SPDX-License-Identifier: Apache-2.0

package simulator

// Ids that are the same in every tenant.
const (
	graphAppID    = "00000003-0000-0000-c000-000000000000"
	exchangeAppID = "00000002-0000-0ff1-ce00-000000000000"

	globalAdministrator   = "62e90394-69f5-4237-9190-012177145e10"
	exchangeAdministrator = "29232cdf-9323-42fd-ade2-1d097af3e4de"
	ordinaryMember        = "b79fbf4d-3ef9-4689-8143-76b194e85509"
	ordinaryApplication   = "0997a1d0-0d1d-4acb-b408-d5ca73121e90"
)

// directoryRoles are the role templates that can be assigned.
var directoryRoles = map[string]string{
	globalAdministrator:                    "Global Administrator",
	exchangeAdministrator:                  "Exchange Administrator",
	"8329153b-31d0-4727-b945-745eb3bc5f31": "Domain Name Administrator",
	"fe930be7-5e62-47db-91af-98c3a49a38b1": "User Administrator",
	"e8611ab8-c189-46e8-94e1-60213ab1f814": "Privileged Role Administrator",
	"31392ffb-586c-42d1-9346-e59415a2cc4e": "Exchange Recipient Administrator",
}

// The app roles that code asks for by name.
const (
	domainReadWrite    = "Domain.ReadWrite.All"
	organizationRead   = "Organization.Read.All"
	userReadWrite      = "User.ReadWrite.All"
	passwordReadWrite  = "User-PasswordProfile.ReadWrite.All"
	enableAccount      = "User.EnableDisableAccount.All"
	roleReadWrite      = "RoleManagement.ReadWrite.Directory"
	roleRead           = "RoleManagement.Read.Directory"
	policyRead         = "Policy.Read.All"
	applicationRead    = "Application.Read.All"
	exchangeManageApps = "Exchange.ManageAsApp"
)

// appRole is a permission of a resource.
type appRole struct{ id, resource string }

var appRoles = map[string]appRole{
	domainReadWrite:    {"7e05723c-0bb0-42da-be95-ae9f08a6e53c", graphAppID},
	organizationRead:   {"498476ce-e0fe-48b0-b801-37ba7e2685c6", graphAppID},
	userReadWrite:      {"741f803b-c850-494e-b5df-cde7c675a1ca", graphAppID},
	passwordReadWrite:  {"cc117bb9-00cf-4eb8-b580-ea2a878fe8f7", graphAppID},
	enableAccount:      {"3011c876-62b7-4ada-afa2-506cbbecc68c", graphAppID},
	roleReadWrite:      {"9e3f62cf-ca93-4989-b6ce-bf83c28f9fe8", graphAppID},
	roleRead:           {"483bed4a-2ad3-4361-a73b-c83ccdbdc53c", graphAppID},
	policyRead:         {"246dd0d5-5bd0-4def-940b-0421030a5b68", graphAppID},
	applicationRead:    {"9a5d68dd-52b0-4cc2-bd40-abcf44ac3a30", graphAppID},
	exchangeManageApps: {"dc50a0fb-09a3-484d-be87-e023b12c6440", exchangeAppID},
}

// usualPermissions is what our application registers. Application.Read.All is
// not among them: reading service principals is refused.
func usualPermissions() []string {
	return []string{domainReadWrite, organizationRead, userReadWrite, passwordReadWrite, enableAccount,
		roleReadWrite, roleRead, policyRead, exchangeManageApps}
}
