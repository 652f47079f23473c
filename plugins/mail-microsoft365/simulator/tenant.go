// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"slices"
	"strings"
	"time"
)

type tenant struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Prefix  string    `json:"prefix"` // the initial domain is <prefix>.onmicrosoft.com
	Created time.Time `json:"created"`
	Serial  int       `json:"serial"` // order of creation

	Bootstrap string    `json:"bootstrap"` // "ready", "dehydrated" or "denied" (see grantConsent)
	SMTPAuth  string    `json:"smtp_auth"` // "allowed" or "refused"
	Behaviour behaviour `json:"behaviour"`

	Grant       grant                        `json:"grant"`
	Codes       map[string]authorizationCode `json:"codes"`
	Assignments []roleAssignment             `json:"assignments"`
	Users       []user                       `json:"users"`
	Domains     []mailDomain                 `json:"domains"`
	Exchange    organization                 `json:"exchange"`
	History     history                      `json:"history"`
}

// initialDomain returns the domain that Microsoft creates with the tenant.
func (t *tenant) initialDomain() string { return t.Prefix + ".onmicrosoft.com" }

func (t *tenant) adminName() string { return "admin@" + t.initialDomain() }

type grant struct {
	Consent string `json:"consent"` // "none", "granted" or "revoked"
	// Principal is the object id of the application's service principal. A revocation of the
	// consent deletes the service principal with its roles, and the next consent creates a new one.
	Principal     string   `json:"principal"`
	VisibilityLag lag      `json:"visible"` // until the login host issues app-only tokens
	Roles         []string `json:"roles"`   // names of app roles
	// ExchangeRoleRevoked means that the next consent restores the Exchange role.
	ExchangeRoleRevoked bool `json:"exchange_role_revoked"`
}

// hasAppRole reports whether consent is in force and includes an app role.
func (g grant) hasAppRole(role string) bool {
	return g.Consent == "granted" && slices.Contains(g.Roles, role)
}

type roleAssignment struct {
	ID        string `json:"id"`
	Principal string `json:"principal"`
	Role      string `json:"role"`      // template id
	EffectLag lag    `json:"effective"` // until the role is in effect
}

// user is a user object of the directory. Every mailbox except a system mailbox belongs to a user.
type user struct {
	ID            string    `json:"id"`
	UPN           string    `json:"upn"`
	Mail          string    `json:"mail"`
	Nickname      string    `json:"nickname"`
	DisplayName   string    `json:"display_name"`
	Enabled       bool      `json:"enabled"`
	PasswordSet   bool      `json:"password_set"` // the password itself is not stored
	Policies      string    `json:"policies"`
	Licensed      bool      `json:"licensed"`
	HomeTenant    string    `json:"home"` // the id of a guest's own tenant, "" for other users
	Created       time.Time `json:"created"`
	VisibilityLag lag       `json:"visible"` // until Graph shows the user
}

// user returns the user with this object id or sign-in name, or nil.
func (t *tenant) user(key string) *user {
	for i := range t.Users {
		if strings.EqualFold(t.Users[i].ID, key) || strings.EqualFold(t.Users[i].UPN, key) {
			return &t.Users[i]
		}
	}
	return nil
}

// findSignInUser returns the user for the name that a person types at sign-in, or nil. The guest
// can sign in with the address in the guest's home organization, or with guest@ and the initial
// domain of this tenant.
func (t *tenant) findSignInUser(name string) *user {
	if u := t.user(name); u != nil {
		return u
	}
	for i := range t.Users {
		u := &t.Users[i]
		if u.HomeTenant != "" && (strings.EqualFold(u.Mail, name) || strings.EqualFold("guest@"+t.initialDomain(), name)) {
			return u
		}
	}
	return nil
}

// hasDirectoryRole reports whether an assignment of the role to principal is in effect at a time.
func (t *tenant) hasDirectoryRole(principal, role string, at time.Time) bool {
	return slices.ContainsFunc(t.Assignments, func(a roleAssignment) bool {
		return a.Principal == principal && a.Role == role && a.EffectLag.hasPassed(at)
	})
}

// directoryRolesOf returns the template ids of the directory roles that principal holds at a time.
func (t *tenant) directoryRolesOf(principal string, at time.Time) []string {
	var ids []string
	for _, a := range t.Assignments {
		if a.Principal == principal && a.EffectLag.hasPassed(at) {
			ids = append(ids, a.Role)
		}
	}
	return ids
}

// domainPrefix returns the first 20 letters a-z and digits of a name, in lower case. The initial
// domain begins with this text.
func domainPrefix(name string) string {
	prefix := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(name))
	return prefix[:min(len(prefix), 20)]
}

// addInitialObjects adds the users, the role assignments and the mailboxes of a new tenant. key
// derives the id of an object from a label.
func (t *tenant) addInitialObjects(key func(string) string, now time.Time) {
	people := []struct{ local, name, role string }{
		{"admin", "Ada Admin", globalAdministrator},
		{"user", "Ulla User", ""},
	}
	for _, p := range people {
		upn := p.local + "@" + t.initialDomain()
		t.Users = append(t.Users, user{ID: key(p.local), UPN: upn, Mail: upn, Nickname: p.local,
			DisplayName: p.name, Enabled: true, PasswordSet: true, Licensed: p.role != "", Created: now})
	}
	// The guest holds the same role as the administrator, so that tests notice a client that does
	// not check the home tenant.
	t.Users = append(t.Users, user{ID: key("guest"), UPN: "guest_partner.example#EXT#@" + t.initialDomain(),
		Mail: "guest@partner.example", Nickname: "guest", DisplayName: "Gil Guest", Enabled: true,
		HomeTenant: key("guest's home"), Created: now})
	for _, local := range []string{"admin", "guest"} {
		t.assignRole(key(local), globalAdministrator, lag{})
	}
	t.Exchange.Mailboxes = []mailbox{
		{ObjectID: key("admin"), GUID: key("admin mailbox"), ExchangeGUID: key("admin exchange"), Name: "admin",
			DisplayName: "Ada Admin", Alias: "admin", Primary: t.adminName(), Kind: "UserMailbox", Created: now},
		{GUID: key("discovery"), ExchangeGUID: key("discovery exchange"), Kind: "DiscoveryMailbox", Created: now,
			Name:        "DiscoverySearchMailbox{D919BA05-46A6-415f-80AD-7E09334BB852}",
			DisplayName: "Discovery Search Mailbox",
			Alias:       "DiscoverySearchMailbox{D919BA05-46A6-415f-80AD-7E09334BB852}",
			Primary:     "DiscoverySearchMailbox{D919BA05-46A6-415f-80AD-7E09334BB852}@" + t.initialDomain()},
	}
}

// assignRole adds a role assignment and returns it. The role is in effect once the lag has passed.
func (t *tenant) assignRole(principal, role string, effectLag lag) roleAssignment {
	a := roleAssignment{ID: deriveText("assignment", t.ID, principal, role), Principal: principal, Role: role,
		EffectLag: effectLag}
	t.Assignments = append(t.Assignments, a)
	return a
}

// Ids that are the same in every tenant: resources, role templates and entries of the wids claim.
const (
	graphAppID    = "00000003-0000-0000-c000-000000000000"
	exchangeAppID = "00000002-0000-0ff1-ce00-000000000000"

	globalAdministrator   = "62e90394-69f5-4237-9190-012177145e10"
	exchangeAdministrator = "29232cdf-9323-42fd-ade2-1d097af3e4de"
	ordinaryMember        = "b79fbf4d-3ef9-4689-8143-76b194e85509"
	ordinaryApplication   = "0997a1d0-0d1d-4acb-b408-d5ca73121e90"
)

// directoryRoles maps the template ids of the assignable directory roles to their names.
var directoryRoles = map[string]string{
	globalAdministrator:                    "Global Administrator",
	exchangeAdministrator:                  "Exchange Administrator",
	"8329153b-31d0-4727-b945-745eb3bc5f31": "Domain Name Administrator",
	"fe930be7-5e62-47db-91af-98c3a49a38b1": "User Administrator",
	"e8611ab8-c189-46e8-94e1-60213ab1f814": "Privileged Role Administrator",
	"31392ffb-586c-42d1-9346-e59415a2cc4e": "Exchange Recipient Administrator",
}

// The names of the app roles that this package checks or registers.
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

// appRole is the id of an application permission, and the app id of the resource that defines it.
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

// defaultPermissions returns the app roles of a new registration. They lack Application.Read.All,
// so Graph refuses requests of the application for service principals.
func defaultPermissions() []string {
	return []string{domainReadWrite, organizationRead, userReadWrite, passwordReadWrite, enableAccount,
		roleReadWrite, roleRead, policyRead, exchangeManageApps}
}
