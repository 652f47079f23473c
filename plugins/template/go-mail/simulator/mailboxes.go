// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"slices"
	"strings"
)

const (
	users            = 1 // the administrator has a licensed mailbox
	shortestPassword = 8
)

func people(c *call) (any, string) {
	paid := licences{Paid: 1}
	if l := c.tenant.Behaviour.Licenses; l != nil {
		paid = *l
	}
	return map[string]any{"users": users, "licences": paid}, ""
}

func listMailboxes(c *call) (any, string) {
	return map[string]any{"mailboxes": append([]*box{}, c.tenant.Mailboxes...)}, ""
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
	b := &box{ID: c.platformState.newID(), Name: body.Name, Address: address, Created: c.now}
	b.Alias = fmt.Sprintf("%s%d", local, c.platformState.Serial)
	b.Username = b.Alias + "@" + c.tenant.Builtin
	c.tenant.Mailboxes = append(c.tenant.Mailboxes, b)
	return b, ""
}

// findBox returns the mailbox with the address or the id in the path.
func (c *call) findBox(part string) (*box, string) {
	if b := c.tenant.findMailbox(c.http.PathValue(part)); b != nil {
		return b, ""
	}
	return nil, "no_mailbox"
}

// visibleBox returns the mailbox of findBox, or an error code while the directory does not show it
// yet.
func (c *call) visibleBox(part string) (*box, string) {
	b, code := c.findBox(part)
	if code == "" && c.now.Before(b.Created.Add(milliseconds(c.tenant.Behaviour.MailboxMS))) {
		return nil, "not_ready"
	}
	return b, code
}

func getMailbox(c *call) (any, string) { return c.findBox("address") }

func renameMailbox(c *call) (any, string) {
	b, code := c.findBox("address")
	if code == "" {
		c.read(b) // the only member is name
	}
	return b, code
}

func openSubmission(c *call) (any, string) {
	b, code := c.visibleBox("address")
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
	b, code := c.visibleBox("id")
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
	b, code := c.visibleBox("id")
	if code == "" {
		c.tenant.Mailboxes = slices.DeleteFunc(c.tenant.Mailboxes, func(other *box) bool { return other == b })
	}
	return struct{}{}, code
}
