// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"strings"
	"time"
)

// prefixOf makes the first label of the built-in domain out of a name.
func prefixOf(name string) string {
	kept := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(name))
	return kept[:min(len(kept), 20)]
}

// populate gives a new tenant its people and its system mailbox.
func (t *tenant) populate(key func(string) string, now time.Time) {
	people := []struct{ local, name, role string }{
		{"admin", "Ada Admin", globalAdministrator},
		{"user", "Ulla User", ""},
	}
	for _, p := range people {
		upn := p.local + "@" + t.initial()
		t.Users = append(t.Users, user{ID: key(p.local), UPN: upn, Mail: upn, Nickname: p.local,
			DisplayName: p.name, Enabled: true, PasswordSet: true, Licensed: p.role != "", Created: now})
	}
	// The guest holds the same role as the administrator: who refuses guests
	// must look at where they come from.
	t.Users = append(t.Users, user{ID: key("guest"), UPN: "guest_partner.example#EXT#@" + t.initial(),
		Mail: "guest@partner.example", Nickname: "guest", DisplayName: "Gil Guest", Enabled: true,
		Home: key("guest's home"), Created: now})
	for _, who := range []string{"admin", "guest"} {
		t.assign(key(who), globalAdministrator, lag{})
	}
	t.Exchange.Mailboxes = []mailbox{
		{ObjectID: key("admin"), GUID: key("admin mailbox"), Exchange: key("admin exchange"), Name: "admin",
			DisplayName: "Ada Admin", Alias: "admin", Primary: t.admin(), Kind: "UserMailbox", Created: now},
		{GUID: key("discovery"), Exchange: key("discovery exchange"), Kind: "DiscoveryMailbox", Created: now,
			Name:        "DiscoverySearchMailbox{D919BA05-46A6-415f-80AD-7E09334BB852}",
			DisplayName: "Discovery Search Mailbox",
			Alias:       "DiscoverySearchMailbox{D919BA05-46A6-415f-80AD-7E09334BB852}",
			Primary:     "DiscoverySearchMailbox{D919BA05-46A6-415f-80AD-7E09334BB852}@" + t.initial()},
	}
}

// assign gives somebody a directory role and returns the assignment.
func (t *tenant) assign(principal, role string, effective lag) roleAssignment {
	a := roleAssignment{ID: digest("assignment", t.ID, principal, role), Principal: principal, Role: role,
		Effective: effective}
	t.Assignments = append(t.Assignments, a)
	return a
}
