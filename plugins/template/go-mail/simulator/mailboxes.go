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
	var in struct {
		Name    string `json:"name"`
		Address string `json:"address"`
	}
	c.read(&in)
	address := strings.ToLower(in.Address)
	local, domain, _ := strings.Cut(address, "@")
	switch {
	case !c.tenant.accepts(domain, c.now):
		return nil, "not_ready"
	case c.tenant.findMailbox(address) != nil:
		return nil, "address_taken"
	}
	b := &box{ID: c.state.newID(), Name: in.Name, Address: address, Created: c.now}
	b.Alias = fmt.Sprintf("%s%d", local, c.state.Serial)
	b.Username = b.Alias + "@" + c.tenant.Builtin
	c.tenant.Mailboxes = append(c.tenant.Mailboxes, b)
	return b, ""
}

// box returns the mailbox with the address or the id in the path.
func (c *call) box(part string) (*box, string) {
	if b := c.tenant.findMailbox(c.http.PathValue(part)); b != nil {
		return b, ""
	}
	return nil, "no_mailbox"
}

// settledBox is box for an operation that is not possible until the directory shows the mailbox.
func (c *call) settledBox(part string) (*box, string) {
	b, code := c.box(part)
	if code == "" && c.now.Before(b.Created.Add(milliseconds(c.tenant.Behaviour.MailboxMS))) {
		return nil, "not_ready"
	}
	return b, code
}

func getMailbox(c *call) (any, string) { return c.box("address") }

func renameMailbox(c *call) (any, string) {
	b, code := c.box("address")
	if code == "" {
		c.read(b) // the only member is name
	}
	return b, code
}

func openSubmission(c *call) (any, string) {
	b, code := c.settledBox("address")
	if code == "" {
		b.Submission = true
	}
	return struct{}{}, code
}

func openAccount(c *call) (any, string) {
	var in struct {
		Username string `json:"username"`
		Password string `json:"password"`
	}
	c.read(&in)
	b, code := c.settledBox("id")
	switch {
	case code != "":
		return nil, code
	case len(in.Password) < shortestPassword:
		return nil, "password_weak"
	}
	b.Username, b.Enabled = in.Username, true
	return struct{}{}, ""
}

func removeAccount(c *call) (any, string) {
	b, code := c.settledBox("id")
	if code == "" {
		c.tenant.Mailboxes = slices.DeleteFunc(c.tenant.Mailboxes, func(other *box) bool { return other == b })
	}
	return struct{}{}, code
}
