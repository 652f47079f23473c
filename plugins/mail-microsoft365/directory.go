// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/graph"
)

const builtinSuffix = ".onmicrosoft.com"

type organization struct {
	ID              string           `json:"id"`
	Name            string           `json:"displayName"`
	VerifiedDomains []verifiedDomain `json:"verifiedDomains"`
}

type verifiedDomain struct {
	Name    string `json:"name"`
	Default bool   `json:"isDefault"`
	Initial bool   `json:"isInitial"`
}

// organization reads the tenant's organization record. A tenant has exactly one.
func (c *tenantClient) organization(ctx context.Context) (organization, error) {
	records, err := graph.List[organization](ctx, c.graph, graph.StaticPath("/organization"),
		graph.Query("$select", "id,displayName,verifiedDomains"))
	switch {
	case err != nil:
		return organization{}, err
	case len(records) != 1 || (records[0].ID != "" && !strings.EqualFold(records[0].ID, string(c.id))):
		return organization{}, call.Broken("graph", "organization")
	}
	return records[0], nil
}

// Profile implements sdk.MailTenant. It replaces an old token, so that a sync notices a revoked
// consent before the token expires.
func (c *tenantClient) Profile(ctx context.Context) (tenant.Profile, error) {
	c.graph.Tokens.RenewOld()
	org, err := c.organization(ctx)
	if err != nil {
		return tenant.Profile{}, err
	}
	p := tenant.Profile{Name: org.Name}
	for _, d := range org.VerifiedDomains {
		name := strings.ToLower(d.Name)
		switch {
		case d.Initial:
			p.BuiltinDomain = name
		case d.Default && !hasBuiltinSuffix(name):
			p.DefaultDomain = name
		}
	}
	return p, nil
}

type user struct {
	Mail     json.RawMessage   `json:"mail"`
	Licenses []json.RawMessage `json:"assignedLicenses"`
}

// hasMailbox reports whether the user has a licensed mailbox. The user must have at least one
// licence. If the answer contains the property mail, the property must be neither null nor empty.
func (u user) hasMailbox() bool {
	mail := string(bytes.TrimSpace(u.Mail))
	return len(u.Licenses) > 0 && mail != "null" && mail != `""`
}

// UserMailboxes implements sdk.MailTenant. It uses Graph, so it works before Exchange is prepared.
func (c *tenantClient) UserMailboxes(ctx context.Context) (int, error) {
	users, err := graph.List[user](ctx, c.graph, graph.StaticPath("/users"),
		graph.Query("$select", "id,mail,assignedLicenses", "$top", "999"))
	count := 0
	for _, u := range users {
		if u.hasMailbox() {
			count++
		}
	}
	return count, err
}

func hasBuiltinSuffix(name string) bool {
	return strings.HasSuffix(strings.ToLower(name), builtinSuffix)
}
