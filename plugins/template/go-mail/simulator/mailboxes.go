// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"slices"
	"strings"
)

const (
	licensedUsers    = 1 // the administrator has a licensed mailbox
	shortestPassword = 8
)

func countPeople(c *call) (any, string) {
	counts := licences{Paid: 1}
	if l := c.tenant.Behaviour.Licenses; l != nil {
		counts = *l
	}
	return map[string]any{"users": licensedUsers, "licences": counts}, ""
}

func listMailboxes(c *call) (any, string) {
	return map[string]any{"mailboxes": append([]*mailbox{}, c.tenant.Mailboxes...)}, ""
}

func createMailbox(c *call) (any, string) {
	var body struct {
		Name    string `json:"name"`
		Address string `json:"address"`
	}
	c.read(&body)
	address := strings.ToLower(body.Address)
	local, domain, _ := strings.Cut(address, "@")
	switch {
	case !c.tenant.acceptsMailFor(domain, c.now):
		return nil, "not_ready"
	case c.tenant.findMailbox(address) != nil:
		return nil, "address_taken"
	}
	created := &mailbox{ID: c.platformState.newID(), Name: body.Name, Address: address, Created: c.now}
	created.Alias = fmt.Sprintf("%s%d", local, c.platformState.Serial)
	created.Username = created.Alias + "@" + c.tenant.Builtin
	c.tenant.Mailboxes = append(c.tenant.Mailboxes, created)
	return created, ""
}

// findMailbox returns the mailbox with an address or an id, or nil.
func (t *tenant) findMailbox(key string) *mailbox {
	for _, m := range t.Mailboxes {
		if strings.EqualFold(m.Address, key) || m.ID == key {
			return m
		}
	}
	return nil
}

// findMailboxInPath returns the mailbox with the address or the id in the path. It returns the
// error code no_mailbox if there is no such mailbox.
func (c *call) findMailboxInPath(part string) (*mailbox, string) {
	if m := c.tenant.findMailbox(c.http.PathValue(part)); m != nil {
		return m, ""
	}
	return nil, "no_mailbox"
}

// visibleMailbox returns the mailbox of findMailboxInPath, or an error code while the directory
// does not show it yet.
func (c *call) visibleMailbox(part string) (*mailbox, string) {
	m, code := c.findMailboxInPath(part)
	if code == "" && c.now.Before(m.Created.Add(milliseconds(c.tenant.Behaviour.MailboxMS))) {
		return nil, "not_ready"
	}
	return m, code
}

func getMailbox(c *call) (any, string) { return c.findMailboxInPath("address") }

func renameMailbox(c *call) (any, string) {
	m, code := c.findMailboxInPath("address")
	if code == "" {
		c.read(m) // the request body has only the name
	}
	return m, code
}

func openSubmission(c *call) (any, string) {
	m, code := c.visibleMailbox("address")
	if code == "" {
		m.Submission = true
	}
	return struct{}{}, code
}

func openAccount(c *call) (any, string) {
	var body struct {
		Username string `json:"username"`
		Password string `json:"password"`
	}
	c.read(&body)
	m, code := c.visibleMailbox("id")
	switch {
	case code != "":
		return nil, code
	case len(body.Password) < shortestPassword:
		return nil, "password_weak"
	}
	m.Username, m.Enabled = body.Username, true
	return struct{}{}, ""
}

func removeAccount(c *call) (any, string) {
	m, code := c.visibleMailbox("id")
	if code == "" {
		c.tenant.Mailboxes = slices.DeleteFunc(c.tenant.Mailboxes, func(other *mailbox) bool { return other == m })
	}
	return struct{}{}, code
}
