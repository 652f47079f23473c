// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"slices"
	"strings"
	"time"
)

// tenant is one simulated Microsoft 365 tenant, as it lies on disk.
type tenant struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Prefix  string    `json:"prefix"` // of <prefix>.onmicrosoft.com
	Created time.Time `json:"created"`
	Serial  int       `json:"serial"` // order of creation

	Bootstrap string    `json:"bootstrap"`
	SMTPAuth  string    `json:"smtp_auth"`
	Behaviour behaviour `json:"behaviour"`

	Grant       grant            `json:"grant"`
	Codes       map[string]code  `json:"codes"`
	Assignments []roleAssignment `json:"assignments"`
	Users       []user           `json:"users"`
	Domains     []mailDomain     `json:"domains"`
	Exchange    organization     `json:"exchange"`
}

// initial is the tenant's built-in domain.
func (t *tenant) initial() string { return t.Prefix + ".onmicrosoft.com" }

// admin is the sign-in name of the tenant's administrator.
func (t *tenant) admin() string { return "admin@" + t.initial() }

// grant is what the tenant has allowed our application.
type grant struct {
	Consent string `json:"consent"` // "none", "granted" or "revoked"
	// Principal is the object id of our service principal; it stays over a
	// revocation, so that consent given again finds its role assignments.
	Principal string   `json:"principal"`
	Visible   lag      `json:"visible"`
	Roles     []string `json:"roles"` // app roles, by value
	// ExchangeRoleRevoked remembers a withdrawn directory role for a later
	// consent to give back.
	ExchangeRoleRevoked bool `json:"exchange_role_revoked"`
}

func (g grant) has(role string) bool {
	return g.Consent == "granted" && slices.Contains(g.Roles, role)
}

// roleAssignment is a directory role that somebody holds.
type roleAssignment struct {
	ID        string `json:"id"`
	Principal string `json:"principal"`
	Role      string `json:"role"` // template id
	Effective lag    `json:"effective"`
}

// user is an account of the directory.
type user struct {
	ID          string    `json:"id"`
	UPN         string    `json:"upn"`
	Mail        string    `json:"mail"`
	Nickname    string    `json:"nickname"`
	DisplayName string    `json:"display_name"`
	Enabled     bool      `json:"enabled"`
	PasswordSet bool      `json:"password_set"` // never the password itself
	Policies    string    `json:"policies"`
	Licensed    bool      `json:"licensed"`
	Home        string    `json:"home"` // a guest's own tenant, else ""
	Created     time.Time `json:"created"`
	Visible     lag       `json:"visible"` // in Graph
}

// user finds an account by object id or sign-in name.
func (t *tenant) user(key string) *user {
	for i := range t.Users {
		if strings.EqualFold(t.Users[i].ID, key) || strings.EqualFold(t.Users[i].UPN, key) {
			return &t.Users[i]
		}
	}
	return nil
}

// signInUser finds an account by what a person types: a guest types the
// address of the home organization, and "guest@" and the tenant's own domain
// is a short form of it.
func (t *tenant) signInUser(name string) *user {
	if u := t.user(name); u != nil {
		return u
	}
	for i := range t.Users {
		u := &t.Users[i]
		if u.Home != "" && (strings.EqualFold(u.Mail, name) || strings.EqualFold("guest@"+t.initial(), name)) {
			return u
		}
	}
	return nil
}

// holds reports whether a directory role of somebody acts at a time.
func (t *tenant) holds(principal, role string, at time.Time) bool {
	return slices.ContainsFunc(t.Assignments, func(a roleAssignment) bool {
		return a.Principal == principal && a.Role == role && a.Effective.over(at)
	})
}

// rolesOf lists the template ids of the directory roles that act at a time.
func (t *tenant) rolesOf(principal string, at time.Time) []string {
	var ids []string
	for _, a := range t.Assignments {
		if a.Principal == principal && a.Effective.over(at) {
			ids = append(ids, a.Role)
		}
	}
	return ids
}
