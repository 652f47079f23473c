// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/text/unicode/norm"

	"github.com/tenantry/tenantry/app/mailboxes"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/sendlimit"
)

// provisionMailboxes is the body of provision-mailboxes. Domain, password and addresses have no
// schema rules: core checks them and has specific error codes.
type provisionMailboxes struct {
	Domain          string          `json:"domain" doc:"A verified domain of the tenant."`
	AccountPassword string          `json:"account_password" writeOnly:"true" doc:"8 to 256 characters with three of the four classes: lower case, upper case, digit (each as Unicode has it, so ö is lower case) and everything else. It is never stored or shown."`
	Mailboxes       []wantedMailbox `json:"mailboxes" minItems:"1" doc:"The mailboxes. With those that exist a domain holds at most 3."`
}

type wantedMailbox struct {
	Name  string `json:"name" doc:"The display name, 1 to 256 characters."`
	Email string `json:"email" doc:"The address; it ends with @ and the domain."`
}

func (b provisionMailboxes) request() (mailboxes.Request, error) {
	specs, err := mailbox.CheckNames(each(b.Mailboxes, func(w wantedMailbox) mailbox.Spec {
		return mailbox.Spec{DisplayName: norm.NFC.String(w.Name), Address: w.Email}
	}))
	if err != nil {
		return mailboxes.Request{}, err
	}
	return mailboxes.Request{Domain: b.Domain, Password: secret.New(b.AccountPassword), Mailboxes: specs}, nil
}

// updateMailbox keeps the raw members of the body. The error code depends on all members together,
// and every wrong type of daily_send_limit has a specific code.
type updateMailbox struct{ members map[string]json.RawMessage }

// UnmarshalJSON accepts any JSON value. The method change validates it.
func (b *updateMailbox) UnmarshalJSON(raw []byte) error {
	if err := json.Unmarshal(raw, &b.members); err != nil {
		b.members = nil // not an object
	}
	return nil
}

// change returns the requested change, or invalid_request. It accepts an empty change and a send
// limit of the wrong type: core refuses them after it has checked ownership.
func (b updateMailbox) change() (mailboxes.Change, error) {
	if b.members == nil {
		return mailboxes.Change{}, invalid("the body is not an object", fault.Field{Location: "body", Message: "expected object"})
	}
	var c mailboxes.Change
	name, named := b.members["display_name"]
	limit, limited := b.members["daily_send_limit"]
	if unknown := b.unknown(); len(unknown) > 0 && (named || limited) {
		return c, invalid("the body has members that this operation does not know", unknown...)
	}
	if named {
		var text *string
		if err := json.Unmarshal(name, &text); err != nil || text == nil {
			return c, invalid("a member has the wrong type", fault.Field{Location: "body.display_name", Message: "expected string"})
		}
		canonical, err := mailbox.DisplayName(norm.NFC.String(*text), "body.display_name")
		if err != nil {
			return c, err
		}
		c.DisplayName = &canonical
	}
	if limited {
		perDay := wholeNumber(limit)
		c.DailySendLimit = &perDay
	}
	return c, nil
}

// unknown returns the members that are not fields, in the form that huma reports for other bodies.
func (b updateMailbox) unknown() []fault.Field {
	var fields []fault.Field
	for _, name := range slices.Sorted(maps.Keys(b.members)) {
		if name != "display_name" && name != "daily_send_limit" && len(fields) < maxFields {
			fields = append(fields, fieldOf(&huma.ErrorDetail{Location: "body." + name, Message: "unexpected property"}))
		}
	}
	return fields
}

// wholeNumber parses an integer literal: 5, but not 5.0, 1e1 or "5". It returns 0 for anything
// else, which core refuses with the field's own code.
func wholeNumber(raw json.RawMessage) int {
	n, err := strconv.Atoi(string(raw))
	if err != nil {
		return 0
	}
	return n
}

// Schema documents the rules that change and core enforce.
func (updateMailbox) Schema(huma.Registry) *huma.Schema {
	least, most := float64(sendlimit.Least), float64(sendlimit.Most)
	one, longest := 1, 256
	return &huma.Schema{
		Type: huma.TypeObject, MinProperties: &one, AdditionalProperties: false,
		Description: "The members to change, at least one.",
		Properties: map[string]*huma.Schema{
			"display_name": {Type: huma.TypeString, MinLength: &one, MaxLength: &longest, Description: "The new display name."},
			"daily_send_limit": {Type: huma.TypeInteger, Minimum: &least, Maximum: &most,
				Description: "The most messages a day, written as an integer."},
		},
	}
}
