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
	paid := licences{Paid: 1}
	if l := c.tenant.Behaviour.Licenses; l != nil {
		paid = *l
	}
	return map[string]any{"users": licensedUsers, "licences": paid}, ""
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
	b := &mailbox{ID: c.platformState.newID(), Name: body.Name, Address: address, Created: c.now}
	b.Alias = fmt.Sprintf("%s%d", local, c.platformState.Serial)
	b.Username = b.Alias + "@" + c.tenant.Builtin
	c.tenant.Mailboxes = append(c.tenant.Mailboxes, b)
	return b, ""
}

// findMailboxInPath returns the mailbox with the address or the id in the path.
func (c *call) findMailboxInPath(part string) (*mailbox, string) {
	if b := c.tenant.findMailbox(c.http.PathValue(part)); b != nil {
		return b, ""
	}
	return nil, "no_mailbox"
}

// visibleMailbox returns the mailbox of findMailboxInPath, or an error code while the directory
// does not show it yet.
func (c *call) visibleMailbox(part string) (*mailbox, string) {
	b, code := c.findMailboxInPath(part)
	if code == "" && c.now.Before(b.Created.Add(milliseconds(c.tenant.Behaviour.MailboxMS))) {
		return nil, "not_ready"
	}
	return b, code
}

func getMailbox(c *call) (any, string) { return c.findMailboxInPath("address") }

func renameMailbox(c *call) (any, string) {
	b, code := c.findMailboxInPath("address")
	if code == "" {
		c.read(b) // the only member is name
	}
	return b, code
}

func openSubmission(c *call) (any, string) {
	b, code := c.visibleMailbox("address")
	if code == "" {
		b.Submission = true
	}
	return struct{}{}, code
}

func openAccount(c *call) (any, string) {
	var body struct {
		Username string `json:"username"`
		Password string `json:"password"`
	}
	c.read(&body)
	b, code := c.visibleMailbox("id")
	switch {
	case code != "":
		return nil, code
	case len(body.Password) < shortestPassword:
		return nil, "password_weak"
	}
	b.Username, b.Enabled = body.Username, true
	return struct{}{}, ""
}

func removeAccount(c *call) (any, string) {
	b, code := c.visibleMailbox("id")
	if code == "" {
		c.tenant.Mailboxes = slices.DeleteFunc(c.tenant.Mailboxes, func(other *mailbox) bool { return other == b })
	}
	return struct{}{}, code
}
